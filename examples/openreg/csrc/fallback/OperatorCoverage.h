#pragma once

#include <map>
#include <string>

#include "device/Export.h"

namespace openreg::fallback {

// How an operator runs on the device.
enum class OperatorState : uint8_t {
  Native,  // the device's own kernel
  HostBody,  // a kernel in a file of the device whose body still computes on the host
  Emulated,  // PyTorch's CPU kernel, in place on device memory
  Cpu,  // PyTorch's CPU kernel, with copies to the host and back
  Composite,  // other operators
  None,  // it cannot run
};

struct OperatorCoverage {
  OperatorState state = OperatorState::None;
  std::string reason;  // for people
};

// Every operator that the dispatcher knows, by its full name ("aten::add.Tensor"), as it would run now: by the kernel in force, and if that
// is PyTorch's CPU kernel, by the policy in force. If an operator has kernels only for sparse, quantized or nested tensors, its state
// comes from those kernels.
BACKEND_API std::map<std::string, OperatorCoverage> operatorCoverage();

}  // namespace openreg::fallback
