#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <type_traits>

#include "device/Export.h"
#include "device/Kernel.h"
#include "device/Stream.h"

// Kernel launches. Except for copies and fills, all work on device memory is submitted by these functions. Device.h has the rules for all
// functions.
namespace openreg::device {

using HostFunction = void (*)(void* arguments);

// Submits a kernel to a stream. A queued kernel gets a copy of the `size` bytes of `arguments`, so they must be trivially copyable and must
// not point to the caller's stack. May return before or after the kernel has run. A kernel must not throw, and must not call the seam.
BACKEND_API void launchKernel(KernelFunction kernel, const void* arguments, size_t size, StreamHandle stream);

// Device memory that a kernel accesses: at least one byte, all in one allocation.
struct Operand {
  const void* data;
  size_t nbytes;
  bool written;
};

// launchKernel for an SDK that has to know the memory of a kernel, for example because it maps or unlocks memory for the time of the
// kernel. Kernels are launched by this function. `operands` is valid during the call only. Optional: without a definition it calls
// launchKernel without the operands.
BACKEND_API void launchWithOperands(
    KernelFunction kernel, const void* arguments, size_t size, std::span<const Operand> operands, StreamHandle stream);

// Waits for the earlier work of the stream, runs the function on the calling thread, and returns when it is done. It holds the stream:
// work that others submit meanwhile runs later. PyTorch's CPU kernels run like this, because they need the caller's thread-local state.
// They run in place on the emulated device, or on copies in host memory; another stream makes these copies. The function does not throw.
// It may call the seam, also for other streams. Optional: without a definition it waits for the stream and does not hold it. An SDK that
// queues functions of the host can hold it: substitutes/HeldStream.h.
BACKEND_API void launchInline(HostFunction function, void* arguments, StreamHandle stream);

// The stream that launchInline holds while this thread runs a function by it; nullptr outside of such a function. This thread must not
// wait for that stream, because it would wait for itself. If launchInline does not hold the stream, it is nullptr inside of the function
// too; the fallback then separates the kernels of one stream by a lock. Optional, like launchInline.
BACKEND_API StreamHandle runningStream();

// launchInline for a callable. Rethrows its exception to the caller, because no exception may cross the SDK's C interface.
template <class Callable>
void runOnStream(StreamHandle stream, Callable&& callable) {
  struct Arguments {
    std::remove_reference_t<Callable>* callable;
    std::exception_ptr error;
  } arguments{std::addressof(callable), nullptr};
  launchInline(
      [](void* opaque) {
        auto* self = static_cast<Arguments*>(opaque);
        try {
          (*self->callable)();
        } catch (...) {
          self->error = std::current_exception();
        }
      },
      &arguments, stream);
  if (arguments.error) [[unlikely]] {
    std::rethrow_exception(arguments.error);
  }
}

// Launches a function of the host as a kernel. It takes one argument block by reference. Only for devices with kKernelsAreHostFunctions:
// call it in an `if constexpr`.
template <class Arguments, void (*Kernel)(const Arguments&)>
void launch(const Arguments& arguments, std::span<const Operand> operands, StreamHandle stream) {
  static_assert(std::is_trivially_copyable_v<Arguments>, "kernel arguments are copied as bytes");
  launchWithOperands([](void* opaque) { Kernel(*static_cast<const Arguments*>(opaque)); }, &arguments, sizeof(Arguments), operands, stream);
}

// The same for a kernel without operands in device memory.
template <class Arguments, void (*Kernel)(const Arguments&)>
void launch(const Arguments& arguments, StreamHandle stream) {
  launch<Arguments, Kernel>(arguments, {}, stream);
}

}  // namespace openreg::device
