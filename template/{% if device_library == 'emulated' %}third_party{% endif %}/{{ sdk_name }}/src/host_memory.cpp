#include "host_memory.h"

#include <algorithm>
#include <iterator>
#include <mutex>

namespace emulator {

Status HostMemory::allocate(std::size_t size, void** pointer) {
  void* const memory = platform::allocateHost(size);
  if (memory == nullptr) {
    return fail(Status::MemoryAllocation, "the host has no %zu bytes to pin", size);
  }
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::lock_guard lock(mutex_);
  try {
    allocations_.emplace(address, size);
  } catch (...) {
    platform::freeHost(memory, size);
    throw;
  }
  lowest_.store(std::min(lowest_.load(std::memory_order_relaxed), address), std::memory_order_relaxed);
  highest_.store(std::max(highest_.load(std::memory_order_relaxed), address + size), std::memory_order_relaxed);
  *pointer = memory;
  return Status::Success;
}

bool HostMemory::isStart(std::uintptr_t address) {
  const std::shared_lock lock(mutex_);
  return allocations_.contains(address);
}

Status HostMemory::release(std::uintptr_t address) {
  std::unique_lock lock(mutex_);
  const auto it = allocations_.find(address);
  if (it == allocations_.end()) {
    return fail(
        Status::InvalidPointer, "no pinned memory starts at %#zx; it was freed before, is inside of an allocation, or is not pinned",
        static_cast<std::size_t>(address));
  }
  const std::size_t size = it->second;
  allocations_.erase(it);
  // The address becomes free for others only here, so that no two entries can overlap.
  lock.unlock();
  platform::freeHost(reinterpret_cast<void*>(address), size);
  return Status::Success;
}

bool HostMemory::find(std::uintptr_t address, Allocation* allocation) {
  if (address < lowest_.load(std::memory_order_relaxed) || address >= highest_.load(std::memory_order_relaxed)) {
    return false;
  }
  const std::shared_lock lock(mutex_);
  auto it = allocations_.upper_bound(address);
  if (it == allocations_.begin()) {
    return false;
  }
  --it;
  if (address - it->first >= it->second) {
    return false;
  }
  *allocation = {it->first, it->second};
  return true;
}

}  // namespace emulator
