#pragma once

namespace openreg::device {

// What launchKernel submits. A kernel of the emulated device is a function of the host.
// PORTING: use your SDK's type for a kernel instead, such as its handle of a function in a loaded module.
using KernelFunction = void (*)(void* arguments);

// Whether a kernel is a function of the host that a stream of the device runs on the operands that the launch names. Then the example
// kernels in csrc/aten/native are launched; otherwise they run on copies in host memory. With another type above it must be false.
inline constexpr bool kKernelsAreHostFunctions = true;

}  // namespace openreg::device
