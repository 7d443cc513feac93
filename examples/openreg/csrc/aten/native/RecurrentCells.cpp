#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <torch/library.h>

// Style: composed of other operators. PyTorch always calls the fused LSTM and GRU cells on this device, so they are composed of
// operators that the device has.
//
// PORTING: replace these by fused kernels if you need fast recurrent networks; you define the content of `workspace`.
namespace openreg::native {
namespace {

using at::Tensor;

Tensor withBias(const Tensor& gates, const std::optional<Tensor>& bias) {
  return bias.has_value() && bias->defined() ? gates + *bias : gates;
}

Tensor sideBySide(at::TensorList parts) {
  return at::cat(parts, 1);
}

// Gates in the order input, forget, cell, output: [N, 4H]. Returns hy, cy and the activated gates as workspace.
std::tuple<Tensor, Tensor, Tensor> lstmCell(
    const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx, const std::optional<Tensor>& input_bias,
    const std::optional<Tensor>& hidden_bias) {
  const auto gates = (withBias(input_gates, input_bias) + withBias(hidden_gates, hidden_bias)).chunk(4, 1);
  const auto i = at::sigmoid(gates[0]);
  const auto f = at::sigmoid(gates[1]);
  const auto g = at::tanh(gates[2]);
  const auto o = at::sigmoid(gates[3]);
  auto cy = f * cx + i * g;
  auto hy = o * at::tanh(cy);
  return {std::move(hy), std::move(cy), sideBySide({i, f, g, o})};
}

std::tuple<Tensor, Tensor, Tensor> lstmCellBackward(
    const std::optional<Tensor>& grad_hy, const std::optional<Tensor>& grad_cy, const Tensor& cx, const Tensor& cy, const Tensor& workspace,
    bool has_bias) {
  const bool from_hy = grad_hy.has_value() && grad_hy->defined();
  const bool from_cy = grad_cy.has_value() && grad_cy->defined();
  if (!from_hy && !from_cy) {
    return {};
  }
  const auto gates = workspace.chunk(4, 1);
  const auto &i = gates[0], &f = gates[1], &g = gates[2], &o = gates[3];
  const auto tanh_cy = at::tanh(cy);
  Tensor grad_o = from_hy ? *grad_hy * tanh_cy * o * (1 - o) : o.new_zeros(o.sizes());
  Tensor grad_cell = from_hy ? *grad_hy * o * (1 - tanh_cy * tanh_cy) : *grad_cy;
  if (from_hy && from_cy) {
    grad_cell = grad_cell + *grad_cy;
  }
  auto grad_gates = sideBySide({grad_cell * g * i * (1 - i), grad_cell * cx * f * (1 - f), grad_cell * i * (1 - g * g), grad_o});
  auto grad_bias = has_bias ? grad_gates.sum(0) : Tensor();
  return {std::move(grad_gates), grad_cell * f, std::move(grad_bias)};
}

// Gates in the order reset, update, new: [N, 3H]. The workspace keeps what backward needs: [N, 5H].
std::tuple<Tensor, Tensor> gruCell(
    const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx, const std::optional<Tensor>& input_bias,
    const std::optional<Tensor>& hidden_bias) {
  const auto from_input = withBias(input_gates, input_bias).chunk(3, 1);
  const auto from_hidden = withBias(hidden_gates, hidden_bias).chunk(3, 1);
  const auto r = at::sigmoid(from_input[0] + from_hidden[0]);
  const auto z = at::sigmoid(from_input[1] + from_hidden[1]);
  const auto n = at::tanh(from_input[2] + r * from_hidden[2]);
  return {(hx - n) * z + n, sideBySide({r, z, n, hx, from_hidden[2]})};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gruCellBackward(const Tensor& grad_hy, const Tensor& workspace, bool has_bias) {
  const auto saved = workspace.chunk(5, 1);
  const auto &r = saved[0], &z = saved[1], &n = saved[2], &hx = saved[3], &hidden_n = saved[4];
  const auto grad_z = grad_hy * (hx - n) * z * (1 - z);
  const auto grad_n = grad_hy * (1 - z) * (1 - n * n);
  const auto grad_r = grad_n * hidden_n * r * (1 - r);
  auto grad_input_gates = sideBySide({grad_r, grad_z, grad_n});
  auto grad_hidden_gates = sideBySide({grad_r, grad_z, grad_n * r});
  auto grad_input_bias = has_bias ? grad_input_gates.sum(0) : Tensor();
  auto grad_hidden_bias = has_bias ? grad_hidden_gates.sum(0) : Tensor();
  return {std::move(grad_input_gates), std::move(grad_hidden_gates), grad_hy * z, std::move(grad_input_bias), std::move(grad_hidden_bias)};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstmCell));
  m.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstmCellBackward));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gruCell));
  m.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gruCellBackward));
}

}  // namespace openreg::native
