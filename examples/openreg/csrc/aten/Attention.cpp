#include <ATen/ExpandUtils.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_fused_sdp_choice_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_ops.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <array>

#include "fallback/Unboxed.h"

// scaled_dot_product_attention: the choice of the implementation, and the fused implementation. The unfused ("math")
// implementation is composed of other operators and needs no code here.
//
// PyTorch predicts the results of the fused attention for torch.compile and torch.export (_meta_registrations.py). Compiled code relies
// on the predicted strides and dtypes, so the kernels here must return exactly these.
namespace openreg {
namespace {

using sdp::SDPBackend;

bool sameHeadDimension(const sdp::sdp_params& params, bool explain) {
  const auto size = params.query.sym_size(-1);
  const bool same =
      TORCH_GUARD_OR_FALSE(size.sym_eq(params.key.sym_size(-1))) && TORCH_GUARD_OR_FALSE(size.sym_eq(params.value.sym_size(-1)));
  if (!same && explain) {
    TORCH_WARN("The fused attention of this device needs query, key and value with the same head dimension.");
  }
  return same;
}

// torch.vmap, torch.func.grad and jvp, and any nesting of them. The fused attention has no batching rule, no second
// derivative and no forward derivative. The math implementation has them all, because its operators have them.
bool outsideOfTransforms(const sdp::sdp_params& params, bool explain) {
  constexpr c10::DispatchKeySet kWrappers{c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper};
  const bool wrapped =
      (params.query.key_set() | params.key.key_set() | params.value.key_set() | params.attn_mask.value_or(at::Tensor()).key_set())
          .has_any(kWrappers);
  if (wrapped && explain) {
    TORCH_WARN("The fused attention of this device cannot be used in a transform of torch.func.");
  }
  return !wrapped;
}

// PORTING: list the inputs that your fused attention supports. Check only sizes, strides and dtypes, because tensors may have no data.
bool fusedSupports(const sdp::sdp_params& params, bool explain) {
  constexpr std::array kLimits{
      &outsideOfTransforms,
      &sdp::check_nested_tensor,
      &sdp::check_for_dropout,
      &sdp::check_tensor_shapes,
      &sdp::check_batch_size_and_num_heads_dense</*supports_gqa=*/true, /*requires_same_num_heads=*/true>,
      &sdp::check_attn_mask_shape,  // also refuses masks that need a gradient
      &sameHeadDimension,
      &sdp::check_nonzero_sequence_lengths_dense,
      &sdp::check_last_dim_stride_equals_1_dense</*ignore_singleton_dim=*/false>,
  };
  // Not float64: the statistics for backward are float32 for every dtype.
  constexpr std::array kDtypes{at::kFloat, at::kHalf, at::kBFloat16};
  return std::all_of(kLimits.begin(), kLimits.end(), [&](auto* limit) { return limit(params, explain); }) &&
         sdp::check_tensor_dtype(params, kDtypes, explain);
}

// May be called with any tensors: fake tensors while torch.compile traces, wrappers under torch.func.
int64_t chooseBackend(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& attn_mask, double dropout_p,
    bool is_causal, std::optional<double> /*scale*/, bool enable_gqa) {
  const auto& context = at::globalContext();
  // If the user selects flash attention, use the device's fused attention.
  const bool fused = context.userEnabledFlashSDP() || context.userEnabledOverrideableSDP();
  const bool math = context.userEnabledMathSDP();
  if (!fused) {
    return static_cast<int64_t>(math ? SDPBackend::math : SDPBackend::error);
  }
  const bool constant_mask = attn_mask.has_value() && !at::GradMode::is_enabled();
  const sdp::sdp_params params{query, key, value, constant_mask ? attn_mask->detach() : attn_mask, dropout_p, is_causal, enable_gqa};
  if (fusedSupports(params, /*explain=*/false)) {
    return static_cast<int64_t>(SDPBackend::overrideable);
  }
  if (!math) {
    fusedSupports(params, /*explain=*/true);
    TORCH_CHECK(
        false,
        "the fused attention of this device does not support these arguments, see the warnings; allow the math backend in "
        "torch.nn.attention.sdpa_kernel");
  }
  return static_cast<int64_t>(SDPBackend::math);
}

using FusedAttentionResult =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor>;

// PORTING: call your fused attention here, and register it without `handedOnTo`, so that it counts as native. The backward gets the
// output, logsumexp (softmax statistics) and, if your kernel has dropout, the start of its random numbers.
FusedAttentionResult fusedAttention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& attn_bias, double dropout_p,
    bool is_causal, bool return_debug_mask, std::optional<double> scale) {
  TORCH_CHECK_NOT_IMPLEMENTED(!return_debug_mask, "the fused attention of this device has no debug mask");
  TORCH_CHECK_NOT_IMPLEMENTED(
      query.scalar_type() != at::kDouble,
      "the fused attention of this device has no float64; choose the math backend with torch.nn.attention.sdpa_kernel");
  auto [output, logsumexp] = fallback::Emulated<at::_ops::_scaled_dot_product_flash_attention_for_cpu>::call(
      query, key, value, dropout_p, is_causal, attn_bias, scale);
  const auto number = query.options().dtype(at::kLong);
  auto seed = at::zeros({}, number);
  auto offset = at::zeros({}, number);
  return {std::move(output), logsumexp.contiguous(), {}, {}, query.sym_size(-2), key.sym_size(-2), std::move(seed), std::move(offset), {}};
}

// Returns a gradient in the layout of its input.
at::Tensor layOutLike(const at::Tensor& gradient, const at::Tensor& input) {
  const bool dense = input.is_non_overlapping_and_dense();
  const bool same = dense ? gradient.strides() == input.strides()
                          : gradient.strides() == c10::IntArrayRef(at::infer_dense_strides(input.sizes(), input.strides()));
  return same ? gradient : at::empty_like(input).copy_(gradient);
}

// PORTING: call the backward of your fused attention here.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> fusedAttentionBackward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& attn_bias,
    std::array<bool, 4> grad_input_mask, const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor& /*cum_seq_q*/,
    const at::Tensor& /*cum_seq_k*/, c10::SymInt /*max_q*/, c10::SymInt /*max_k*/, double dropout_p, bool is_causal,
    const at::Tensor& /*philox_seed*/, const at::Tensor& /*philox_offset*/, std::optional<double> scale) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !grad_input_mask[3],
      "the fused attention of this device has no gradient for the mask; choose the math backend with torch.nn.attention.sdpa_kernel");
  const auto mask = attn_bias.defined() ? std::optional<at::Tensor>(attn_bias) : std::nullopt;
  const auto [grad_query, grad_key, grad_value] = fallback::Emulated<at::_ops::_scaled_dot_product_flash_attention_for_cpu_backward>::call(
      grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, mask, scale);
  return {layOutLike(grad_query, query), layOutLike(grad_key, key), layOutLike(grad_value, value), at::Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", TORCH_FN(chooseBackend));
  m.impl(
      "_scaled_dot_product_fused_attention_overrideable",
      fallback::handedOnTo<at::_ops::_scaled_dot_product_flash_attention_for_cpu>(TORCH_FN(fusedAttention)));
  m.impl(
      "_scaled_dot_product_fused_attention_overrideable_backward",
      fallback::handedOnTo<at::_ops::_scaled_dot_product_flash_attention_for_cpu_backward>(TORCH_FN(fusedAttentionBackward)));
}

}  // namespace openreg

namespace at::native {

// Registered in PyTorch's namespace, because the macro requires it.
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &::openreg::chooseBackend)

}  // namespace at::native
