#include "runtime/memory/DeviceCache.h"

#include <optional>

#include "runtime/memory/BlockSize.h"

namespace openreg {

Block* DeviceCache::allocate(size_t nbytes, c10::StreamId stream) {
  BlockRequest request{nbytes, blockSizeFor(nbytes), stream, report_.gather(RecordContext::STATE)};
  CacheLock lock(mutex_);
  if (uses_.waiting()) [[unlikely]] {
    uses_.process();
  }
  store_.route(request);
  Block* block = store_.takeRecent(request);
  if (block == nullptr) {
    block = find(request, lock);
    store_.split(block, request.size);
  }
  store_.markAllocated(block, request);
  return block;
}

// A block of at least the size, from the free blocks or from the device.
Block* DeviceCache::find(const BlockRequest& request, CacheLock& lock) {
  Block* block = store_.takeFree(request);
  if (block == nullptr && request.owner == nullptr) {
    store_.mergeRecent();
    block = store_.takeFree(request);
  }
  if (block == nullptr && !store_.capturing()) {
    block = reclaim_.allocate(request, lock);
  } else if (block == nullptr) {
    // Nothing is reclaimed, because reclaiming waits for the device, which is not allowed while a graph is captured.
    block = store_.takeNewSegment(request);
    block = block != nullptr ? block : store_.takeNewSegment(request, request.size);
  }
  if (block == nullptr) {
    const auto limit = store_.fraction() < 1 ? std::optional(store_.allowed()) : std::nullopt;
    report_.throwOutOfMemory(request, limit, store_.capturing(), lock);
  }
  return block;
}

void DeviceCache::free(Block* block) {
  const Context context = report_.gather(RecordContext::ALL);
  const CacheLock lock(mutex_);
  store_.markFreed(block, context);
  if (block->uses.empty()) [[likely]] {
    store_.giveBack(block, context);
  } else {
    uses_.await(block);
  }
}

void DeviceCache::recordStream(Block* block, c10::Stream stream) {
  const CacheLock lock(mutex_);
  StreamUses::add(block, stream);
}

void DeviceCache::emptyCache(c10::MempoolId_t id) {
  const Context context = report_.gather(RecordContext::ALL);
  CacheLock lock(mutex_);
  reclaim_.emptyCache(id, context, lock);
}

void DeviceCache::beginAllocateToPool(c10::MempoolId_t id, PrivatePools::StreamFilter filter) {
  const CacheLock lock(mutex_);
  store_.privatePools().begin(id, std::move(filter));
}

void DeviceCache::endAllocateToPool(c10::MempoolId_t id) {
  const CacheLock lock(mutex_);
  store_.privatePools().end(id);
}

void DeviceCache::releasePool(c10::MempoolId_t id) {
  const CacheLock lock(mutex_);
  store_.privatePools().release(id);
}

int DeviceCache::poolUsers(c10::MempoolId_t id) {
  const CacheLock lock(mutex_);
  const auto* pool = store_.privatePools().find(id);
  return pool == nullptr ? 0 : pool->users;
}

void DeviceCache::setMemoryFraction(double fraction) {
  TORCH_CHECK_VALUE(fraction >= 0 && fraction <= 1, "the fraction of memory must be from 0 to 1, got ", fraction);
  const CacheLock lock(mutex_);
  store_.setFraction(fraction);
}

double DeviceCache::memoryFraction() {
  const CacheLock lock(mutex_);
  return store_.fraction();
}

DeviceStats DeviceCache::stats() {
  const CacheLock lock(mutex_);
  return report_.stats();
}

void DeviceCache::resetAccumulatedStats() {
  const CacheLock lock(mutex_);
  report_.resetAccumulatedStats();
}

void DeviceCache::resetPeakStats() {
  const CacheLock lock(mutex_);
  report_.resetPeakStats();
}

void DeviceCache::startHistory(const HistoryOptions& options) {
  const CacheLock lock(mutex_);
  report_.startHistory(options);
}

void DeviceCache::stopHistory() {
  const CacheLock lock(mutex_);
  report_.stopHistory();
}

void DeviceCache::addTo(MemorySnapshot& snapshot) {
  const Context context = report_.gather(RecordContext::ALL);
  const CacheLock lock(mutex_);
  report_.addTo(snapshot, store_.segments(), context);
}

}  // namespace openreg
