// An event: stands for what a stream had been given when it was recorded last.
#pragma once

#include <cstdint>
#include <mutex>

#include "capture.h"
#include "completion.h"
#include "ipc_event.h"
#include "status.h"
#include "stream.h"

namespace emulator {

// Objects are never freed, only used again. Thread-safe.
class Event {
 public:
  static constexpr unsigned kBlockingSync = 1;
  static constexpr unsigned kDisableTiming = 2;
  static constexpr unsigned kInterprocess = 4;

  void open(int device, unsigned flags);
  void close();

  // From now on the event is one of several processes.
  Status share(IpcHandle* handle);
  void adopt(std::shared_ptr<SharedEvent> shared);

  Status record(Stream& stream);

  // Has later work of the stream wait for the latest recording.
  Status hold(ThreadState& thread, Stream& stream);

  // Success or NotReady, or LaunchFailure if another process recorded it and has ended.
  Status query();
  Status synchronize(ThreadState& thread);

  // Nanoseconds at which the device came to the latest recording.
  Status time(std::int64_t* nanoseconds);

  int device();

 private:
  Status pending(CompletionPtr* completion);
  CompletionPtr latestPending();
  Status failIfLost(const Completion& completion) const;

  std::mutex mutex_;
  CompletionPtr latest_;  // null if it was complete from the start
  std::shared_ptr<SharedEvent> shared_;  // null if it is this process's alone
  std::uint64_t number_ = 0;  // of latest_ in shared_
  CapturedPointPtr captured_;  // the latest recording became part of a graph
  std::int64_t time_ = 0;
  bool recorded_ = false;
  unsigned flags_ = 0;
  int device_ = 0;
};

}  // namespace emulator
