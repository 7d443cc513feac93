#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "runtime/Event.h"
#include "runtime/memory/BlockStore.h"
#include "runtime/memory/MemoryReport.h"

namespace openreg {

// The blocks of one device that streams other than their own use (recordStream). Such a block is free only when each of these streams
// has reached the event that was recorded when the block's user freed it.
//
// Owns the events; BlockStore owns the blocks. DeviceCache owns it. Not thread-safe: the cache is locked, and finish() unlocks it
// while it waits.
class StreamUses {
 public:
  StreamUses(BlockStore& store, MemoryReport& report) : store_(store), report_(report) {}

  static void add(Block* block, c10::Stream stream);

  // Takes a freed block with uses, and retires it later. While a graph is captured no event may be recorded, so it is recorded
  // after the capture.
  // Does not throw.
  void await(Block* block);

  // Whether process() may have something to do.
  bool waiting() const {
    return !pending_.empty() || !deferred_.empty();
  }
  // Retires the blocks whose events were reached. Without an effect while a graph is captured, when no event may be queried.
  void process();
  // Waits for all events first. A kernel must not wait for the device: called from one, it only does what process() does.
  void finish(CacheLock& lock);

 private:
  void recordEvents(Block* block);

  BlockStore& store_;
  MemoryReport& report_;
  std::deque<std::pair<Event, Block*>> pending_;  // freed, and its event may not have been reached
  std::vector<Block*> deferred_;  // freed during a capture, and without events so far
};

}  // namespace openreg
