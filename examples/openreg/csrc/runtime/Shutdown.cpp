#include "runtime/Shutdown.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <exception>
#include <thread>

#include "runtime/Functions.h"

namespace openreg {

namespace {

// Runs a backward pass on each device. It uses only views, because every fallback policy allows them, and tensors without
// elements, because the device's memory may be full.
void passThroughAutogradThreads() {
  for (c10::DeviceIndex i = 0; i < deviceCount(); ++i) {
    const c10::TensorOptions options(c10::Device(kDeviceType, i));
    const auto x = at::empty({0}, options).requires_grad_();
    x.view({0, 1}).backward(at::empty({0, 1}, options));
  }
}

}  // namespace

void settleAutogradThreads() {
  if (!isInitialized()) {
    return;
  }
  // An autograd thread runs one pass after the other: when it has run this pass, it has released the earlier passes. This
  // pass holds no Python objects, because a new thread has no modes and no context.
  std::exception_ptr error;
  std::thread([&error] {
    try {
      passThroughAutogradThreads();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) {
    std::rethrow_exception(error);
  }
}

}  // namespace openreg
