#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_fused_sdp_choice_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_ops.h>
#include <torch/library.h>

#include "aten/emulation/Unboxed.h"

// scaled_dot_product_attention: which implementation to take, and the fused one. The unfused ("math") one is made of
// other operators and needs nothing here.
namespace openreg {
namespace {

using sdp::SDPBackend;

// Fused wherever PyTorch's CPU would fuse, which also honours torch.nn.attention.sdpa_kernel.
// PORTING: ask for what your fused attention supports.
int64_t chooseBackend(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& attn_mask, double dropout_p, bool is_causal, std::optional<double> scale, bool enable_gqa) {
  emulation::Call call;
  const auto q = call.alias(query);
  const auto k = call.alias(key);
  const auto v = call.alias(value);
  const auto mask = attn_mask.has_value() ? std::optional<at::Tensor>(call.alias(*attn_mask)) : std::nullopt;
  const auto choice = at::_ops::_fused_sdp_choice::redispatch(
      c10::DispatchKeySet(c10::DispatchKey::CPU), q, k, v, mask, dropout_p, is_causal, scale, enable_gqa);
  if (static_cast<SDPBackend>(choice) != SDPBackend::flash_attention) {
    return choice;
  }
  // The fused kernel has no gradient for the mask. An alias does not know that the mask wants one.
  const bool mask_wants_grad = at::GradMode::is_enabled() && attn_mask.has_value() && attn_mask->requires_grad();
  return static_cast<int64_t>(mask_wants_grad ? SDPBackend::math : SDPBackend::overrideable);
}

using FusedAttentionResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor>;

// PORTING: call your fused attention here. Only the output and logsumexp (softmax statistics, for backward) are used.
FusedAttentionResult fusedAttention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& attn_bias, double dropout_p, bool is_causal, bool return_debug_mask, std::optional<double> scale) {
  TORCH_CHECK_NOT_IMPLEMENTED(!return_debug_mask, "the fused attention of this device has no debug mask");
  auto [output, logsumexp] = emulation::Emulated<at::_ops::_scaled_dot_product_flash_attention_for_cpu>::call(query, key, value, dropout_p, is_causal, attn_bias, scale);
  return {std::move(output), std::move(logsumexp), {}, {}, query.sym_size(-2), key.sym_size(-2), {}, {}, {}};
}

// PORTING: and its backward here.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> fusedAttentionBackward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& attn_bias, std::array<bool, 4> grad_input_mask, const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor& /*cum_seq_q*/, const at::Tensor& /*cum_seq_k*/, c10::SymInt /*max_q*/, c10::SymInt /*max_k*/, double dropout_p, bool is_causal, const at::Tensor& /*philox_seed*/, const at::Tensor& /*philox_offset*/, std::optional<double> scale) {
  TORCH_CHECK_NOT_IMPLEMENTED(!grad_input_mask[3], "the fused attention of this device has no gradient for the mask; choose the math backend with torch.nn.attention.sdpa_kernel");
  const auto mask = attn_bias.defined() ? std::optional<at::Tensor>(attn_bias) : std::nullopt;
  auto [grad_query, grad_key, grad_value] = emulation::Emulated<at::_ops::_scaled_dot_product_flash_attention_for_cpu_backward>::call(
      grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, mask, scale);
  return {std::move(grad_query), std::move(grad_key), std::move(grad_value), at::Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_scaled_dot_product_fused_attention_overrideable", TORCH_FN(fusedAttention));
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", TORCH_FN(fusedAttentionBackward));
}

}  // namespace openreg

namespace at::native {

// Registered in PyTorch's namespace because the macro needs to be there.
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &openreg::chooseBackend)

}  // namespace at::native
