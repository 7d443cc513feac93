#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "aten/native/BiasRelu.h"

// Style: gradient of a custom operator, as a torch::autograd::Function in C++.
namespace openreg::native {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Calls the dispatcher, so that modes, Meta tensors and functional transforms handle the operator.
template <class Signature, class... Args>
auto callOperator(const char* name, const Args&... args) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>().call(args...);
}

struct BiasRelu : torch::autograd::Function<BiasRelu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& bias) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    auto output = callOperator<at::Tensor(const at::Tensor&, const at::Tensor&)>("openreg::bias_relu", input, bias);
    context->save_for_backward({output});
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto output = context->get_saved_variables()[0];
    auto [grad_input, grad_bias] = callOperator<std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&)>(
        "openreg::bias_relu_backward", grads[0], output);
    return {grad_input, grad_bias};
  }
};

at::Tensor biasReluAutograd(const at::Tensor& input, const at::Tensor& bias) {
  // torch.func refuses torch::autograd::Function, because its transforms cannot see the operators in it.
  const bool transformed = c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerBackMode);
  return transformed ? composedBiasRelu(input, bias) : BiasRelu::apply(input, bias);
}

}  // namespace

TORCH_LIBRARY_IMPL(openreg, AutogradPrivateUse1, m) {
  m.impl("bias_relu", TORCH_FN(biasReluAutograd));
}

TORCH_LIBRARY_IMPL(openreg, FuncTorchBatched, m) {
  m.impl("bias_relu", TORCH_FN(composedBiasRelu));  // otherwise vmap would call the kernel once for each element of the batch
}

}  // namespace openreg::native
