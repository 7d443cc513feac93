#include <ATen/core/Tensor.h>
#include <ATen/ops/convolution_backward_ops.h>
#include <ATen/ops/convolution_ops.h>
#include <torch/library.h>

#include "fallback/Unboxed.h"

// PyTorch chooses the implementation of a convolution by device, and calls `convolution_overrideable` for this device. A
// fallback cannot handle this operator, because PyTorch registers a kernel that raises an error.
//
// For torch.compile and torch.export PyTorch predicts contiguous results, for every layout of the operands. Compiled code relies on it.
namespace openreg {
namespace {

// PORTING: call your convolution here, and register it without `handedOnTo`, so that it counts as native.
at::Tensor convolution(
    const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias, c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed, c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  return fallback::Emulated<at::_ops::convolution>::call(
             input, weight, bias, stride, padding, dilation, transposed, output_padding, std::move(groups))
      .contiguous();
}

at::Tensor contiguous(const at::Tensor& gradient) {
  return gradient.defined() ? gradient.contiguous() : gradient;
}

// PORTING: call the gradients of your convolution here. Leave gradients undefined that the mask does not request.
std::tuple<at::Tensor, at::Tensor, at::Tensor> convolutionBackward(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight, c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed, c10::SymIntArrayRef output_padding, c10::SymInt groups,
    std::array<bool, 3> output_mask) {
  const std::array<c10::SymInt, 1> bias_sizes{grad_output.sym_size(1)};
  const auto [grad_input, grad_weight, grad_bias] = fallback::Emulated<at::_ops::convolution_backward>::call(
      grad_output, input, weight, c10::SymIntArrayRef(bias_sizes), stride, padding, dilation, transposed, output_padding, std::move(groups),
      output_mask);
  return {contiguous(grad_input), contiguous(grad_weight), grad_bias};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_overrideable", fallback::handedOnTo<at::_ops::convolution>(TORCH_FN(convolution)));
  m.impl("convolution_backward_overrideable", fallback::handedOnTo<at::_ops::convolution_backward>(TORCH_FN(convolutionBackward)));
}

}  // namespace openreg
