// An event: the work that a stream had in its queue when the event was last recorded.
#pragma once

#include <cstdint>
#include <mutex>

#include "capture.h"
#include "completion.h"
#include "ipc_event.h"
#include "status.h"
#include "stream.h"

namespace emulator {

// Objects are never freed, only reused. Thread-safe.
class Event {
 public:
  static constexpr unsigned kBlockingSync = 1;
  static constexpr unsigned kDisableTiming = 2;
  static constexpr unsigned kInterprocess = 4;

  void open(int device, unsigned flags);
  void close();

  // Makes the event one that several processes share.
  Status share(IpcHandle* handle);
  void adopt(std::shared_ptr<SharedEvent> shared);

  Status record(Stream& stream);

  // Later work of the stream waits for the latest recording.
  Status hold(ThreadState& thread, Stream& stream);

  // Success or NotReady, or LaunchFailure if another process recorded it and has ended.
  Status query();
  Status synchronize(ThreadState& thread);

  // The time in nanoseconds at which the device reached the latest recording.
  Status time(std::int64_t* nanoseconds);

  int device();

 private:
  Status pending(CompletionPtr* completion);
  CompletionPtr latestPending();
  Status failIfLost(const Completion& completion) const;

  std::mutex mutex_;
  CompletionPtr latest_;  // null if it was complete from the start
  std::shared_ptr<SharedEvent> shared_;  // null if only this process uses it
  std::uint64_t number_ = 0;  // of latest_ in shared_
  CapturedPointPtr captured_;  // the latest recording became part of a graph
  std::int64_t time_ = 0;
  bool recorded_ = false;
  unsigned flags_ = 0;
  int device_ = 0;
};

}  // namespace emulator
