#pragma once

#include <ATen/core/boxing/impl/boxing.h>
#include <torch/library.h>

#include <source_location>
#include <string>
#include <string_view>
#include <utility>

#include "device/Export.h"
#include "device/Kernel.h"
#include "fallback/OperatorCounter.h"
#include "fallback/OperatorOrigin.h"
#include "fallback/Unboxed.h"

// Kernels in a file of the device's own whose body still computes on the host. The mark stands where the kernel is registered:
//
//   m.impl("gelu", fallback::hostBody("gelu", TORCH_FN(gelu)));
//
// While it stands there, coverage() calls the operator a host body. Its calls are counted and timed like those of other operators
// without a native kernel. The policy `error` refuses them; under the other policies the body runs. When the body launches work on
// the device, register TORCH_FN(gelu) alone.
namespace openreg::fallback {

// One registration. Never destroyed, because the kernel uses it.
class BACKEND_API HostBody {
 public:
  // `op` is the name in the schema, such as "add.Tensor". Names without a namespace are PyTorch's own.
  HostBody(std::string_view op, const std::source_location& where);

  OperatorCounter& counter() const {
    return counter_;
  }

  // Describes a counted call and applies the policy: warns or raises an error that names the file.
  void applyPolicy(const torch::jit::Stack& arguments) const;

  // What coverage() tells.
  OperatorOrigin origin() const;

 private:
  c10::OperatorName name_;
  OperatorCounter& counter_;
  std::string place_;  // "csrc/aten/native/Gelu.cpp:41"
};

template <class Function, class FuncType = typename Function::FuncType>
struct HostBodyKernel;

template <class Function, class R, class... Args>
struct HostBodyKernel<Function, R(Args...)> {
  R operator()(Args... args) const {
    if (!body.counter().countAndCheckFast()) [[unlikely]] {
      return callWithCare(std::forward<Args>(args)...);
    }
    return (*Function::func_ptr())(std::forward<Args>(args)...);
  }

  C10_NOINLINE R callWithCare(Args... args) const {
    auto& counter = body.counter();
    if (counter.isOnlyTimed()) {
      counter.addDtypes((dtypesOf(args) | ... | DtypeSet{0}));
    } else {
      body.applyPolicy(c10::impl::boxArgs<Args...>(args...));
    }
    const CallTimer timer(counter);
    return (*Function::func_ptr())(std::forward<Args>(args)...);
  }

  const HostBody& body;
};

template <class Function>
torch::CppFunction hostBody(
    std::string_view op, Function /*kernel*/, const std::source_location& where = std::source_location::current()) {
  const auto& body = *new HostBody(op, where);
  return attachOrigin(body.origin(), torch::CppFunction(HostBodyKernel<Function>{body}), where);
}

// For a body that launches a function of the host. A device whose kernels are functions of the host runs it, so there the kernel is native.
// On other devices the function runs on copies in host memory, so there it is a host body.
template <class Function>
torch::CppFunction hostFunction(
    std::string_view op, Function kernel, const std::source_location& where = std::source_location::current()) {
  return device::kKernelsAreHostFunctions ? torch::CppFunction(kernel) : hostBody(op, kernel, where);
}

}  // namespace openreg::fallback
