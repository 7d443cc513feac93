#pragma once

#include <mutex>
#include <vector>

#include "runtime/memory/BlockStore.h"
#include "runtime/memory/MemoryReport.h"
#include "runtime/memory/StreamUses.h"

namespace openreg {

// Gives cached segments of one device back to the SDK: on request, by the garbage collection, and before an allocation is given up as
// out of memory.
//
// DeviceCache owns it. All public functions are called with the cache locked and unlock it while they wait. They never wait for the
// device with the cache locked: a kernel that holds up the device may be an operator of another thread, which waits for the lock
// because it allocates its result. release_mutex_ is taken before the cache's mutex.
class CacheReclaim {
 public:
  CacheReclaim(c10::DeviceIndex index, BlockStore& store, StreamUses& uses, MemoryReport& report)
      : index_(index), store_(store), uses_(uses), report_(report) {}

  // A block for a request that no free block serves: from a new segment, if need be after cached ones were given back. Null if the
  // device has no room even then. Not while a graph is captured, because it may wait for the device.
  Block* allocate(const BlockRequest& request, CacheLock& lock);

  // CachingAllocator::emptyCache.
  void emptyCache(c10::MempoolId_t id, const Context& context, CacheLock& lock);

 private:
  CacheLock lockRelease(CacheLock& lock);
  void collectGarbage(const Context& context, CacheLock& lock);
  void releaseOversize(const BlockRequest& request, CacheLock& lock);
  bool releaseCached(const Context& context, CacheLock& lock, c10::MempoolId_t id = {0, 0});
  template <class Order>
  void releaseSome(size_t bytes, size_t least, Order order, const Context& context, CacheLock& lock);
  size_t release(std::vector<Block*> blocks, const Context& context, CacheLock& lock);
  bool finishWorkOn(c10::StreamId id) const;

  c10::DeviceIndex index_;
  BlockStore& store_;
  StreamUses& uses_;
  MemoryReport& report_;
  std::mutex release_mutex_;  // held by the thread that releases
};

}  // namespace openreg
