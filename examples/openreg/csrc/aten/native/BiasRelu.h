#pragma once

#include <ATen/core/Tensor.h>

namespace openreg::native {

// relu(input + bias): input of shape (..., C), bias of shape (C,); both float32, float64, float16 or bfloat16.
at::Tensor biasRelu(const at::Tensor& input, const at::Tensor& bias);

// The same, composed of PyTorch's operators, for the transforms of torch.func.
at::Tensor composedBiasRelu(const at::Tensor& input, const at::Tensor& bias);

// Gradients of input and bias from the gradient of the output and the output itself.
std::tuple<at::Tensor, at::Tensor> biasReluBackward(const at::Tensor& grad, const at::Tensor& output);

}  // namespace openreg::native
