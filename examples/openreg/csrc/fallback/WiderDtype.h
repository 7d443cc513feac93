#pragma once

#include <ATen/core/stack.h>
#include <c10/core/ScalarType.h>
#include <c10/util/FunctionRef.h>

#include <optional>

#include "fallback/OperatorInfo.h"
#include "fallback/Boxed.h"

// Types that an accelerator computes in and PyTorch's CPU kernel lacks: half precision in pooling and losses, complex numbers of
// two halves nearly everywhere, integers in histc. The CPU kernel then computes in the next wider type, and its results are rounded.
namespace openreg::fallback {

// The real or complex type to compute in instead of this one, if it is of half precision.
std::optional<c10::ScalarType> widerFloat(c10::ScalarType dtype);

// For the handler of a NotImplementedError: runs the kernel in a wider type, or raises the error again.
void takeWiderType(const c10::OperatorHandle& op, const OperatorInfo& info, torch::jit::Stack* stack, Kernel kernel);

// runCpuKernel for every call: undoes what a kernel has written before it raises.
bool runCpuKernelWithCare(const c10::OperatorHandle& op, const OperatorInfo& info, torch::jit::Stack* stack, Kernel kernel, c10::function_ref<void()> rebind);

// Runs PyTorch's CPU kernel of `op` on CPU tensors. If the kernel raises NotImplementedError and an argument has a type with a wider
// one, runs it again in that type; the operator's counter remembers this, so that later calls do so at once. If the wider type is
// refused too, the kernel's own error stands. `rebind` puts the arguments on the stack again. Returns whether the type was a wider one.
template <class Rebind>
bool runCpuKernel(const c10::OperatorHandle& op, const OperatorInfo& info, torch::jit::Stack* stack, Kernel kernel, const Rebind& rebind) {
  if (kernel != Kernel::Dense || info.in_place || info.counter.lacking() != 0) [[unlikely]] {
    return runCpuKernelWithCare(op, info, stack, kernel, rebind);
  }
  try {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    return false;
  } catch (const c10::NotImplementedError&) {
    rebind();
    takeWiderType(op, info, stack, kernel);
    return true;
  }
}

// The same for a direct call that may need a wider type. Counts it if it does.
void runCpuKernelBoxed(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace openreg::fallback
