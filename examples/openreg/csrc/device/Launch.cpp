#include "device/Launch.h"

#include "device/Error.h"
#include "device/Handles.h"

namespace openreg::device {

void launchKernel(KernelFunction kernel, const void* arguments, size_t size, StreamHandle stream) {
  DEVICE_CHECK(orLaunchKernel(kernel, arguments, size, unwrap(stream)));
}

void launchInline(KernelFunction kernel, void* arguments, StreamHandle stream) {
  DEVICE_CHECK(orLaunchKernelInline(kernel, arguments, unwrap(stream)));
}

}  // namespace openreg::device
