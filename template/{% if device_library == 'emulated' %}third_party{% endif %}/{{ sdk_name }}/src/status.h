// The result of a call inside the SDK, and the state of the calling thread: current device, last failure, its explanation.
#pragma once

namespace emulator {

// Same numbers as the error codes of the C interface.
enum class Status : int {
  Success = 0,
  InvalidValue = 1,
  MemoryAllocation = 2,
  Initialization = 3,
  InvalidDevice = 4,
  InvalidHandle = 5,
  NotReady = 6,
  InvalidPointer = 7,
  InvalidMemcpyDirection = 8,
  NotSupported = 9,
  Forked = 10,
  LaunchFailure = 11,
  StreamCaptureUnsupported = 12,
  StreamCaptureInvalidated = 13,
  StreamCaptureUnjoined = 14,
  DeviceLost = 15,
  Unknown = 999,
};

struct ThreadState {
  int device = 0;
  int depth = 0;  // nesting of the device functions that this thread runs
  Status last_error = Status::Success;
  char detail[480] = "";
  char message[544] = "";
};

// constinit, because otherwise each access calls a wrapper for lazy initialization.
extern constinit thread_local ThreadState t_state;

inline ThreadState& thisThread() {
  return t_state;
}

// Stores the explanation of a failure for the calling thread and returns `status`.
[[gnu::format(printf, 2, 3)]] Status fail(Status status, const char* format, ...);

// Makes `status` the last error of the thread, with a message that starts with the name of the function called.
// Not for Success. NotReady is an answer and is not recorded.
Status finish(const char* function, Status status);

const char* describe(Status status);

}  // namespace emulator
