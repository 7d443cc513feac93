#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <utility>

#include "device/Device.h"

namespace openreg::device {

// For an SDK that does not say how much memory there is: counts what this process allocates on each device, against a total that the port
// knows. Memory of other processes is not counted, so an allocation may fail although memoryInfo() shows room.
//
//   inline MemoryBudget& budget() {  // in Handles.h, because Device.cpp and Memory.cpp use it; never destroyed
//     static auto& instance = *new MemoryBudget(properties(0).total_memory);
//     return instance;
//   }
//   void* allocate(size_t nbytes) { return budget().allocate(current(), nbytes, [&] { return /* the SDK's allocation, or nullptr */; }); }
//   void release(void* pointer) { budget().release(pointer, [&] { /* the SDK's release */ }); }
//   MemoryInfo memoryInfo(int index) { return budget().info(index); }
class MemoryBudget {
 public:
  // Bytes of each device.
  explicit MemoryBudget(size_t total) : total_(total) {}

  // Calls the function, unless the total would be exceeded. Returns its result, or nullptr.
  template <class Allocate>
  void* allocate(int index, size_t nbytes, Allocate&& sdk_allocate) {
    if (!reserve(index, nbytes)) {
      return nullptr;
    }
    void* pointer = nullptr;
    try {
      pointer = std::forward<Allocate>(sdk_allocate)();
    } catch (...) {
      giveBack(index, nbytes);
      throw;
    }
    if (pointer == nullptr) {
      giveBack(index, nbytes);
      return nullptr;
    }
    const std::lock_guard<std::mutex> guard(mutex_);
    allocations_[pointer] = {index, nbytes};
    return pointer;
  }

  // Forgets the allocation before the function releases it, because another thread may be given the same address at once.
  template <class Release>
  void release(void* pointer, Release&& sdk_release) {
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      if (const auto found = allocations_.find(pointer); found != allocations_.end()) {
        used_[found->second.first] -= found->second.second;
        allocations_.erase(found);
      }
    }
    std::forward<Release>(sdk_release)();
  }

  MemoryInfo info(int index) {
    const std::lock_guard<std::mutex> guard(mutex_);
    return {total_ - used_[index], total_};
  }

 private:
  bool reserve(int index, size_t nbytes) {
    const std::lock_guard<std::mutex> guard(mutex_);
    size_t& used = used_[index];
    if (nbytes > total_ - used) {
      return false;
    }
    used += nbytes;
    return true;
  }

  void giveBack(int index, size_t nbytes) {
    const std::lock_guard<std::mutex> guard(mutex_);
    used_[index] -= nbytes;
  }

  const size_t total_;
  std::mutex mutex_;
  std::map<int, size_t> used_;
  std::map<void*, std::pair<int, size_t>> allocations_;
};

}  // namespace openreg::device
