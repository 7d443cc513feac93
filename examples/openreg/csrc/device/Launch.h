#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <type_traits>

#include "device/Export.h"
#include "device/Stream.h"

// PORTING: kernel launches. Everything in csrc/aten that touches device memory goes through one of these two.
namespace openreg::device {

using KernelFunction = void (*)(void* arguments);

// Submits a kernel to a stream. `arguments` is copied if the kernel has to wait for its turn, so it must be trivially
// copyable and must not point to the caller's stack. Returns before the kernel has run, or after, as the stream decides.
BACKEND_API void launchKernel(KernelFunction kernel, const void* arguments, size_t size, StreamHandle stream);

// Waits for everything submitted to the stream before, then runs on the calling thread and returns when done. The stream is held
// meanwhile: what others submit to it runs later. PyTorch's CPU kernels run like this, because they need the caller's thread-local
// state: in place on the emulated device, or on copies in host memory, which go to and fro on other streams.
BACKEND_API void launchInline(KernelFunction kernel, void* arguments, StreamHandle stream);

// The stream whose kernel this thread is running by launchInline; nullptr outside of one. Such a thread must not wait for
// that stream: it would wait for itself.
BACKEND_API StreamHandle runningStream();

// launchInline for a callable; what it throws is rethrown to the caller (no exception may cross the SDK's C interface).
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
