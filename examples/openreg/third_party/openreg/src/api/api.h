// The code around the body of every function of the C interface.
#pragma once

#include <exception>
#include <new>
#if defined(__GLIBCXX__)
#include <cxxabi.h>
#endif

#include <openreg/openreg.h>

#include "../diagnosis.h"
#include "../fault_injection.h"
#include "../launch_log.h"
#include "../runtime.h"
#include "../status.h"

namespace emulator::api {

// Runs `body`, which returns a Status. No exception leaves it, and a failure becomes the thread's last error.
template <class Body>
inline orError_t call(const char* function, Body&& body) {
  Status status = Status::Success;
  if (diagnosis::on(diagnosis::kFailures)) [[unlikely]] {
    status = countCall(function);
    if (status != Status::Success) {
      return static_cast<orError_t>(finish(function, status));
    }
  }
  try {
    status = body();
#if defined(__GLIBCXX__)
  } catch (const abi::__forced_unwind&) {
    throw;  // the thread is being ended, which must not be stopped
#endif
  } catch (const std::bad_alloc&) {
    status = fail(Status::MemoryAllocation, "the host has no memory left");
  } catch (const std::exception& error) {
    status = fail(Status::Unknown, "%s", error.what());
  } catch (...) {
    status = Status::Unknown;
  }
  if (status == Status::Success) [[likely]] {
    return orSuccess;
  }
  return static_cast<orError_t>(finish(function, status));
}

// Like call, with the runtime and the state of the calling thread.
template <class Body>
inline orError_t callRuntime(const char* function, Body&& body) {
  return call(function, [&] {
    Runtime* runtime;
    const Status status = Runtime::require(&runtime);
    return status == Status::Success ? body(*runtime, thisThread()) : status;
  });
}

// Like callRuntime, with a stream.
template <class Body>
inline orError_t callStream(const char* function, orStream_t handle, Body&& body) {
  return callRuntime(function, [&](Runtime& runtime, ThreadState& thread) {
    Stream* const stream = runtime.findStream(thread, reinterpret_cast<std::uintptr_t>(handle));
    return stream != nullptr ? body(runtime, thread, *stream) : Status::InvalidHandle;
  });
}

// Success unless the event's device is lost.
inline Status checkDevice(Runtime& runtime, Event& event) {
  return diagnosis::on(diagnosis::kLost) ? runtime.device(event.device()).check() : Status::Success;
}

// Like callRuntime, with an event.
template <class Body>
inline orError_t callEvent(const char* function, orEvent_t handle, Body&& body) {
  return callRuntime(function, [&](Runtime& runtime, ThreadState& thread) {
    Event* const event = runtime.findEvent(reinterpret_cast<std::uintptr_t>(handle));
    if (event == nullptr) {
      return Status::InvalidHandle;
    }
    const Status status = checkDevice(runtime, *event);
    return status == Status::Success ? body(runtime, thread, *event) : status;
  });
}

inline Status requireOutput(const void* pointer, const char* name) {
  return pointer != nullptr ? Status::Success : fail(Status::InvalidValue, "the output argument '%s' is null", name);
}

// In the blocking mode a submission ends with the completion of its work.
inline Status settle(Runtime& runtime, ThreadState& thread, Stream& stream, Status status) {
  if (runtime.mode() != LaunchMode::Blocking || status != Status::Success || stream.heldBy(thread) || stream.capturing()) {
    return status;
  }
  return stream.synchronize(thread);
}

// Returns from the function if the expression is not Success.
#define EMULATOR_TRY(expression) \
  do { \
    if (const Status try_status = (expression); try_status != Status::Success) { \
      return try_status; \
    } \
  } while (false)

}  // namespace emulator::api
