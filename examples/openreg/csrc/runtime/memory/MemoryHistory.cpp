#include "runtime/memory/MemoryHistory.h"

#include <algorithm>
#include <iterator>

namespace openreg {

void MemoryHistory::start(const HistoryOptions& options) {
  std::vector<TraceEntry> kept;
  if (!options.clear) {
    kept = entries();
    kept.erase(kept.begin(), kept.end() - static_cast<ptrdiff_t>(std::min(kept.size(), options.max_entries)));
  }
  entries_ = std::move(kept);
  oldest_ = 0;
  max_entries_ = options.max_entries;
  skipped_ = options.skipped;
  gather_ = options.gather;
  contexts_ = options.gather != nullptr ? options.contexts : RecordContext::NEVER;
  recording_ = true;
}

// The recorded entries stay readable.
void MemoryHistory::stop() {
  recording_ = false;
}

void MemoryHistory::add(TraceEntry entry) {
  if (!recording() || max_entries_ == 0 || skipped_.count(entry.action_) != 0) {
    return;
  }
  entry.time_.t_ = c10::getTime();
  if (contexts_.load(std::memory_order_relaxed) < RecordContext::ALLOC) {
    entry.context_ = nullptr;
  }
  if (entries_.size() < max_entries_) {
    entries_.push_back(std::move(entry));
    return;
  }
  entries_[oldest_] = std::move(entry);
  oldest_ = (oldest_ + 1) % max_entries_;
}

std::vector<TraceEntry> MemoryHistory::entries() const {
  std::vector<TraceEntry> result;
  result.reserve(entries_.size());
  const auto oldest = entries_.begin() + static_cast<ptrdiff_t>(oldest_);
  std::copy(oldest, entries_.end(), std::back_inserter(result));
  std::copy(entries_.begin(), oldest, std::back_inserter(result));
  return result;
}

}  // namespace openreg
