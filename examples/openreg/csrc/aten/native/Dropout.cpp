#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

// Style: composed of other operators. native_dropout has no generator argument, so PyTorch's CPU kernel would use the CPU's
// generator. Therefore it is composed of an operator that uses the device's generator.
namespace openreg::native {
namespace {

// Returns the output and the mask of kept elements (bool).
// PORTING: replace this by a fused kernel that uses your device's generator.
std::tuple<at::Tensor, at::Tensor> nativeDropout(const at::Tensor& input, double p, std::optional<bool> train) {
  if (input.numel() == 0 || !train.value_or(true)) {
    return {input.clone(), at::ones_like(input, at::kBool)};
  }
  if (p == 1) {
    return {at::zeros_like(input), at::zeros_like(input, at::kBool)};
  }
  auto mask = at::empty_like(input, at::kBool).bernoulli_(1 - p);
  auto output = (input * mask).mul_(1 / (1 - p));
  return {std::move(output), std::move(mask)};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_dropout", TORCH_FN(nativeDropout));
}

}  // namespace openreg::native
