// Handles that can be checked: a number that contains the slot, and how often the slot has been used.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace emulator {

// A handle is no address. A look-up takes two loads. It recognizes numbers that never were a handle, and handles whose object
// has ended, even if the slot is in use again. Objects are never freed, only reused. Thread-safe.
template <class Object, unsigned kTag, unsigned kIndexBits = 22>
class HandleTable {
  static_assert(sizeof(void*) == 8 && kTag < 0x80);

 public:
  struct Entry {
    std::uintptr_t handle = 0;
    Object* object = nullptr;  // null if there are too many
  };

  // A free object, whose handle is not valid yet.
  Entry acquire() {
    const std::lock_guard lock(mutex_);
    if (free_.empty() && !grow()) {
      return {};
    }
    const std::uintptr_t index = free_.back();
    free_.pop_back();
    Slot& slot = *slotAt(index);
    // Odd generations are live.
    const std::uintptr_t generation = slot.generation.load(std::memory_order_relaxed) + 1;
    return {(std::uintptr_t{kTag} << kTagShift) | (generation << kIndexBits) | index, &slot.object};
  }

  // Makes the handle valid.
  void publish(std::uintptr_t handle) { slotAt(handle & kIndexMask)->generation.store(generationOf(handle), std::memory_order_release); }

  // Null unless the handle is valid.
  Object* find(std::uintptr_t handle) const {
    if (handle >> kTagShift != kTag) {
      return nullptr;
    }
    Slot* const slot = slotAt(handle & kIndexMask);
    const bool odd = (generationOf(handle) & 1) != 0;
    return odd && slot != nullptr && slot->generation.load(std::memory_order_acquire) == generationOf(handle) ? &slot->object : nullptr;
  }

  // Makes the handle invalid. Null if it was not valid, for example because another thread was faster.
  Object* retire(std::uintptr_t handle) {
    Object* const object = find(handle);
    if (object == nullptr) {
      return nullptr;
    }
    std::uint32_t generation = generationOf(handle);
    return slotAt(handle & kIndexMask)->generation.compare_exchange_strong(generation, generation + 1) ? object : nullptr;
  }

  // Calls function(handle, object) for each valid handle. Other threads may add and remove handles meanwhile.
  template <class Function>
  void forEach(Function&& function) {
    std::size_t count;
    {
      const std::lock_guard lock(mutex_);
      count = chunk_count_ * kChunkSize;
    }
    for (std::uintptr_t index = 0; index < count; ++index) {
      Slot& slot = *slotAt(index);
      const std::uintptr_t generation = slot.generation.load(std::memory_order_acquire);
      if ((generation & 1) != 0) {
        function((std::uintptr_t{kTag} << kTagShift) | (generation << kIndexBits) | index, slot.object);
      }
    }
  }

  // The object of a retired handle can be used again.
  void recycle(std::uintptr_t handle) {
    const std::lock_guard lock(mutex_);
    free_.push_back(static_cast<std::uint32_t>(handle & kIndexMask));
  }

 private:
  struct Slot {
    std::atomic<std::uint32_t> generation{0};
    Object object;
  };
  static constexpr unsigned kTagShift = 56;
  static constexpr unsigned kChunkBits = 7;
  static constexpr std::uintptr_t kIndexMask = (std::uintptr_t{1} << kIndexBits) - 1;
  static constexpr std::size_t kChunks = std::size_t{1} << (kIndexBits - kChunkBits);
  static constexpr std::size_t kChunkSize = std::size_t{1} << kChunkBits;

  static std::uint32_t generationOf(std::uintptr_t handle) { return static_cast<std::uint32_t>(handle >> kIndexBits); }

  Slot* slotAt(std::uintptr_t index) const {
    Slot* const chunk = chunks_[index >> kChunkBits].load(std::memory_order_acquire);
    return chunk != nullptr ? chunk + (index & (kChunkSize - 1)) : nullptr;
  }

  bool grow() {
    if (chunk_count_ == kChunks) {
      return false;
    }
    // Room for every slot, so that recycle never allocates.
    free_.reserve((chunk_count_ + 1) * kChunkSize);
    auto chunk = std::make_unique<Slot[]>(kChunkSize);
    for (std::size_t i = kChunkSize; i-- > 0;) {
      free_.push_back(static_cast<std::uint32_t>(chunk_count_ * kChunkSize + i));
    }
    chunks_[chunk_count_++].store(chunk.release(), std::memory_order_release);
    return true;
  }

  std::mutex mutex_;
  std::vector<std::uint32_t> free_;
  std::size_t chunk_count_ = 0;
  std::atomic<Slot*> chunks_[kChunks] = {};
};

}  // namespace emulator
