#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

#include "fallback/Fallback.h"

namespace openreg::fallback {

// Properties of an operator for the boxed fallback, read once from its schema.
struct OperatorInfo {
  explicit OperatorInfo(const c10::OperatorHandle& op);

  static constexpr int kFresh = -1;

  OperatorCounter& counter;
  bool has_cpu_kernel;
  bool of_pytorch;  // one of PyTorch's operators; kernels of other operators may be Python functions
  bool host_operands;  // accepts host tensors (lengths, batch sizes) besides device tensors
  std::vector<bool> written;  // for each argument: is it written?
  bool in_place = false;  // is an argument written that is not an out argument?
  std::vector<bool> dtype_arguments;  // for each argument: is it a dtype?
  std::vector<int> source;  // for each result: the argument that it returns, or kFresh
  int device_argument = -1;  // position of the Device argument, or -1
  int generator_argument = -1;  // position of the Generator argument, or -1
};

// Never destroyed.
OperatorInfo& operatorInfo(const c10::OperatorHandle& op);

}  // namespace openreg::fallback
