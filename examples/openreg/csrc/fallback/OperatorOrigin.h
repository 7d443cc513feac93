#pragma once

#include <torch/library.h>

#include <source_location>
#include <string>
#include <utility>

#include "device/Export.h"

// What runs when the device's kernel of an operator is called, said where the kernel is registered. OperatorCoverage.h reads it.
namespace openreg::fallback {

enum class Origin : uint8_t {
  Native,  // a kernel of the device's own; what a registration means that says nothing
  HostBody,  // a kernel in a file of the device whose body still computes on the host (HostBody.h)
  Fallback,  // PyTorch's CPU kernel, where the fallback policy says
  Host,  // PyTorch's CPU kernel on copies in host memory, whatever the policy is
  Composite,  // PyTorch's code, which calls other operators
};

struct OperatorOrigin {
  Origin origin = Origin::Native;
  std::string reason;  // for people
  std::string runs{};  // the operator whose CPU kernel and policy it is ("aten::convolution"); empty: the one that it is registered for
};

BACKEND_API torch::CppFunction attachOrigin(OperatorOrigin origin, torch::CppFunction kernel, const std::source_location& where);

// A kernel to be registered, with its origin:
//
//   m.impl("linalg_eig", withOrigin({Origin::Host, "always on the host"}, TORCH_FN(eig)));
//
// The origin belongs to the kernel. It counts while the dispatcher has that kernel in force, not while another one, registered later
// by a program or an extension, stands above it.
template <class Function>
torch::CppFunction withOrigin(OperatorOrigin origin, Function kernel, const std::source_location& where = std::source_location::current()) {
  return attachOrigin(std::move(origin), torch::CppFunction(std::move(kernel)), where);
}

// The origin of the kernel in force for an operator at a dispatch key, for which it has one. Native, with the place of its registration as
// the reason, if it has not said another one.
OperatorOrigin originOf(const c10::OperatorHandle& op, c10::DispatchKey key);

}  // namespace openreg::fallback
