#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <type_traits>

#include "device/Export.h"
#include "device/Stream.h"

// PORTING: kernel launches. Except for copies and fills, all work on device memory is submitted by one of these two functions.
namespace openreg::device {

using KernelFunction = void (*)(void* arguments);

// Submits a kernel to a stream. A queued kernel gets a copy of `arguments`, so they must be trivially copyable and must not
// point to the caller's stack. May return before or after the kernel has run.
BACKEND_API void launchKernel(KernelFunction kernel, const void* arguments, size_t size, StreamHandle stream);

// Waits for the earlier work of the stream, runs the kernel on the calling thread, and returns when it is done. It holds the
// stream: work that others submit meanwhile runs later. PyTorch's CPU kernels run like this, because they need the caller's
// thread-local state. They run in place on the emulated device, or on copies in host memory; another stream makes these
// copies.
BACKEND_API void launchInline(KernelFunction kernel, void* arguments, StreamHandle stream);

// The stream that launchInline holds while this thread runs a kernel by it; nullptr outside of such a kernel. This thread must not
// wait for that stream, because it would wait for itself. If the SDK cannot hold a stream, it is nullptr inside of a kernel too; the
// fallback then separates the kernels of one stream by a lock.
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

// launchKernel for a kernel that takes one argument block by reference.
template <class Arguments, void (*Kernel)(const Arguments&)>
void launch(const Arguments& arguments, StreamHandle stream) {
  static_assert(std::is_trivially_copyable_v<Arguments>, "kernel arguments are copied as bytes");
  launchKernel([](void* opaque) { Kernel(*static_cast<const Arguments*>(opaque)); }, &arguments, sizeof(Arguments), stream);
}

}  // namespace openreg::device
