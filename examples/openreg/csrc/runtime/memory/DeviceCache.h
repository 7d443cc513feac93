#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <deque>
#include <limits>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/memory/BlockPool.h"
#include "runtime/Event.h"
#include "runtime/memory/MemoryHistory.h"
#include "runtime/memory/MemorySnapshot.h"
#include "runtime/memory/PrivatePools.h"

namespace openreg {

// The cache of one device. All methods are thread safe.
class DeviceCache {
 public:
  explicit DeviceCache(c10::DeviceIndex index) : index_(index) {}

  // nbytes > 0. Raises c10::OutOfMemoryError if the device has no room even after the cache was released.
  Block* allocate(size_t nbytes, c10::StreamId stream);
  void free(Block* block);
  void recordStream(Block* block, c10::Stream stream);

  // The other functions are those of CachingAllocator. The filter is called with the cache locked.
  void emptyCache(c10::MempoolId_t id);
  void beginAllocateToPool(c10::MempoolId_t id, PrivatePools::StreamFilter filter);
  void endAllocateToPool(c10::MempoolId_t id);
  void releasePool(c10::MempoolId_t id);
  int poolUsers(c10::MempoolId_t id);

  void setMemoryFraction(double fraction);
  double memoryFraction();

  c10::CachingDeviceAllocator::DeviceStats stats();
  void resetAccumulatedStats();
  void resetPeakStats();

  void startHistory(const HistoryOptions& options);
  void stopHistory();
  void addTo(MemorySnapshot& snapshot);

 private:
  using Lock = std::unique_lock<std::mutex>;

  struct Request {
    size_t nbytes;  // requested by the user
    size_t size;  // of the block
    c10::StreamId stream;
    Context context;
    PrivatePool* owner = nullptr;
  };

  // Allocation (DeviceCache.cpp)
  BlockPool& poolFor(const Request& request);
  Block* find(const Request& request, Lock& lock);
  Block* takeFree(const Request& request, BlockPool& pool);
  Block* takeNewSegment(const Request& request, BlockPool& pool, size_t size);
  Block* takeNewSegment(const Request& request, BlockPool& pool);
  void split(Block* block, size_t size);
  void markAllocated(Block* block, Request& request);
  void markInactive(Block* block, const Context& context);
  void giveBack(Block* block);
  void merge(Block* block, Block* neighbour);

  // Blocks that other streams use, and the release of segments (DeviceCacheRelease.cpp). Functions that take the lock as an
  // argument release it temporarily.
  void recordEvents(Block* block);
  void processEvents();
  void finishEvents(Lock& lock);
  Lock lockRelease(Lock& lock);
  void collectGarbage(Lock& lock, const Context& context);
  void releaseOversize(const Request& request, Lock& lock);
  bool releaseCached(Lock& lock, const Context& context, c10::MempoolId_t id = {0, 0});
  void takeWholeSegments(BlockPool& pool, std::vector<Block*>& blocks, size_t least = 0);
  template <class Order>
  void releaseSome(size_t bytes, size_t least, Order order, Lock& lock, const Context& context);
  size_t release(std::vector<Block*> blocks, Lock& lock, const Context& context);
  void forgetSegment(Block* block, const Context& context);
  bool finishWorkOn(c10::StreamId id) const;

  // Statistics and reports (DeviceCacheReport.cpp)
  size_t reserved() const;
  size_t allowed() const;
  void* handleOf(c10::StreamId stream) const;
  void record(TraceEntry::Action action, const Block& block, size_t size, const Context& context) {
    if (history_.recording()) [[unlikely]] {
      addToHistory(action, block, size, context);
    }
  }
  void addToHistory(TraceEntry::Action action, const Block& block, size_t size, const Context& context);
  [[noreturn]] void throwOutOfMemory(const Request& request, Lock& lock);

  c10::DeviceIndex index_;
  std::mutex mutex_;
  std::mutex release_mutex_;  // held while memory is released; locked before mutex_
  RecentBlocks recent_;
  BlockPool small_{/*small=*/true};
  BlockPool large_{/*small=*/false};
  PrivatePools private_pools_;
  std::unordered_set<Segment*> segments_;
  std::deque<std::pair<Event, Block*>> pending_;  // freed, but still in use on other streams until the event is reached
  std::vector<Block*> deferred_;  // the same, freed during a capture, in which no event may be recorded or queried
  double fraction_ = 1;  // of the device's memory that this process may reserve
  uint64_t clock_ = 0;  // Block::freed_at of the latest
  MemoryHistory history_;
  c10::CachingDeviceAllocator::DeviceStats stats_;
};

}  // namespace openreg
