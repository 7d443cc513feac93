#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <atomic>
#include <set>
#include <vector>

#include "runtime/memory/Block.h"

namespace openreg {

using c10::CachingDeviceAllocator::RecordContext;
using c10::CachingDeviceAllocator::TraceEntry;

struct HistoryOptions {
  size_t max_entries = 0;  // for each device; new entries replace the oldest. 0: keeps only the contexts of live blocks
  RecordContext contexts = RecordContext::NEVER;
  c10::CachingDeviceAllocator::CreateContextFn gather = nullptr;  // called without a lock held; it may take the GIL
  std::set<TraceEntry::Action> skipped;
  bool clear = false;  // remove earlier entries
};

// The last actions of an allocator, for PyTorch's memory visualizer.
class MemoryHistory {
 public:
  void start(const HistoryOptions& options);
  void stop();

  // Any thread may call these two, without the lock that guards the rest.
  bool recording() const {
    return recording_.load(std::memory_order_relaxed);
  }
  Context gather(RecordContext least) const {
    if (!recording()) [[likely]] {
      return nullptr;
    }
    return least <= contexts_.load(std::memory_order_relaxed) ? gather_.load(std::memory_order_relaxed)() : nullptr;
  }

  void add(TraceEntry entry);
  std::vector<TraceEntry> entries() const;  // oldest first

 private:
  std::atomic<bool> recording_{false};
  std::atomic<RecordContext> contexts_{RecordContext::NEVER};
  std::atomic<c10::CachingDeviceAllocator::CreateContextFn> gather_{nullptr};
  std::set<TraceEntry::Action> skipped_;
  size_t max_entries_ = 0;
  size_t oldest_ = 0;  // in entries_, once it is full
  std::vector<TraceEntry> entries_;
};

}  // namespace openreg
