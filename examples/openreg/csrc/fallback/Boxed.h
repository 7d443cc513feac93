#pragma once

#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <optional>

#include "fallback/OperatorInfo.h"
#include "fallback/Call.h"

namespace openreg::fallback {

// Which CPU kernel of an operator runs.
enum class Kernel : uint8_t {
  Dense,
  OfOperands,  // the one for sparse, quantized or nested tensors, if an operand or the result is such a one
};

// PyTorch's CPU kernel of any operator for the device: reads from the schema what Unboxed.h reads from C++ types.
void runBoxed(
    const c10::OperatorHandle& op, const OperatorInfo& info, torch::jit::Stack* stack, Kernel kernel = Kernel::Dense, Call::Memory memory = Call::defaultMemory());

// The device that a factory function is asked for, if `op` is one.
std::optional<c10::DeviceIndex> deviceOf(const OperatorInfo& info, const torch::jit::Stack& stack);

// Replaces the arguments on the stack by what the CPU kernel takes, and gives back what was there.
using Arguments = c10::SmallVector<c10::IValue, 8>;
Arguments bindOperands(Call& call, const OperatorInfo& info, torch::jit::Stack* stack);

}  // namespace openreg::fallback
