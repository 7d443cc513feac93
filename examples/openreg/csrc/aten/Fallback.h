#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "aten/OperatorCounter.h"

// Running operators that have no kernel of the device's own.
namespace openreg {

struct OperatorInfo;

// The boxed fallback of the whole backend, and the same for a call that its caller has counted.
void runFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void runCountedFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Runs an operator on the host, with copies, whatever the policy is.
void runOnHost(const c10::OperatorHandle& op, const OperatorInfo& info, torch::jit::Stack* stack);

}  // namespace openreg
