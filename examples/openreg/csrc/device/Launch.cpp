#include "device/Launch.h"

#include <utility>

#include "device/Error.h"
#include "device/Handles.h"
#include "device/Waiting.h"

// PORTING: launch by your SDK's functions; Kernel.h has the type of a kernel. launchWithOperands, launchInline and runningStream are
// optional.
namespace openreg::device {
namespace {

thread_local constinit StreamHandle running_stream = nullptr;

}  // namespace

void launchKernel(KernelFunction kernel, const void* arguments, size_t size, StreamHandle stream) {
  const Waiting waiting;
  DEVICE_CHECK(orLaunchKernel(kernel, arguments, size, unwrap(stream)));
}

void launchInline(HostFunction function, void* arguments, StreamHandle stream) {
  const Waiting waiting;
  auto* const outer = std::exchange(running_stream, stream);
  const auto code = orLaunchKernelInline(function, arguments, unwrap(stream));
  running_stream = outer;
  DEVICE_CHECK_CODE(code, "orLaunchKernelInline");
}

StreamHandle runningStream() {
  return running_stream;
}

}  // namespace openreg::device
