#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "fallback/OperatorInfo.h"

namespace openreg::graph {

// Records an emulated operator into the graph that captures its stream. Nothing runs: shapes come from the operator's Meta
// kernel, and results are new memory, which replays fill. Operands on the host are copied. Raises a sentence if that cannot be.
bool record(const c10::OperatorHandle& op, const fallback::OperatorInfo& info, torch::jit::Stack* stack);

}  // namespace openreg::graph
