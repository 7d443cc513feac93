#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <array>
#include <string>

#include "fallback/OperatorOrigin.h"
#include "fallback/WiderDtype.h"

// Fourier transforms of half precision. PyTorch checks the dtype before it calls a kernel, and accepts half precision only
// for a list of named devices. Therefore these functions compute in single precision and round the result.
namespace openreg {
namespace {

using torch::jit::Stack;

// bfloat16 has no complex dtype, and no device transforms it.
bool isHalf(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kComplexHalf;
}

at::ScalarType roundedType(at::ScalarType dtype) {
  return dtype == at::kComplexFloat ? at::kComplexHalf : at::kHalf;
}

void transform(const c10::OperatorHandle& op, Stack* stack) {
  const auto count = op.schema().arguments().size();
  const auto run = [&] {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  };  // PyTorch's own implementation for every device
  auto& self = torch::jit::peek(*stack, 0, count);
  if (!isHalf(self.toTensor())) {
    run();
    return;
  }
  self = self.toTensor().to(*fallback::widerFloat(self.toTensor().scalar_type()));  // autograd records this conversion
  auto& last = torch::jit::peek(*stack, count - 1, count);
  if (!last.isTensor()) {
    run();
    const auto result = torch::jit::pop(*stack).toTensor();
    torch::jit::push(*stack, result.to(roundedType(result.scalar_type())));
    return;
  }
  const auto out = last.toTensor();
  last = at::empty({0}, out.options().dtype(fallback::widerFloat(out.scalar_type()).value_or(out.scalar_type())));
  run();
  const auto result = torch::jit::pop(*stack).toTensor();
  at::native::resize_output(out, result.sizes());
  out.copy_(result);
  torch::jit::push(*stack, out);
}

constexpr std::array kNames = {
    "fft_fft",
    "fft_ifft",
    "fft_rfft",
    "fft_irfft",
    "fft_hfft",
    "fft_ihfft",
    "fft_fft2",
    "fft_ifft2",
    "fft_rfft2",
    "fft_irfft2",
    "fft_hfft2",
    "fft_ihfft2",
    "fft_fftn",
    "fft_ifftn",
    "fft_rfftn",
    "fft_irfftn",
    "fft_hfftn",
    "fft_ihfftn",
};

torch::CppFunction composite() {
  return fallback::withOrigin(
      {fallback::Origin::Composite, "CompositeImplicitAutograd, in a wider type where it is of half precision"},
      torch::CppFunction::makeFromBoxedFunction<&transform>());
}

void registerTransforms(torch::Library& m) {
  for (const std::string name : kNames) {
    m.impl(name.c_str(), composite());
    m.impl((name + ".out").c_str(), composite());
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  registerTransforms(m);
}

// Registered above autograd, because only the operators that these are composed of have derivatives.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  registerTransforms(m);
}

}  // namespace openreg
