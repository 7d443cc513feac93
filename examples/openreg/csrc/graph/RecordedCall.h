#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <vector>

namespace openreg::graph {

// One emulated operator of a captured graph: PyTorch's CPU kernel, and the addresses of its operands and results. It owns
// none of this memory: the user keeps inputs alive, the graph's memory pool keeps everything else.
class RecordedCall {
 public:
  // `arguments` are those of the CPU kernel. `results` are aliases of the tensors that the operator returned, undefined for a
  // result that is an argument.
  RecordedCall(c10::OperatorHandle op, torch::jit::Stack arguments, std::vector<at::Tensor> results);

  void run() const;

 private:
  c10::OperatorHandle op_;
  torch::jit::Stack arguments_;
  std::vector<at::Tensor> results_;
};

}  // namespace openreg::graph
