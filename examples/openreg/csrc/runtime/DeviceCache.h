#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <deque>
#include <mutex>
#include <utility>

#include "runtime/BlockPool.h"
#include "runtime/Event.h"

namespace openreg {

// The cache of one device. All methods are thread safe.
class DeviceCache {
 public:
  explicit DeviceCache(c10::DeviceIndex index) : index_(index) {}

  // nbytes > 0. Raises c10::OutOfMemoryError if the device has no room even after everything cached was given back.
  Block* allocate(size_t nbytes, c10::StreamId stream);
  void free(Block* block);
  void recordStream(Block* block, c10::Stream stream);
  void emptyCache();

  c10::CachingDeviceAllocator::DeviceStats stats();
  void resetAccumulatedStats();
  void resetPeakStats();

 private:
  using StatTypes = c10::CachingAllocator::StatTypes;
  using Lock = std::unique_lock<std::mutex>;

  BlockPool& poolFor(size_t size);
  static size_t segmentSize(size_t size);
  static StatTypes statTypesOf(const BlockPool& pool);

  Block* takeFree(size_t size, c10::StreamId stream, BlockPool& pool);
  Block* takeNewSegment(size_t size, c10::StreamId stream, BlockPool& pool);
  void split(Block* block, size_t size);
  void markAllocated(Block* block, size_t requested);
  void giveBack(Block* block);
  void merge(Block* block, Block* neighbour);
  void countInactiveSplit(const Block* block, int64_t sign);

  void processEvents(bool wait);
  void releaseCached();
  void releasePool(BlockPool& pool);
  bool finishWorkOn(c10::StreamId id) const;
  [[noreturn]] void throwOutOfMemory(size_t nbytes, Lock& lock);

  c10::DeviceIndex index_;
  std::mutex mutex_;
  RecentBlocks recent_;
  BlockPool small_{/*small=*/true};
  BlockPool large_{/*small=*/false};
  std::deque<std::pair<Event, Block*>> pending_;  // freed, but still in use on other streams until the event is reached
  c10::CachingDeviceAllocator::DeviceStats stats_;
};

}  // namespace openreg
