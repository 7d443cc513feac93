#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "fallback/OperatorInfo.h"

namespace openreg::graph {

// Records an emulated operator into the graph that captures its stream. Nothing runs: the operator's Meta kernel computes the
// shapes, and results are new memory, which each replay writes. Host operands are copied. Raises an error if the operator
// cannot be recorded.
bool record(const c10::OperatorHandle& op, const OperatorInfo& info, torch::jit::Stack* stack);

}  // namespace openreg::graph
