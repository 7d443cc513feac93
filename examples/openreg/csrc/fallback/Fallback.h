#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "fallback/OperatorCounter.h"

// Running operators that have no kernel of the device's own.
namespace openreg {

struct OperatorInfo;
namespace fallback {
enum class Kernel : uint8_t;
}

// The boxed fallback of the whole backend, and the same for a call that its caller has counted.
void runFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void runCountedFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Runs a call that was counted by a CPU kernel, where the policy says, and times it.
void runByPolicy(const c10::OperatorHandle& op, OperatorInfo& info, torch::jit::Stack* stack, fallback::Kernel kernel);

}  // namespace openreg
