#include "device_memory.h"

#include <iterator>

namespace emulator {
namespace {

constexpr std::size_t roundUp(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}
constexpr std::size_t roundDown(std::size_t value, std::size_t unit) {
  return value / unit * unit;
}

}  // namespace

DeviceMemory::DeviceMemory(
    std::uintptr_t base, std::size_t size, std::ptrdiff_t kernel_offset, platform::Backing backing, std::uintptr_t import_base,
    std::size_t import_size)
    : imports(import_base, import_size, kernel_offset),
      base_(base),
      size_(size),
      kernel_offset_(kernel_offset),
      backing_(backing),
      free_(size) {
  blocks_.emplace(base, Block{size, 0, Use::Free});
  sizes_.emplace(size, base);
}

// The smallest free block that is large enough. Large allocations start at a huge page where a block allows it, so that the
// system can back them, and take them back, in huge pages.
DeviceMemory::Place DeviceMemory::choose(std::size_t extent) {
  constexpr int kCandidates = 8;
  const Sizes::iterator smallest = sizes_.lower_bound({extent, 0});
  if (smallest == sizes_.end()) {
    return {smallest, 0};
  }
  if (extent >= platform::kHugePage) {
    int looked_at = 0;
    for (Sizes::iterator it = smallest; it != sizes_.end() && looked_at < kCandidates; ++it, ++looked_at) {
      const std::uintptr_t aligned = roundUp(it->second, platform::kHugePage);
      if (aligned + extent <= it->second + it->first) {
        return {it, aligned};
      }
    }
  }
  return {smallest, smallest->second};
}

Status DeviceMemory::allocate(std::size_t size, void** pointer) {
  const std::lock_guard lock(mutex_);
  const std::size_t extent = size <= size_ ? roundUp(size, kAlignment) : 0;
  const Place place = extent != 0 ? choose(extent) : Place{sizes_.end(), 0};
  if (place.block == sizes_.end()) {
    return outOfMemory(size);
  }
  const auto [block_size, block_base] = *place.block;
  if (!platform::commit(place.address + static_cast<std::uintptr_t>(kernel_offset_), extent)) {
    return fail(
        Status::MemoryAllocation, "the host has no memory left to back %zu bytes of device memory; free some, or run with less", size);
  }
  const std::size_t head = place.address - block_base;
  const std::size_t tail = block_size - head - extent;
  // Steps that may throw come before the first change of existing blocks, or undo themselves.
  if (tail != 0) {
    blocks_.emplace(place.address + extent, Block{tail, 0, Use::Free});
    try {
      sizes_.emplace(tail, place.address + extent);
      if (head != 0) {
        blocks_.emplace(place.address, Block{extent, size, Use::Live});
      }
    } catch (...) {
      sizes_.erase({tail, place.address + extent});
      blocks_.erase(place.address + extent);
      throw;
    }
  } else if (head != 0) {
    blocks_.emplace(place.address, Block{extent, size, Use::Live});
  }
  Sizes::node_type node = sizes_.extract(place.block);
  if (head != 0) {
    blocks_.find(block_base)->second.extent = head;
    node.value() = {head, block_base};
    sizes_.insert(std::move(node));
  } else {
    blocks_.find(block_base)->second = {extent, size, Use::Live};
  }
  free_ -= extent;
  *pointer = reinterpret_cast<void*>(place.address);
  return Status::Success;
}

Status DeviceMemory::outOfMemory(std::size_t size) {
  const std::size_t largest = sizes_.empty() ? 0 : sizes_.rbegin()->first;
  return fail(
      Status::MemoryAllocation,
      "tried to allocate %zu bytes; the device has %zu bytes, of which %zu are free, the largest piece being %zu bytes; free memory, or "
      "give the emulated device more with %sDEVICE_MEMORY",
      size, size_, free_, largest, EMULATOR_ENV_PREFIX);
}

bool DeviceMemory::isStart(std::uintptr_t address) {
  const std::lock_guard lock(mutex_);
  const auto it = blocks_.find(address);
  return it != blocks_.end() && it->second.use == Use::Live;
}

Status DeviceMemory::release(std::uintptr_t address) {
  if (imports.contains(address)) {
    return fail(
        Status::InvalidPointer, "%#zx belongs to another process; close it with the function for memory of other processes",
        static_cast<std::size_t>(address));
  }
  std::unique_lock lock(mutex_);
  const auto it = blocks_.find(address);
  if (it == blocks_.end() || it->second.use != Use::Live) {
    Allocation around;
    if (lookUp(address, &around)) {
      return fail(
          Status::InvalidPointer, "%#zx is inside of an allocation that starts at %#zx (%zu bytes); free its start",
          static_cast<std::size_t>(address), static_cast<std::size_t>(around.base), around.size);
    }
    return fail(
        Status::InvalidPointer, "nothing is allocated at %#zx; it was freed before, or never allocated", static_cast<std::size_t>(address));
  }
  const std::uintptr_t end = address + it->second.extent;
  it->second.use = Use::Leaving;
  const std::size_t page = platform::pageSize();
  if (roundUp(address, page) < roundDown(end, page)) {
    // Returning much memory takes time. No other thread uses this block, so others need not wait.
    lock.unlock();
    discard(roundUp(address, page), roundDown(end, page));
    lock.lock();
  }
  // Nodes of free neighbours are reused; only a block without any needs a new one, which may throw.
  Blocks::iterator merged = it;
  Sizes::node_type node;
  const auto next = std::next(it);
  const bool join_next = next != blocks_.end() && next->second.use == Use::Free;
  const bool join_previous = it != blocks_.begin() && std::prev(it)->second.use == Use::Free;
  if (!join_next && !join_previous) {
    try {
      sizes_.emplace(it->second.extent, address);
    } catch (...) {
      it->second.use = Use::Live;
      throw;
    }
  }
  free_ += it->second.extent;
  it->second = {it->second.extent, 0, Use::Free};
  if (join_next) {
    node = sizes_.extract({next->second.extent, next->first});
    it->second.extent += next->second.extent;
    blocks_.erase(next);
  }
  if (join_previous) {
    merged = std::prev(it);
    node = sizes_.extract({merged->second.extent, merged->first});
    merged->second.extent += it->second.extent;
    blocks_.erase(it);
  }
  if (node) {
    node.value() = {merged->second.extent, merged->first};
    sizes_.insert(std::move(node));
  }
  discardBorders(address, end, merged->first, merged->first + merged->second.extent);
  return Status::Success;
}

std::vector<std::uintptr_t> DeviceMemory::allocations() {
  std::vector<std::uintptr_t> starts;
  const std::lock_guard lock(mutex_);
  for (const auto& [address, block] : blocks_) {
    if (block.use == Use::Live) {
      starts.push_back(address);
    }
  }
  return starts;
}

// Discards the first and the last page of [begin, end), which it shares with its neighbours, if these are free too.
void DeviceMemory::discardBorders(std::uintptr_t begin, std::uintptr_t end, std::uintptr_t free_begin, std::uintptr_t free_end) {
  const std::size_t page = platform::pageSize();
  const std::uintptr_t first = roundDown(begin, page);
  const std::uintptr_t last = roundDown(end, page);
  if (first != begin && first >= free_begin && first + page <= free_end) {
    discard(first, first + page);
  }
  if (last != end && (last != first || first == begin) && last >= free_begin && last + page <= free_end) {
    discard(last, last + page);
  }
}

void DeviceMemory::discard(std::uintptr_t begin, std::uintptr_t end) {
  platform::discard(backing_, base_ + static_cast<std::uintptr_t>(kernel_offset_), begin - base_, end - begin);
}

bool DeviceMemory::lookUp(std::uintptr_t address, Allocation* allocation) const {
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) {
    return false;
  }
  --it;
  if (it->second.use != Use::Live || address - it->first >= it->second.requested) {
    return false;
  }
  *allocation = {it->first, it->second.requested};
  return true;
}

bool DeviceMemory::find(std::uintptr_t address, Allocation* allocation) {
  if (imports.contains(address)) [[unlikely]] {
    return imports.find(address, allocation);
  }
  const std::lock_guard lock(mutex_);
  return lookUp(address, allocation);
}

DeviceMemory::Lookup DeviceMemory::tryFind(std::uintptr_t address, Allocation* allocation) {
  for (int attempt = 0; attempt < 10000; ++attempt) {
    if (imports.contains(address)) {
      bool busy = false;
      const bool found = imports.tryFind(address, allocation, &busy);
      if (busy) {
        continue;
      }
      return found ? Lookup::Found : Lookup::None;
    }
    if (mutex_.try_lock()) {
      const bool found = lookUp(address, allocation);
      mutex_.unlock();
      return found ? Lookup::Found : Lookup::None;
    }
  }
  return Lookup::Busy;
}

std::size_t DeviceMemory::freeBytes() {
  const std::lock_guard lock(mutex_);
  return free_;
}

}  // namespace emulator
