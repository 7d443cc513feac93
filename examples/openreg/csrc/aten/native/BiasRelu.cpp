#include "aten/native/BiasRelu.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sum_to_size.h>
#include <ATen/ops/threshold_backward.h>
#include <torch/library.h>

#include <array>

#include "aten/support/Operands.h"
#include "device/Address.h"
#include "device/Launch.h"
#include "fallback/Call.h"
#include "fallback/HostBody.h"
#include "runtime/Stream.h"

// Style: custom operator. This file has the schema, the device's kernel and the Meta kernel (it only computes shapes, for
// torch.compile and fake tensors); BiasReluAutograd.cpp has the gradient. Like a real kernel, the kernel is launched with a
// block of arguments that holds device addresses, and with its operands, for SDKs that have to know the memory of a kernel.
namespace openreg::native {
namespace {

template <class T>
struct BiasReluArguments {
  const T* input;
  const T* bias;
  T* output;
  int64_t rows;
  int64_t columns;
};

// PORTING: replace this by the device's code. A real kernel takes the same block of arguments, and uses its addresses without conversion.
template <class T>
void biasReluKernel(const BiasReluArguments<T>& arguments) {
  const T* input = device::toKernelAddress(arguments.input);
  const T* bias = device::toKernelAddress(arguments.bias);
  T* output = device::toKernelAddress(arguments.output);
  for (int64_t row = 0; row < arguments.rows; ++row) {
    for (int64_t column = 0; column < arguments.columns; ++column) {
      const T sum = input[row * arguments.columns + column] + bias[column];
      output[row * arguments.columns + column] = sum <= T(0) ? T(0) : sum;  // NaN stays NaN
    }
  }
}

void checkShapes(const at::Tensor& input, const at::Tensor& bias) {
  TORCH_CHECK_VALUE(
      input.dim() >= 1 && bias.dim() == 1 && input.sym_size(-1) == bias.sym_size(0),
      "bias_relu takes an input of shape (..., C) and a bias of shape (C,), got ", input.sym_sizes(), " and ", bias.sym_sizes());
  TORCH_CHECK_TYPE(
      input.scalar_type() == bias.scalar_type(), "bias_relu takes an input and a bias of one dtype, got ", input.scalar_type(), " and ",
      bias.scalar_type());
  TORCH_CHECK(
      input.device() == bias.device(), "Expected all tensors to be on the same device, but found at least two devices, ", input.device(),
      " and ", bias.device(), "!");
}

at::Tensor biasReluMeta(const at::Tensor& input, const at::Tensor& bias) {
  checkShapes(input, bias);
  return at::empty_like(input, at::MemoryFormat::Contiguous);
}

}  // namespace

at::Tensor biasRelu(const at::Tensor& input, const at::Tensor& bias) {
  checkShapes(input, bias);
  const auto packed_input = input.contiguous();
  const auto packed_bias = bias.contiguous();
  auto output = at::empty_like(packed_input);
  if (output.numel() == 0) {
    return output;
  }
  auto* stream = currentStreamHandle(input.device().index());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, input.scalar_type(), "bias_relu", [&] {
    BiasReluArguments<scalar_t> arguments{
        packed_input.const_data_ptr<scalar_t>(), packed_bias.const_data_ptr<scalar_t>(), output.mutable_data_ptr<scalar_t>(),
        output.numel() / bias.size(0), bias.size(0)};
    if constexpr (device::kKernelsAreHostFunctions) {
      const std::array operands{reads(packed_input), reads(packed_bias), writes(output)};
      device::launch<BiasReluArguments<scalar_t>, &biasReluKernel<scalar_t>>(arguments, operands, stream);
      return;
    }
    // The device cannot run the host's code. Until you write a kernel, this computes on copies in host memory.
    fallback::Call call;
    arguments.input = call.alias(packed_input).template const_data_ptr<scalar_t>();
    arguments.bias = call.alias(packed_bias).template const_data_ptr<scalar_t>();
    arguments.output = call.alias(output, fallback::Call::Use::Write).template mutable_data_ptr<scalar_t>();
    call.run([&] { biasReluKernel(arguments); });
  });
  return output;
}

at::Tensor composedBiasRelu(const at::Tensor& input, const at::Tensor& bias) {
  checkShapes(input, bias);
  return at::relu(at::add(input, bias));
}

std::tuple<at::Tensor, at::Tensor> biasReluBackward(const at::Tensor& grad, const at::Tensor& output) {
  auto grad_input = at::threshold_backward(grad, output, 0);
  auto grad_bias = grad_input.sum_to_size_symint({grad.sym_size(-1)});
  return {std::move(grad_input), std::move(grad_bias)};
}

TORCH_LIBRARY(openreg, m) {
  m.def("bias_relu(Tensor input, Tensor bias) -> Tensor");
  // One kernel for all devices. It is composed of operators with gradients, so it has a gradient too.
  m.def("bias_relu_backward(Tensor grad, Tensor output) -> (Tensor, Tensor)", TORCH_FN(biasReluBackward));
}

TORCH_LIBRARY_IMPL(openreg, PrivateUse1, m) {
  // When the body launches the device's own code, register TORCH_FN(...) alone.
  m.impl("bias_relu", fallback::hostFunction("openreg::bias_relu", TORCH_FN(biasRelu)));
}

TORCH_LIBRARY_IMPL(openreg, Meta, m) {
  m.impl("bias_relu", TORCH_FN(biasReluMeta));
}

}  // namespace openreg::native
