// Error functions of the C interface.
#include "api.h"

using namespace emulator;

static_assert(static_cast<int>(Status::Success) == orSuccess);
static_assert(static_cast<int>(Status::InvalidValue) == orErrorInvalidValue);
static_assert(static_cast<int>(Status::MemoryAllocation) == orErrorMemoryAllocation);
static_assert(static_cast<int>(Status::Initialization) == orErrorInitialization);
static_assert(static_cast<int>(Status::InvalidDevice) == orErrorInvalidDevice);
static_assert(static_cast<int>(Status::InvalidHandle) == orErrorInvalidHandle);
static_assert(static_cast<int>(Status::NotReady) == orErrorNotReady);
static_assert(static_cast<int>(Status::InvalidPointer) == orErrorInvalidPointer);
static_assert(static_cast<int>(Status::InvalidMemcpyDirection) == orErrorInvalidMemcpyDirection);
static_assert(static_cast<int>(Status::NotSupported) == orErrorNotSupported);
static_assert(static_cast<int>(Status::Forked) == orErrorForked);
static_assert(static_cast<int>(Status::LaunchFailure) == orErrorLaunchFailure);
static_assert(static_cast<int>(Status::StreamCaptureUnsupported) == orErrorStreamCaptureUnsupported);
static_assert(static_cast<int>(Status::StreamCaptureInvalidated) == orErrorStreamCaptureInvalidated);
static_assert(static_cast<int>(Status::StreamCaptureUnjoined) == orErrorStreamCaptureUnjoined);
static_assert(static_cast<int>(Status::DeviceLost) == orErrorDeviceLost);
static_assert(static_cast<int>(Status::Unknown) == orErrorUnknown);

const char* orGetErrorName(orError_t error) {
#define EMULATOR_NAME(enumerator) \
  case enumerator: \
    return #enumerator
  switch (error) {
    EMULATOR_NAME(orSuccess);
    EMULATOR_NAME(orErrorInvalidValue);
    EMULATOR_NAME(orErrorMemoryAllocation);
    EMULATOR_NAME(orErrorInitialization);
    EMULATOR_NAME(orErrorInvalidDevice);
    EMULATOR_NAME(orErrorInvalidHandle);
    EMULATOR_NAME(orErrorNotReady);
    EMULATOR_NAME(orErrorInvalidPointer);
    EMULATOR_NAME(orErrorInvalidMemcpyDirection);
    EMULATOR_NAME(orErrorNotSupported);
    EMULATOR_NAME(orErrorForked);
    EMULATOR_NAME(orErrorLaunchFailure);
    EMULATOR_NAME(orErrorStreamCaptureUnsupported);
    EMULATOR_NAME(orErrorStreamCaptureInvalidated);
    EMULATOR_NAME(orErrorStreamCaptureUnjoined);
    EMULATOR_NAME(orErrorDeviceLost);
    EMULATOR_NAME(orErrorUnknown);
  }
#undef EMULATOR_NAME
  return "unknown error code";
}

const char* orGetErrorString(orError_t error) {
  return describe(static_cast<Status>(error));
}

orError_t orGetLastError() {
  ThreadState& thread = thisThread();
  const Status status = thread.last_error;
  thread.last_error = Status::Success;
  return static_cast<orError_t>(status);
}

orError_t orPeekAtLastError() {
  return static_cast<orError_t>(thisThread().last_error);
}

const char* orGetLastErrorMessage() {
  return thisThread().message;
}
