#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <vector>

namespace openreg::graph {

// One emulated operator of a captured graph: PyTorch's CPU kernel, its operands bound to their memory, and the memory of
// its results. Owns none of that memory: inputs are kept by the user, everything else by the graph's memory pool.
class RecordedCall {
 public:
  // `arguments` as the CPU kernel takes them; `results` are aliases of the tensors that the caller of the operator got,
  // undefined for those that are an argument of it.
  RecordedCall(c10::OperatorHandle op, torch::jit::Stack arguments, std::vector<at::Tensor> results);

  void run() const;

 private:
  c10::OperatorHandle op_;
  torch::jit::Stack arguments_;
  std::vector<at::Tensor> results_;
};

}  // namespace openreg::graph
