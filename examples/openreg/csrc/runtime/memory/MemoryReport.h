#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <optional>
#include <unordered_set>

#include "runtime/memory/MemoryHistory.h"
#include "runtime/memory/MemorySnapshot.h"
#include "runtime/memory/MemoryStats.h"

namespace openreg {

// The reports of the cache of one device: statistics, history, snapshots and the out-of-memory error. The cache's other parts report
// each event of a block here; this class counts it and records it in the history.
//
// Owns the statistics and the history. DeviceCache owns it. Not thread-safe: the cache is locked, except for gather().
class MemoryReport {
 public:
  explicit MemoryReport(c10::DeviceIndex index) : index_(index) {}

  // The caller's stack, if the history asks for it. Called without the lock, because a stack needs the GIL, and the thread that has the
  // GIL may be waiting for the lock.
  Context gather(RecordContext least) const {
    return history_.gather(least);
  }

  void allocated(Block& block, Context&& context) {
    countAllocated(stats_, block);
    if (history_.recording()) [[unlikely]] {
      block.context = std::move(context);
      add(TraceEntry::ALLOC, block, block.requested, block.context);
    }
  }
  void freed(const Block& block, const Context& context) {  // by its user
    countFreed(stats_, block);
    record(TraceEntry::FREE_REQUESTED, block, block.requested, context);
  }
  void inactive(const Block& block, const Context& context) {  // no stream uses it any more
    countInactive(stats_, block);
    record(TraceEntry::FREE_COMPLETED, block, block.requested, context);
  }
  void enteredPool(const Block& block) {
    countSplitFree(stats_, block);
  }
  void leftPool(const Block& block) {
    countSplitTaken(stats_, block);
  }
  void madeSegment(const Block& block, const Context& context) {  // the block is all of it
    countNewSegment(stats_, block);
    record(TraceEntry::SEGMENT_ALLOC, block, block.size, context);
  }
  void releasedSegment(const Block& block, const Context& context) {
    countReleasedSegment(stats_, block);
    record(TraceEntry::SEGMENT_FREE, block, block.size, context);
  }
  void retried() {  // an allocation for which the device had no room
    ++stats_.num_alloc_retries;
  }
  void waitedForStreams() {
    ++stats_.num_sync_all_streams;
  }

  // Raises c10::OutOfMemoryError. Unlocks the cache first, so that other threads do not wait for the message and its stack. `limit`
  // is the memory that the process may reserve, if that is less than the device has.
  [[noreturn]] void throwOutOfMemory(const BlockRequest& request, std::optional<size_t> limit, bool capturing, CacheLock& lock);

  size_t allocatedBytes() const;  // that users have
  size_t reservedBytes() const;  // of all segments
  DeviceStats stats();
  void resetAccumulatedStats();
  void resetPeakStats();

  void startHistory(const HistoryOptions& options);
  void stopHistory();
  void addTo(MemorySnapshot& snapshot, const std::unordered_set<Segment*>& segments, const Context& context);

 private:
  void record(TraceEntry::Action action, const Block& block, size_t size, const Context& context) {
    if (history_.recording()) [[unlikely]] {
      add(action, block, size, context);
    }
  }
  void add(TraceEntry::Action action, const Block& block, size_t size, const Context& context);
  void* handleOf(c10::StreamId stream) const;

  c10::DeviceIndex index_;
  DeviceStats stats_;
  MemoryHistory history_;
};

}  // namespace openreg
