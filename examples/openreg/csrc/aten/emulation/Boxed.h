#pragma once

#include <ATen/core/stack.h>

#include "aten/OperatorInfo.h"

namespace openreg::emulation {

// PyTorch's CPU kernel of any operator on device memory: reads from the schema what Unboxed.h reads from C++ types.
void runBoxed(const c10::OperatorHandle& op, const OperatorInfo& info, torch::jit::Stack* stack);

// What copying the operands to the host would leave unchecked or undone: raises if they are on different devices, and
// replaces the device's generator by the engine that a CPU kernel can draw from. Returns the operands' device.
c10::Device prepareForHost(const OperatorInfo& info, torch::jit::Stack* stack);

}  // namespace openreg::emulation
