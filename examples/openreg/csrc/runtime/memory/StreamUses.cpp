#include "runtime/memory/StreamUses.h"

#include <algorithm>
#include <exception>
#include <iterator>

#include "device/Launch.h"

namespace openreg {

void StreamUses::add(Block* block, c10::Stream stream) {
  if (stream.id() == block->stream && stream.device_index() == block->device) {
    return;
  }
  if (std::find(block->uses.begin(), block->uses.end(), stream) == block->uses.end()) {
    block->uses.push_back(stream);
  }
}

void StreamUses::await(Block* block) {
  if (store_.capturing()) {
    deferred_.push_back(block);
  } else {
    recordEvents(block);
  }
}

// A stream on which no event can be recorded does no work either, so there is nothing to wait for: a warning is enough, and
// destructors of tensors, which end here, must not throw.
void StreamUses::recordEvents(Block* block) {
  for (const auto& stream : std::exchange(block->uses, {})) {
    Event event;
    try {
      event.record(Stream(stream));
    } catch (const std::exception& error) {
      TORCH_WARN("freed memory cannot wait for ", stream, ", which used it: ", error.what());
      event = Event();
    }
    ++block->pending_events;
    pending_.emplace_back(std::move(event), block);
  }
}

void StreamUses::process() {
  if (store_.capturing()) {
    return;
  }
  for (Block* block : std::exchange(deferred_, {})) {
    recordEvents(block);
  }
  for (size_t left = pending_.size(); left > 0; --left) {
    const bool reached = pending_.front().first.query();
    auto entry = std::move(pending_.front());
    pending_.pop_front();
    if (!reached) {
      pending_.push_back(std::move(entry));
      continue;
    }
    Block* block = entry.second;
    if (--block->pending_events == 0) {
      store_.retire(block);
    }
  }
}

void StreamUses::finish(CacheLock& lock) {
  process();
  if (device::runningStream() != nullptr) {
    return;
  }
  report_.waitedForStreams();
  auto waiting = std::exchange(pending_, {});
  std::exception_ptr error;
  lock.unlock();
  try {
    for (const auto& [event, block] : waiting) {
      event.synchronize();
    }
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  std::move(waiting.begin(), waiting.end(), std::back_inserter(pending_));
  if (error) {
    std::rethrow_exception(error);
  }
  process();
}

}  // namespace openreg
