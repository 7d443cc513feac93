// Functions of the C interface for diagnosis.
#include "api.h"

#include <string_view>

#include "../launch_log.h"
#include "../reset.h"

using namespace emulator;
using namespace emulator::api;

orError_t orSetKernelDelay(unsigned int microseconds) {
  return callRuntime(__func__, [&](Runtime&, ThreadState&) {
    if (microseconds > kMaxDelay) {
      return fail(Status::InvalidValue, "a delay of %u microseconds is too long; the limit is %u", microseconds, kMaxDelay);
    }
    diagnosis::setDelay(microseconds);
    return Status::Success;
  });
}

orError_t orInjectFault(const char* function, unsigned int nth, orError_t error) {
  const auto body = [&] {
    if (function == nullptr) {
      return fail(Status::InvalidValue, "the name of the function is null");
    }
    if (error != orSuccess && std::string_view(orGetErrorName(error)).starts_with("unknown")) {
      return fail(Status::InvalidValue, "%d is no error code", static_cast<int>(error));
    }
    return injectFailure(function, nth, static_cast<Status>(error));
  };
  // Does not use call(), which would count this call.
  const Status status = body();
  return status == Status::Success ? orSuccess : static_cast<orError_t>(finish(__func__, status));
}

orError_t orSetStickyErrors(int enabled) {
  return callRuntime(__func__, [&](Runtime&, ThreadState&) {
    diagnosis::turn(diagnosis::kSticky, enabled != 0);
    return Status::Success;
  });
}

orError_t orSetLaunchLog(const char* path) {
  return callRuntime(__func__, [&](Runtime&, ThreadState&) {
    return openLaunchLog(path);
  });
}

orError_t orDeviceFail(int device, const char* reason) {
  return callRuntime(__func__, [&](Runtime& runtime, ThreadState&) {
    if (device < 0 || device >= runtime.deviceCount()) {
      return fail(Status::InvalidDevice, "there is no device %d; the number of devices is %d", device, runtime.deviceCount());
    }
    runtime.device(device).lose(reason != nullptr ? reason : "no reason was given");
    return Status::Success;
  });
}

orError_t orDeviceReset() {
  return callRuntime(__func__, [](Runtime& runtime, ThreadState& thread) {
    return resetDevice(runtime, thread, runtime.currentDevice(thread));
  });
}
