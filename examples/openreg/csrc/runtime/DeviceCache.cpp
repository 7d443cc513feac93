#include "runtime/DeviceCache.h"

#include <c10/core/AllocatorConfig.h>

#include <algorithm>

#include "device/Device.h"
#include "device/Memory.h"
#include "runtime/Guard.h"
#include "runtime/MemoryStats.h"

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

size_t roundUp(size_t size, size_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

size_t segmentSize(size_t size) {
  if (size <= kSmallSize) {
    return kSmallBuffer;
  }
  return size < kMinLargeAlloc ? AcceleratorAllocatorConfig::large_segment_size() : roundUp(size, kRoundLarge);
}

}  // namespace

BlockPool& DeviceCache::poolFor(size_t size, PrivatePool* owner) {
  if (size <= kSmallSize) {
    return owner != nullptr ? owner->small : small_;
  }
  return owner != nullptr ? owner->large : large_;
}

Block* DeviceCache::allocate(size_t nbytes, c10::StreamId stream) {
  const size_t size = roundUp(nbytes, kMinBlockSize);
  Lock lock(mutex_);
  if (!pending_.empty() || !deferred_.empty()) [[unlikely]] {
    processEvents(/*wait=*/false);
  }
  PrivatePool* owner = nullptr;
  if (private_pools_.routing()) [[unlikely]] {
    owner = private_pools_.poolOf(c10::Stream(c10::Stream::UNSAFE, c10::Device(kDeviceType, index_), stream));
  }
  Block* block = owner == nullptr ? recent_.pop(stream, size) : nullptr;
  if (block == nullptr) {
    block = find(size, stream, owner);
    if (block == nullptr) {
      throwOutOfMemory(nbytes, lock);
    }
    split(block, size);
  }
  block->allocated = true;
  block->requested = nbytes;
  countAllocated(stats_, *block);
  return block;
}

// A block of at least this size, from what is free or from the device.
Block* DeviceCache::find(size_t size, c10::StreamId stream, PrivatePool* owner) {
  auto& pool = poolFor(size, owner);
  Block* block = takeFree(size, stream, pool);
  if (block == nullptr && owner == nullptr) {
    recent_.drain([this](Block* recent) { giveBack(recent); });
    block = takeFree(size, stream, pool);
  }
  if (block == nullptr) {
    block = takeNewSegment(size, stream, pool);
  }
  // Whoever gives back memory waits for the device, which is not allowed while a stream is captured.
  if (block == nullptr && !private_pools_.routing()) {
    ++stats_.num_alloc_retries;
    releaseCached();
    block = takeNewSegment(size, stream, pool);
  }
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
  countSplitTaken(stats_, *block);
  return block;
}

Block* DeviceCache::takeNewSegment(size_t size, c10::StreamId stream, BlockPool& pool) {
  const size_t segment_size = segmentSize(size);
  const DeviceGuard guard(index_);
  void* address = device::allocate(segment_size);
  if (address == nullptr) {
    return nullptr;
  }
  auto* block = new Block(index_, stream, address, segment_size, &pool);
  block->segment = new Segment{address, segment_size, block};
  segments_.insert(block->segment);
  if (pool.owner != nullptr) {
    ++pool.owner->segments;
  }
  countNewSegment(stats_, pool, segment_size);
  return block;
}

// Cuts what is not needed off the end of a block and leaves it free.
void DeviceCache::split(Block* block, size_t size) {
  const size_t rest = block->size - size;
  if (block->pool->small ? rest < kMinBlockSize : rest <= kSmallSize) {
    return;
  }
  auto* remainder = new Block(index_, block->stream, static_cast<char*>(block->address) + size, rest, block->pool);
  remainder->segment = block->segment;
  remainder->previous = block;
  remainder->next = block->next;
  if (block->next != nullptr) {
    block->next->previous = remainder;
  }
  block->next = remainder;
  block->size = size;
  block->pool->free.insert(remainder);
  countSplitFree(stats_, *remainder);
}

void DeviceCache::free(Block* block) {
  const Lock lock(mutex_);
  block->allocated = false;
  countFreed(stats_, *block);
  if (!block->uses.empty()) [[unlikely]] {
    if (private_pools_.routing()) {
      deferred_.push_back(block);
    } else {
      recordEvents(block);
    }
    return;
  }
  countInactive(stats_, *block);
  if (!recent_.push(block)) {
    giveBack(block);
  }
}

// Merges a block that nobody uses with its free neighbours and puts the result into its pool.
void DeviceCache::giveBack(Block* block) {
  for (Block* neighbour : {block->previous, block->next}) {
    if (neighbour != nullptr && !neighbour->allocated && !neighbour->binned && block->pool->free.erase(neighbour) == 1) {
      countSplitTaken(stats_, *neighbour);
      merge(block, neighbour);
    }
  }
  block->pool->free.insert(block);
  countSplitFree(stats_, *block);
}

void DeviceCache::merge(Block* block, Block* neighbour) {
  if (neighbour == block->previous) {
    block->address = neighbour->address;
    block->previous = neighbour->previous;
    (block->previous != nullptr ? block->previous->next : block->segment->first) = block;
  } else {
    block->next = neighbour->next;
    if (block->next != nullptr) {
      block->next->previous = block;
    }
  }
  block->size += neighbour->size;
  delete neighbour;
}

void DeviceCache::throwOutOfMemory(size_t nbytes, Lock& lock) {
  ++stats_.num_ooms;
  constexpr auto kAggregate = static_cast<size_t>(StatType::AGGREGATE);
  const auto allocated = static_cast<size_t>(stats_.allocated_bytes[kAggregate].current);
  const auto reserved = static_cast<size_t>(stats_.reserved_bytes[kAggregate].current);
  const bool capturing = private_pools_.routing();
  lock.unlock();
  const auto memory = device::memoryInfo(index_);
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(nbytes), allocated, reserved, c10::Device(kDeviceType, index_));
  const auto name = c10::get_privateuse1_backend();
  TORCH_CHECK_WITH(
      OutOfMemoryError, false, name, " out of memory. Tried to allocate ", format_size(nbytes), ". Device ", static_cast<int>(index_),
      " has a total capacity of ", format_size(memory.total), ", of which ", format_size(memory.free), " is free. ", format_size(allocated),
      " is allocated by PyTorch, and ", format_size(reserved - allocated), " is reserved by PyTorch but unallocated.",
      capturing ? " While a graph is captured the cache cannot be given up: empty it before the capture." : "");
}

c10::CachingDeviceAllocator::DeviceStats DeviceCache::stats() {
  const Lock lock(mutex_);
  return stats_;
}

void DeviceCache::resetAccumulatedStats() {
  const Lock lock(mutex_);
  resetAccumulated(stats_);
}

void DeviceCache::resetPeakStats() {
  const Lock lock(mutex_);
  resetPeaks(stats_);
}

void DeviceCache::beginAllocateToPool(c10::MempoolId_t id, PrivatePools::StreamFilter filter) {
  const Lock lock(mutex_);
  private_pools_.begin(id, std::move(filter));
}

void DeviceCache::endAllocateToPool(c10::MempoolId_t id) {
  const Lock lock(mutex_);
  private_pools_.end(id);
}

void DeviceCache::releasePool(c10::MempoolId_t id) {
  const Lock lock(mutex_);
  private_pools_.release(id);
}

int DeviceCache::poolUsers(c10::MempoolId_t id) {
  const Lock lock(mutex_);
  const auto* pool = private_pools_.find(id);
  return pool == nullptr ? 0 : pool->users;
}

}  // namespace openreg
