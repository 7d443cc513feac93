#include "status.h"

#include <cstdarg>
#include <cstdio>

namespace emulator {

constinit thread_local ThreadState t_state;

Status fail(Status status, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(t_state.detail, sizeof(t_state.detail), format, arguments);
  va_end(arguments);
  return status;
}

Status finish(const char* function, Status status) {
  ThreadState& thread = thisThread();
  if (status != Status::NotReady) {
    const char* detail = thread.detail[0] != '\0' ? thread.detail : describe(status);
    std::snprintf(thread.message, sizeof(thread.message), "%.48s: %.479s", function, detail);
    thread.last_error = status;
  }
  thread.detail[0] = '\0';
  return status;
}

const char* describe(Status status) {
  switch (status) {
    case Status::Success:
      return "no error";
    case Status::InvalidValue:
      return "an argument is out of range, null, or inconsistent with another one";
    case Status::MemoryAllocation:
      return "not enough memory";
    case Status::Initialization:
      return "the SDK could not be set up";
    case Status::InvalidDevice:
      return "no device has this index";
    case Status::InvalidHandle:
      return "the handle is no live stream, event or graph, or belongs to another device";
    case Status::NotReady:
      return "the work is still pending";
    case Status::InvalidPointer:
      return "the pointer is unknown, freed or foreign, or not the start of an allocation";
    case Status::InvalidMemcpyDirection:
      return "the kind of copy contradicts the pointers";
    case Status::NotSupported:
      return "this cannot be done, or not from here";
    case Status::Forked:
      return "the SDK was in use before fork(); start child processes with the `spawn` method";
    case Status::LaunchFailure:
      return "a kernel or host function ended with an exception";
    case Status::StreamCaptureUnsupported:
      return "this cannot be done while a stream is being captured";
    case Status::StreamCaptureInvalidated:
      return "the capture became invalid by an earlier call";
    case Status::StreamCaptureUnjoined:
      return "a stream that joined the capture was not awaited before its end";
    case Status::DeviceLost:
      return "the device is lost until it is reset";
    case Status::Unknown:
      break;
  }
  return "unknown error";
}

}  // namespace emulator
