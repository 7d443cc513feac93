#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "fallback/OperatorCounter.h"

// Runs operators without a native kernel.
namespace openreg {

struct OperatorInfo;
namespace fallback {
enum class KernelSelection : uint8_t;
}

// The boxed fallback of the backend, and a form of it for calls that the caller has already counted.
void runFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void runCountedFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Runs a call that was counted by a CPU kernel, where the policy says, and times it.
void runByPolicy(const c10::OperatorHandle& op, OperatorInfo& info, torch::jit::Stack* stack, fallback::KernelSelection selection);

}  // namespace openreg
