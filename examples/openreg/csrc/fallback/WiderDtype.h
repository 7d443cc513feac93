#pragma once

#include <ATen/core/stack.h>
#include <c10/core/ScalarType.h>
#include <c10/util/FunctionRef.h>

#include <optional>

#include "fallback/Boxed.h"
#include "fallback/OperatorInfo.h"

// Dtypes that accelerators support and a CPU kernel lacks: half precision in pooling and losses, complex numbers of two
// halves nearly everywhere, integers in histc. The CPU kernel then computes in the next wider dtype, and its results are
// rounded.
namespace openreg::fallback {

// The wider real or complex dtype of a half-precision dtype; std::nullopt for other dtypes.
std::optional<c10::ScalarType> widerFloat(c10::ScalarType dtype);

// For the handler of a NotImplementedError: runs the kernel in a wider dtype, or rethrows the error.
void takeWiderType(const c10::OperatorHandle& op, const OperatorInfo& info, torch::jit::Stack* stack, KernelSelection selection);

// Like runCpuKernel, but also undoes the writes of a kernel that raises an error.
bool runCpuKernelWithCare(
    const c10::OperatorHandle& op, const OperatorInfo& info, torch::jit::Stack* stack, KernelSelection selection,
    c10::function_ref<void()> rebind);

// Runs PyTorch's CPU kernel of `op` on CPU tensors. If the kernel raises NotImplementedError and the dtype of an argument has
// a wider dtype, runs it again in that dtype. The operator's counter stores this, so that later calls use the wider dtype at
// once. If the kernel refuses the wider dtype too, its first error is raised. `rebind` restores the arguments on the stack.
// Returns whether a wider dtype was used.
template <class Rebind>
bool runCpuKernel(
    const c10::OperatorHandle& op, const OperatorInfo& info, torch::jit::Stack* stack, KernelSelection selection, const Rebind& rebind) {
  if (selection != KernelSelection::Dense || info.in_place || info.counter.lacking() != 0) [[unlikely]] {
    return runCpuKernelWithCare(op, info, stack, selection, rebind);
  }
  try {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    return false;
  } catch (const c10::NotImplementedError&) {
    rebind();
    takeWiderType(op, info, stack, selection);
    return true;
  }
}

// The same for a direct call. Counts the call if it needs a wider dtype.
void runCpuKernelBoxed(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace openreg::fallback
