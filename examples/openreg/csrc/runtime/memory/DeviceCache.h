#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <mutex>

#include "runtime/memory/BlockStore.h"
#include "runtime/memory/CacheReclaim.h"
#include "runtime/memory/MemoryReport.h"
#include "runtime/memory/MemorySnapshot.h"
#include "runtime/memory/PrivatePools.h"
#include "runtime/memory/StreamUses.h"

namespace openreg {

// The cache of one device. Any thread may call it: it owns the mutex, and locks it around every call of its parts, which do the work:
//
//   BlockStore    segments and blocks: finding, splitting, merging, the pools
//   StreamUses    freed blocks that other streams still use
//   CacheReclaim  segments that are given back to the device
//   MemoryReport  statistics, history, snapshots, out of memory
//
// The parts unlock the cache wherever they wait for the device.
class DeviceCache {
 public:
  explicit DeviceCache(c10::DeviceIndex index)
      : report_(index), store_(index, report_), uses_(store_, report_), reclaim_(index, store_, uses_, report_) {}

  // nbytes > 0. Raises c10::OutOfMemoryError if the device has no room even after everything cached was given back.
  Block* allocate(size_t nbytes, c10::StreamId stream);
  void free(Block* block);
  void recordStream(Block* block, c10::Stream stream);

  // For the other functions see CachingAllocator. The filter is called with the cache locked.
  void emptyCache(c10::MempoolId_t id);
  void beginAllocateToPool(c10::MempoolId_t id, PrivatePools::StreamFilter filter);
  void endAllocateToPool(c10::MempoolId_t id);
  void releasePool(c10::MempoolId_t id);
  int poolUsers(c10::MempoolId_t id);

  void setMemoryFraction(double fraction);
  double memoryFraction();

  DeviceStats stats();
  void resetAccumulatedStats();
  void resetPeakStats();

  void startHistory(const HistoryOptions& options);
  void stopHistory();
  void addTo(MemorySnapshot& snapshot);

 private:
  Block* find(const BlockRequest& request, CacheLock& lock);

  std::mutex mutex_;  // guards the parts below; CacheReclaim's mutex is taken before it
  MemoryReport report_;
  BlockStore store_;
  StreamUses uses_;
  CacheReclaim reclaim_;
};

}  // namespace openreg
