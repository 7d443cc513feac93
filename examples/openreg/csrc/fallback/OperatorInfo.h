#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

#include "fallback/Fallback.h"

namespace openreg {

// What the boxed fallback needs to know about an operator, read from its schema once.
struct OperatorInfo {
  explicit OperatorInfo(const c10::OperatorHandle& op);

  static constexpr int kFresh = -1;

  OperatorCounter& counter;
  bool has_cpu_kernel;
  bool of_pytorch;  // not a program's own, whose kernel may be a Python function
  bool host_operands;  // takes tensors that stay on the host (lengths, batch sizes) beside the device's
  std::vector<bool> written;  // for each argument: is it written?
  bool in_place = false;  // is an argument written that is no out argument?
  std::vector<bool> dtype_arguments;  // for each argument: is it a dtype?
  std::vector<int> source;  // for each result: the argument that it is, or kFresh
  int device_argument = -1;  // position of the Device argument, or -1
  int generator_argument = -1;  // position of the Generator argument, or -1
};

// Never destroyed.
OperatorInfo& operatorInfo(const c10::OperatorHandle& op);

}  // namespace openreg
