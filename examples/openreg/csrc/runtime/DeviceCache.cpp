#include "runtime/DeviceCache.h"

#include <c10/core/AllocatorConfig.h>

#include <algorithm>

#include "device/Device.h"
#include "device/Launch.h"
#include "device/Memory.h"
#include "runtime/Guard.h"

namespace openreg {

using c10::CachingAllocator::AcceleratorAllocatorConfig;
using c10::CachingAllocator::format_size;
using c10::CachingAllocator::kMinBlockSize;
using c10::CachingAllocator::kMinLargeAlloc;
using c10::CachingAllocator::kRoundLarge;
using c10::CachingAllocator::kSmallBuffer;
using c10::CachingAllocator::kSmallSize;
using c10::CachingAllocator::StatType;

namespace {

template <class Function>
void forEachStat(const c10::CachingAllocator::StatTypes& types, Function&& function) {
  c10::CachingAllocator::for_each_selected_stat_type(types, std::forward<Function>(function));
}

}  // namespace

BlockPool& DeviceCache::poolFor(size_t size) {
  return size <= kSmallSize ? small_ : large_;
}

size_t DeviceCache::segmentSize(size_t size) {
  if (size <= kSmallSize) {
    return kSmallBuffer;
  }
  if (size < kMinLargeAlloc) {
    return AcceleratorAllocatorConfig::large_segment_size();
  }
  return (size + kRoundLarge - 1) / kRoundLarge * kRoundLarge;
}

DeviceCache::StatTypes DeviceCache::statTypesOf(const BlockPool& pool) {
  StatTypes types{};
  types[static_cast<size_t>(StatType::AGGREGATE)] = true;
  types[static_cast<size_t>(pool.small ? StatType::SMALL_POOL : StatType::LARGE_POOL)] = true;
  return types;
}

Block* DeviceCache::allocate(size_t nbytes, c10::StreamId stream) {
  const size_t size = (nbytes + kMinBlockSize - 1) / kMinBlockSize * kMinBlockSize;
  Lock lock(mutex_);
  if (!pending_.empty()) [[unlikely]] {
    processEvents(/*wait=*/false);
  }
  Block* block = recent_.pop(stream, size);
  if (block == nullptr) {
    auto& pool = poolFor(size);
    block = takeFree(size, stream, pool);
    if (block == nullptr) {
      recent_.drain([this](Block* recent) { giveBack(recent); });
      block = takeFree(size, stream, pool);
    }
    if (block == nullptr) {
      block = takeNewSegment(size, stream, pool);
    }
    if (block == nullptr) {
      ++stats_.num_alloc_retries;
      releaseCached();
      block = takeNewSegment(size, stream, pool);
    }
    if (block == nullptr) {
      throwOutOfMemory(nbytes, lock);
    }
    split(block, size);
  }
  markAllocated(block, nbytes);
  return block;
}

Block* DeviceCache::takeFree(size_t size, c10::StreamId stream, BlockPool& pool) {
  Block key(index_, stream, nullptr, size, &pool);
  const auto found = pool.free.lower_bound(&key);
  if (found == pool.free.end() || (*found)->stream != stream) {
    return nullptr;
  }
  Block* block = *found;
  pool.free.erase(found);
  return block;
}

Block* DeviceCache::takeNewSegment(size_t size, c10::StreamId stream, BlockPool& pool) {
  const size_t segment_size = segmentSize(size);
  const DeviceGuard guard(index_);
  void* address = device::allocate(segment_size);
  if (address == nullptr) {
    return nullptr;
  }
  ++stats_.num_device_alloc;
  forEachStat(statTypesOf(pool), [&](size_t type) {
    stats_.segment[type].increase(1);
    stats_.reserved_bytes[type].increase(segment_size);
  });
  return new Block(index_, stream, address, segment_size, &pool);
}

// Cuts what is not needed off the end of a block and leaves it free.
void DeviceCache::split(Block* block, size_t size) {
  countInactiveSplit(block, -1);
  const size_t rest = block->size - size;
  if (block->pool->small ? rest < kMinBlockSize : rest <= kSmallSize) {
    return;
  }
  auto* remainder = new Block(index_, block->stream, static_cast<char*>(block->address) + size, rest, block->pool);
  remainder->previous = block;
  remainder->next = block->next;
  if (block->next != nullptr) {
    block->next->previous = remainder;
  }
  block->next = remainder;
  block->size = size;
  block->pool->free.insert(remainder);
  countInactiveSplit(remainder, +1);
}

void DeviceCache::markAllocated(Block* block, size_t requested) {
  block->allocated = true;
  block->requested = requested;
  forEachStat(statTypesOf(*block->pool), [&](size_t type) {
    stats_.allocation[type].increase(1);
    stats_.allocated_bytes[type].increase(block->size);
    stats_.active[type].increase(1);
    stats_.active_bytes[type].increase(block->size);
    stats_.requested_bytes[type].increase(block->requested);
  });
}

void DeviceCache::free(Block* block) {
  const Lock lock(mutex_);
  block->allocated = false;
  forEachStat(statTypesOf(*block->pool), [&](size_t type) {
    stats_.allocation[type].decrease(1);
    stats_.allocated_bytes[type].decrease(block->size);
  });
  if (!block->uses.empty()) [[unlikely]] {
    for (const auto& stream : std::exchange(block->uses, {})) {
      Event event;
      event.record(Stream(stream));
      ++block->pending_events;
      pending_.emplace_back(std::move(event), block);
    }
    return;
  }
  forEachStat(statTypesOf(*block->pool), [&](size_t type) {
    stats_.active[type].decrease(1);
    stats_.active_bytes[type].decrease(block->size);
    stats_.requested_bytes[type].decrease(block->requested);
  });
  if (!recent_.push(block)) {
    giveBack(block);
  }
}

// Merges a block that nobody uses with its free neighbours and puts the result into its pool.
void DeviceCache::giveBack(Block* block) {
  for (Block* neighbour : {block->previous, block->next}) {
    if (neighbour != nullptr && !neighbour->allocated && !neighbour->binned && neighbour->pending_events == 0 && block->pool->free.erase(neighbour) == 1) {
      countInactiveSplit(neighbour, -1);
      merge(block, neighbour);
    }
  }
  block->pool->free.insert(block);
  countInactiveSplit(block, +1);
}

void DeviceCache::merge(Block* block, Block* neighbour) {
  if (neighbour == block->previous) {
    block->address = neighbour->address;
    block->previous = neighbour->previous;
    if (block->previous != nullptr) {
      block->previous->next = block;
    }
  } else {
    block->next = neighbour->next;
    if (block->next != nullptr) {
      block->next->previous = block;
    }
  }
  block->size += neighbour->size;
  delete neighbour;
}

void DeviceCache::countInactiveSplit(const Block* block, int64_t sign) {
  if (!block->isSplit()) {
    return;
  }
  forEachStat(statTypesOf(*block->pool), [&](size_t type) {
    if (sign > 0) {
      stats_.inactive_split[type].increase(1);
      stats_.inactive_split_bytes[type].increase(block->size);
    } else {
      stats_.inactive_split[type].decrease(1);
      stats_.inactive_split_bytes[type].decrease(block->size);
    }
  });
}

void DeviceCache::recordStream(Block* block, c10::Stream stream) {
  const Lock lock(mutex_);
  if (stream.id() == block->stream && stream.device_index() == block->device) {
    return;
  }
  if (std::find(block->uses.begin(), block->uses.end(), stream) == block->uses.end()) {
    block->uses.push_back(stream);
  }
}

void DeviceCache::processEvents(bool wait) {
  for (size_t left = pending_.size(); left > 0; --left) {
    auto entry = std::move(pending_.front());
    pending_.pop_front();
    if (wait) {
      entry.first.synchronize();
    } else if (!entry.first.query()) {
      pending_.push_back(std::move(entry));
      continue;
    }
    Block* block = entry.second;
    if (--block->pending_events == 0) {
      forEachStat(statTypesOf(*block->pool), [&](size_t type) {
        stats_.active[type].decrease(1);
        stats_.active_bytes[type].decrease(block->size);
        stats_.requested_bytes[type].decrease(block->requested);
      });
      giveBack(block);
    }
  }
}

void DeviceCache::emptyCache() {
  const Lock lock(mutex_);
  releaseCached();
}

void DeviceCache::releaseCached() {
  processEvents(/*wait=*/device::runningStream() == nullptr);
  recent_.drain([this](Block* block) { giveBack(block); });
  releasePool(small_);
  releasePool(large_);
}

// A cached block may still be written by work that its stream has not finished. Within a kernel, when an operator runs out
// of memory, its own stream has nothing before it, and waiting for another one might be waiting for itself.
bool DeviceCache::finishWorkOn(c10::StreamId id) const {
  const Stream stream(c10::Stream(c10::Stream::UNSAFE, c10::Device(kDeviceType, index_), id));
  if (auto* running = device::runningStream(); running != nullptr) {
    return running == stream.handle() || stream.query();
  }
  stream.synchronize();
  return true;
}

// Returns the segments of which no piece is in use.
void DeviceCache::releasePool(BlockPool& pool) {
  for (auto it = pool.free.begin(); it != pool.free.end();) {
    Block* block = *it;
    if (block->isSplit()) {
      ++it;
      continue;
    }
    if (!finishWorkOn(block->stream)) {
      ++it;
      continue;
    }
    device::release(block->address);
    ++stats_.num_device_free;
    forEachStat(statTypesOf(pool), [&](size_t type) {
      stats_.segment[type].decrease(1);
      stats_.reserved_bytes[type].decrease(block->size);
    });
    it = pool.free.erase(it);
    delete block;
  }
}

void DeviceCache::throwOutOfMemory(size_t nbytes, Lock& lock) {
  ++stats_.num_ooms;
  constexpr auto kAggregate = static_cast<size_t>(StatType::AGGREGATE);
  const auto allocated = static_cast<size_t>(stats_.allocated_bytes[kAggregate].current);
  const auto reserved = static_cast<size_t>(stats_.reserved_bytes[kAggregate].current);
  lock.unlock();
  const auto memory = device::memoryInfo(index_);
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(nbytes), allocated, reserved, c10::Device(kDeviceType, index_));
  const auto name = c10::get_privateuse1_backend();
  TORCH_CHECK_WITH(
      OutOfMemoryError, false, name, " out of memory. Tried to allocate ", format_size(nbytes), ". Device ", static_cast<int>(index_),
      " has a total capacity of ", format_size(memory.total), ", of which ", format_size(memory.free), " is free. ", format_size(allocated),
      " is allocated by PyTorch, and ", format_size(reserved - allocated), " is reserved by PyTorch but unallocated.");
}

c10::CachingDeviceAllocator::DeviceStats DeviceCache::stats() {
  const Lock lock(mutex_);
  return stats_;
}

void DeviceCache::resetAccumulatedStats() {
  const Lock lock(mutex_);
  for (auto* array : {&stats_.allocation, &stats_.segment, &stats_.active, &stats_.inactive_split, &stats_.allocated_bytes, &stats_.reserved_bytes, &stats_.active_bytes, &stats_.inactive_split_bytes, &stats_.requested_bytes}) {
    for (auto& stat : *array) {
      stat.reset_accumulated();
    }
  }
  stats_.num_alloc_retries = 0;
  stats_.num_ooms = 0;
  stats_.num_sync_all_streams = 0;
  stats_.num_device_alloc = 0;
  stats_.num_device_free = 0;
}

void DeviceCache::resetPeakStats() {
  const Lock lock(mutex_);
  for (auto* array : {&stats_.allocation, &stats_.segment, &stats_.active, &stats_.inactive_split, &stats_.allocated_bytes, &stats_.reserved_bytes, &stats_.active_bytes, &stats_.inactive_split_bytes, &stats_.requested_bytes}) {
    for (auto& stat : *array) {
      stat.reset_peak();
    }
  }
}

}  // namespace openreg
