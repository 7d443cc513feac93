// Launch functions of the C interface.
#include "api.h"

using namespace emulator;
using namespace emulator::api;

namespace {

Status requireFunction(orKernel_t function) {
  return function != nullptr ? Status::Success : fail(Status::InvalidValue, "the function to run is null");
}

}  // namespace

orError_t orLaunchKernel(orKernel_t kernel, const void* args, size_t args_size, orStream_t stream) {
  return callStream(__func__, stream, [&](Runtime& runtime, ThreadState& thread, Stream& target) {
    EMULATOR_TRY(requireFunction(kernel));
    if (args == nullptr && args_size != 0) {
      return fail(Status::InvalidValue, "args is null, but its size is %zu", args_size);
    }
    EMULATOR_LOG(target, "kernel", "function=%p size=%zu", reinterpret_cast<void*>(kernel), args_size);
    if (runtime.mode() == LaunchMode::Blocking && !target.capturing()) {
      return target.runInline(thread, kernel, const_cast<void*>(args));
    }
    return target.launch(thread, Kind::Kernel, kernel, args, args_size, runtime.mayRunAtOnce());
  });
}

orError_t orLaunchKernelInline(orKernel_t kernel, void* args, orStream_t stream) {
  return callStream(__func__, stream, [&](Runtime&, ThreadState& thread, Stream& target) {
    EMULATOR_TRY(requireFunction(kernel));
    EMULATOR_LOG(target, "inline-kernel", "function=%p", reinterpret_cast<void*>(kernel));
    return target.runInline(thread, kernel, args);
  });
}

orError_t orLaunchHostFunc(orKernel_t function, void* user, orStream_t stream) {
  return callStream(__func__, stream, [&](Runtime& runtime, ThreadState& thread, Stream& target) {
    EMULATOR_TRY(requireFunction(function));
    EMULATOR_LOG(target, "host-function", "function=%p user=%p", reinterpret_cast<void*>(function), user);
    return settle(runtime, thread, target, target.submit(makeHostFunction(function, user)));
  });
}
