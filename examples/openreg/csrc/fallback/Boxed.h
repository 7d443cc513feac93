#pragma once

#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <optional>

#include "fallback/Call.h"
#include "fallback/OperatorInfo.h"

namespace openreg::fallback {

// Which of an operator's CPU kernels runs.
enum class KernelSelection : uint8_t {
  Dense,
  ByOperands,  // the kernel for sparse, quantized or nested tensors, if an operand or the result is one of these
};

// Runs PyTorch's CPU kernel of any operator for the device. It reads from the schema what Unboxed.h reads from C++ types.
void runBoxed(
    const c10::OperatorHandle& op, const OperatorInfo& info, torch::jit::Stack* stack, KernelSelection selection = KernelSelection::Dense,
    Call::Memory memory = Call::defaultMemory());

// The device argument, if `op` is a factory function.
std::optional<c10::DeviceIndex> deviceOf(const OperatorInfo& info, const torch::jit::Stack& stack);

// Replaces the arguments on the stack by those of the CPU kernel, and returns the original arguments.
using Arguments = c10::SmallVector<c10::IValue, 8>;
Arguments bindOperands(Call& call, const OperatorInfo& info, torch::jit::Stack* stack);

}  // namespace openreg::fallback
