#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "fallback/OperatorCounter.h"

// Runs operators without a native kernel.
namespace openreg::fallback {

struct OperatorInfo;
enum class KernelSelection : uint8_t;

// The boxed fallback of the backend, and a form of it for calls that the caller has already counted.
void runFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void runCountedFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// A kernel to be registered for an operator that the device leaves to the host: PyTorch's CPU kernel runs on copies in host memory,
// whatever the policy is, and the call is counted.
torch::CppFunction onHost();

// Runs a counted call by a CPU kernel, in place or on copies as the policy says, and times it.
void runByPolicy(const c10::OperatorHandle& op, OperatorInfo& info, torch::jit::Stack* stack, KernelSelection selection);

}  // namespace openreg::fallback
