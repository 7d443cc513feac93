#include "runtime/memory/DeviceCache.h"

#include <algorithm>

#include "device/Memory.h"
#include "runtime/memory/BlockSize.h"
#include "runtime/Guard.h"
#include "runtime/memory/MemoryStats.h"
#include "runtime/memory/Reclaim.h"

namespace openreg {

BlockPool& DeviceCache::poolFor(const Request& request) {
  if (isSmall(request.size)) {
    return request.owner != nullptr ? request.owner->small : small_;
  }
  return request.owner != nullptr ? request.owner->large : large_;
}

Block* DeviceCache::allocate(size_t nbytes, c10::StreamId stream) {
  // Gathers the context before the lock, because it needs the GIL, and a thread with the GIL may be waiting for the lock.
  Request request{nbytes, blockSizeFor(nbytes), stream, history_.gather(RecordContext::STATE)};
  Lock lock(mutex_);
  if (!pending_.empty() || !deferred_.empty()) [[unlikely]] {
    processEvents();
  }
  if (private_pools_.routing()) [[unlikely]] {
    request.owner = private_pools_.poolOf(c10::Stream(c10::Stream::UNSAFE, c10::Device(kDeviceType, index_), stream));
  }
  Block* block = request.owner == nullptr ? recent_.pop(stream, request.size) : nullptr;
  if (block == nullptr) {
    block = find(request, lock);
    if (block == nullptr) {
      throwOutOfMemory(request, lock);
    }
    split(block, request.size);
  }
  markAllocated(block, request);
  return block;
}

// Finds a free block of at least the size, or allocates a segment.
Block* DeviceCache::find(const Request& request, Lock& lock) {
  auto& pool = poolFor(request);
  Block* block = takeFree(request, pool);
  if (block == nullptr && request.owner == nullptr) {
    recent_.drain([this](Block* recent) { giveBack(recent); });
    block = takeFree(request, pool);
  }
  if (block != nullptr) {
    return block;
  }
  if (private_pools_.routing()) {
    // Releasing memory waits for the device, which a capture forbids.
    block = takeNewSegment(request, pool);
    return block != nullptr ? block : takeNewSegment(request, pool, request.size);
  }
  collectGarbage(lock, request.context);
  block = takeNewSegment(request, pool);
  if (block != nullptr) {
    return block;
  }
  const auto retry = [&] {
    Block* found = takeFree(request, pool);
    return found != nullptr ? found : takeNewSegment(request, pool);
  };
  ++stats_.num_alloc_retries;
  lock.unlock();
  reclaimMemory(index_);  // frees storages whose memory returns to this cache
  lock.lock();
  const Lock releasing = lockRelease(lock);
  block = retry();
  if (block == nullptr) {
    releaseOversize(request, lock);
    block = retry();
  }
  for (bool more = true; block == nullptr && more; block = retry()) {
    more = releaseCached(lock, request.context);  // meanwhile others may have freed more
  }
  // Segments are larger than their first request. The device may still have room for a segment of this request only.
  return block != nullptr ? block : takeNewSegment(request, pool, request.size);
}

Block* DeviceCache::takeFree(const Request& request, BlockPool& pool) {
  Block key(index_, request.stream, nullptr, request.size, &pool);
  const auto found = pool.free.lower_bound(&key);
  if (found == pool.free.end() || (*found)->stream != request.stream || !mayServe(**found, request.size)) {
    return nullptr;
  }
  Block* block = *found;
  pool.free.erase(found);
  countSplitTaken(stats_, *block);
  return block;
}

Block* DeviceCache::takeNewSegment(const Request& request, BlockPool& pool) {
  const size_t size = segmentSizeFor(request.size);
  // If the device is too small for a usual segment, neither tries to allocate one nor releases memory for it.
  return takeNewSegment(request, pool, size <= allowed() ? size : request.size);
}

Block* DeviceCache::takeNewSegment(const Request& request, BlockPool& pool, size_t size) {
  if (fraction_ < 1 && reserved() + size > allowed()) {
    return nullptr;
  }
  const DeviceGuard guard(index_);
  void* address = device::allocate(size);
  if (address == nullptr) {
    return nullptr;
  }
  auto* block = new Block(index_, request.stream, address, size, &pool);
  block->segment = new Segment{address, size, block, request.context, !pool.small && isOversize(size)};
  segments_.insert(block->segment);
  if (pool.owner != nullptr) {
    ++pool.owner->segments;
  }
  countNewSegment(stats_, *block);
  record(TraceEntry::SEGMENT_ALLOC, *block, size, request.context);
  return block;
}

// Splits the unused end off a block and makes it a free block.
void DeviceCache::split(Block* block, size_t size) {
  if (!maySplit(*block, size)) {
    return;
  }
  auto* remainder = new Block(index_, block->stream, static_cast<char*>(block->address) + size, block->size - size, block->pool);
  remainder->segment = block->segment;
  remainder->previous = block;
  remainder->next = block->next;
  remainder->freed_at = block->freed_at;
  if (block->next != nullptr) {
    block->next->previous = remainder;
  }
  block->next = remainder;
  block->size = size;
  block->pool->free.insert(remainder);
  countSplitFree(stats_, *remainder);
}

void DeviceCache::markAllocated(Block* block, Request& request) {
  block->allocated = true;
  block->requested = request.nbytes;
  block->oversize = !block->pool->small && isOversize(block->size);
  countAllocated(stats_, *block);
  if (history_.recording()) [[unlikely]] {
    block->context = std::move(request.context);
    record(TraceEntry::ALLOC, *block, block->requested, block->context);
  }
}

void DeviceCache::free(Block* block) {
  const Context context = history_.gather(RecordContext::ALL);
  const Lock lock(mutex_);
  block->allocated = false;
  countFreed(stats_, *block);
  record(TraceEntry::FREE_REQUESTED, *block, block->requested, context);
  if (!block->uses.empty()) [[unlikely]] {
    if (private_pools_.routing()) {
      deferred_.push_back(block);
    } else {
      recordEvents(block);
    }
    return;
  }
  markInactive(block, context);
  if (!recent_.push(block)) {
    giveBack(block);
  }
}

// Frees a block that no stream uses any more.
void DeviceCache::markInactive(Block* block, const Context& context) {
  block->freed_at = ++clock_;
  countInactive(stats_, *block);
  record(TraceEntry::FREE_COMPLETED, *block, block->requested, context);
  if (block->context) [[unlikely]] {
    block->context = nullptr;
  }
}

// Merges an unused block with its free neighbors and puts the result into its pool.
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
  block->freed_at = std::max(block->freed_at, neighbour->freed_at);
  delete neighbour;
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
