#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <deque>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/BlockPool.h"
#include "runtime/Event.h"
#include "runtime/PrivatePools.h"

namespace openreg {

// The cache of one device. All methods are thread safe.
class DeviceCache {
 public:
  explicit DeviceCache(c10::DeviceIndex index) : index_(index) {}

  // nbytes > 0. Raises c10::OutOfMemoryError if the device has no room even after everything cached was given back.
  Block* allocate(size_t nbytes, c10::StreamId stream);
  void free(Block* block);
  void recordStream(Block* block, c10::Stream stream);

  // Gives back the cached segments of one pool; (0, 0): those that all share and those of pools without users.
  void emptyCache(c10::MempoolId_t id);

  // As CachingAllocator has them. The filter is called with the cache locked.
  void beginAllocateToPool(c10::MempoolId_t id, PrivatePools::StreamFilter filter);
  void endAllocateToPool(c10::MempoolId_t id);
  void releasePool(c10::MempoolId_t id);
  int poolUsers(c10::MempoolId_t id);

  c10::CachingDeviceAllocator::DeviceStats stats();
  void resetAccumulatedStats();
  void resetPeakStats();

 private:
  using Lock = std::unique_lock<std::mutex>;

  // Allocation (DeviceCache.cpp)
  BlockPool& poolFor(size_t size, PrivatePool* owner);
  Block* find(size_t size, c10::StreamId stream, PrivatePool* owner);
  Block* takeFree(size_t size, c10::StreamId stream, BlockPool& pool);
  Block* takeNewSegment(size_t size, c10::StreamId stream, BlockPool& pool);
  void split(Block* block, size_t size);
  void giveBack(Block* block);
  void merge(Block* block, Block* neighbour);
  [[noreturn]] void throwOutOfMemory(size_t nbytes, Lock& lock);

  // Blocks that other streams use, and what goes back to the device (DeviceCacheRelease.cpp)
  void recordEvents(Block* block);
  void processEvents(bool wait);
  void finishEvents();
  void releaseCached();
  void releaseFree(BlockPool& pool);
  void releaseSegment(Block* block);
  bool finishWorkOn(c10::StreamId id) const;

  c10::DeviceIndex index_;
  std::mutex mutex_;
  RecentBlocks recent_;
  BlockPool small_{/*small=*/true};
  BlockPool large_{/*small=*/false};
  PrivatePools private_pools_;
  std::unordered_set<Segment*> segments_;
  std::deque<std::pair<Event, Block*>> pending_;  // freed, but still in use on other streams until the event is reached
  std::vector<Block*> deferred_;  // the same, freed during a capture, in which no event may be recorded or asked for
  c10::CachingDeviceAllocator::DeviceStats stats_;
};

}  // namespace openreg
