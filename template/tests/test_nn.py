"""Layers, losses and optimizers of torch.nn and torch.optim: values, gradients and state as on the CPU."""

import copy
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from compare import check_same, to_device
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.attention import SDPBackend, sdpa_kernel

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
"""For sums whose order is the kernel's affair."""


def names(cases: list[Any]) -> list[str]:
    return [str(case).replace("\n", "") for case in cases]


def wanting(*shape: int) -> Tensor:
    return torch.randn(shape, requires_grad=True)


# Convolution

CONVOLUTIONS: list[tuple[nn.Module, tuple[int, ...]]] = [
    (nn.Conv1d(4, 6, 3), (2, 4, 9)),
    (nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2, bias=False), (2, 4, 9)),
    (nn.Conv2d(3, 8, 3, padding=1), (2, 3, 9, 9)),
    (nn.Conv2d(4, 8, (3, 2), stride=(2, 1), dilation=(1, 2), groups=2), (2, 4, 9, 9)),
    (nn.Conv2d(4, 4, 3, groups=4, bias=False), (2, 4, 9, 9)),
    (nn.Conv2d(3, 8, 1), (3, 9, 9)),
    (nn.Conv2d(3, 8, 3, padding="same", padding_mode="reflect"), (2, 3, 9, 9)),
    (nn.Conv3d(2, 4, 3, padding=1, groups=2), (1, 2, 5, 6, 7)),
    (nn.ConvTranspose1d(4, 6, 3, stride=2), (2, 4, 7)),
    (nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, bias=False), (2, 4, 5, 5)),
    (nn.ConvTranspose3d(2, 4, 3, dilation=2), (1, 2, 4, 4, 4)),
]


@pytest.mark.parametrize(("layer", "shape"), CONVOLUTIONS, ids=names([layer for layer, _ in CONVOLUTIONS]))
def test_convolutions_are_those_of_the_cpu(layer: nn.Module, shape: tuple[int, ...], device: str) -> None:
    check_same(layer, wanting(*shape), device=device, **CLOSE)


def test_a_channels_last_convolution_is_that_of_the_cpu(device: str) -> None:
    layer = nn.Conv2d(4, 8, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = torch.randn(2, 4, 8, 8).to(memory_format=torch.channels_last).requires_grad_()
    check_same(layer, x, device=device, strides=False, **CLOSE)
    assert layer.to(device)(x.to(device)).is_contiguous()  # as PyTorch predicts, see test_predictions.py


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_convolutions_take_every_floating_dtype(dtype: torch.dtype, device: str) -> None:
    x = torch.randn(2, 4, 8, 8, dtype=dtype, requires_grad=True)
    check_same(nn.Conv2d(4, 8, 3, dtype=dtype), x, device=device)


def test_frozen_weights_of_a_convolution_get_no_gradient(device: str) -> None:
    layer = nn.Conv2d(2, 3, 3).to(device)
    layer.weight.requires_grad_(False)
    layer(torch.randn(1, 2, 5, 5, device=device)).sum().backward()
    assert layer.weight.grad is None
    assert layer.bias is not None
    assert layer.bias.grad is not None
    assert layer.bias.grad.tolist() == [9, 9, 9]


def test_the_second_gradient_of_a_convolution_is_that_of_the_cpu(device: str) -> None:
    def penalty(x: Tensor, weight: Tensor) -> Tensor:
        (grad,) = torch.autograd.grad(F.conv2d(x, weight).tanh().sum(), x, create_graph=True)
        return grad.square().sum()

    check_same(penalty, wanting(1, 2, 5, 5), wanting(3, 2, 3, 3), device=device, **CLOSE)


# Attention


def attention_inputs(heads: int = 4, kv_heads: int = 4, length: int = 6, dtype: Any = torch.float32) -> list[Tensor]:
    shapes = [(2, heads, length, 8), (2, kv_heads, 7, 8), (2, kv_heads, 7, 8)]
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


ATTENTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "scale": {"scale": 0.3},
    "causal": {"is_causal": True},
    "bool mask": {"attn_mask": torch.rand(6, 7) > 0.3},
    "float mask": {"attn_mask": torch.randn(2, 4, 6, 7)},
    "mask that is broadcast": {"attn_mask": torch.randn(2, 1, 1, 7)},
    "mask with a gradient": {"attn_mask": torch.randn(6, 7, requires_grad=True)},
    "row that is masked out": {"attn_mask": torch.arange(6)[:, None] > torch.arange(7) - 1},
}


@pytest.mark.parametrize("math_only", [False, True], ids=["any", "math"])
@pytest.mark.parametrize("kwargs", ATTENTIONS.values(), ids=ATTENTIONS)
def test_attention_is_that_of_the_cpu(kwargs: dict[str, Any], math_only: bool, device: str) -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor, kwargs: dict[str, Any]) -> Tensor:
        if math_only:
            with sdpa_kernel(SDPBackend.MATH):
                return F.scaled_dot_product_attention(q, k, v, **kwargs)
        return F.scaled_dot_product_attention(q, k, v, **kwargs)

    check_same(attend, *attention_inputs(), kwargs, device=device, strides=False, **CLOSE)


def test_attention_takes_grouped_queries(device: str) -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    check_same(attend, *attention_inputs(kv_heads=2), device=device, strides=False, **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_attention_takes_every_floating_dtype(dtype: torch.dtype, device: str) -> None:
    check_same(F.scaled_dot_product_attention, *attention_inputs(dtype=dtype), device=device, strides=False)


def test_the_fused_kernel_runs_where_it_can(device: str, device_module: ModuleType) -> None:
    fused = "aten::_scaled_dot_product_flash_attention_for_cpu"

    def operators(*backends: SDPBackend, **kwargs: Any) -> set[str]:
        device_module.operators.reset_fallback_counts()
        with sdpa_kernel(list(backends)):
            F.scaled_dot_product_attention(q, k, v, **kwargs).sum().backward()
        return set(device_module.operators.fallback_counts())

    q, k, v = to_device(attention_inputs(), device)
    every = [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]
    chosen = operators(*every)
    assert {fused, f"{fused}_backward"} <= chosen
    unfused = operators(SDPBackend.MATH)
    assert fused not in unfused
    assert any("softmax" in name for name in unfused)
    mask = torch.randn(6, 7, device=device, requires_grad=True)
    assert fused not in operators(*every, attn_mask=mask)
    assert mask.grad is not None
    with torch.no_grad():
        device_module.operators.reset_fallback_counts()
        F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert fused in device_module.operators.fallback_counts()


def test_the_dropout_of_attention_repeats_with_its_seed(device: str, device_module: ModuleType) -> None:
    # With equal scores and values of one, the output is the kept share of the weights, over 1 - p.
    q, k, v = torch.zeros(1, 8, 64, 8), torch.zeros(1, 8, 256, 8), torch.ones(1, 8, 256, 8)
    q, k, v = (x.to(device).requires_grad_() for x in (q, k, v))

    def attend(seed: int) -> tuple[Tensor, Tensor]:
        device_module.manual_seed(seed)
        out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25)
        return out, torch.autograd.grad(out.sum(), v)[0]

    before = torch.get_rng_state()
    (first, grad), (second, second_grad), (third, _) = attend(1), attend(1), attend(2)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, second)
    assert torch.equal(grad, second_grad)
    assert not torch.equal(first, third)
    assert abs(first.mean().item() - 1) < 0.01
    # The share of 256 kept with probability 0.75 has this standard deviation, divided by 0.75.
    assert abs(first[..., 0].std().item() - math.sqrt(0.75 * 0.25 / 256) / 0.75) < 0.005


class SelfAttention(nn.Module):
    """nn.MultiheadAttention of a sequence with itself."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True, **kwargs)

    def forward(self, x: Tensor, **kwargs: Any) -> Any:
        return self.attention(x, x, x, **kwargs)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_multihead_attention_is_that_of_the_cpu(need_weights: bool, training: bool, device: str) -> None:
    class Masked(SelfAttention):
        def forward(self, x: Tensor, **kwargs: Any) -> Any:
            padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2], device=x.device)
            return super().forward(x, key_padding_mask=padding, need_weights=need_weights)

    for model in (SelfAttention(), Masked(), SelfAttention(bias=False, add_zero_attn=True)):
        check_same(model.train(training), wanting(2, 5, 16), device=device, strides=False, **CLOSE)


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_transformer_encoder_is_that_of_the_cpu(norm_first: bool, device: str) -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 2, nn.LayerNorm(16), enable_nested_tensor=False)
    check_same(model, wanting(2, 5, 16), device=device, strides=False, **CLOSE)


def test_the_fast_path_of_the_transformer_encoder_is_that_of_the_cpu(device: str, device_module: ModuleType) -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    x = torch.randn(2, 5, 16)
    model = copy.deepcopy(layer).to(device)
    with torch.no_grad():
        slow = layer(x.requires_grad_()).detach()
        device_module.operators.reset_fallback_counts()
        fast = model(x.detach().to(device))
        torch.testing.assert_close(fast.cpu(), slow, **CLOSE)
        torch.testing.assert_close(fast.cpu(), layer(x.detach()), **CLOSE)
        masked = model(x.detach().to(device), src_key_padding_mask=torch.zeros(2, 5, dtype=torch.bool, device=device))
        torch.testing.assert_close(masked.cpu(), slow, **CLOSE)


def test_a_transformer_is_that_of_the_cpu(device: str) -> None:
    model = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True)
    check_same(model, wanting(2, 5, 16), wanting(2, 4, 16), device=device, strides=False, rtol=1e-3, atol=1e-4)


# Recurrence

RECURRENT: list[nn.Module] = [
    nn.LSTM(5, 6),
    nn.LSTM(5, 6, 2, batch_first=True, bidirectional=True, bias=False),
    nn.LSTM(5, 6, proj_size=3),
    nn.LSTM(5, 6, 2, dropout=0.4),
    nn.GRU(5, 6, 2, bidirectional=True),
    nn.GRU(5, 6, batch_first=True, bias=False),
    nn.RNN(5, 6, 2, nonlinearity="relu"),
    nn.RNN(5, 6, bidirectional=True),
]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("layer", RECURRENT, ids=names(RECURRENT))
def test_recurrent_layers_are_those_of_the_cpu(layer: nn.Module, training: bool, device: str) -> None:
    check_same(layer.train(training), wanting(4, 3, 5), device=device, strides=False, **CLOSE)


def test_recurrent_layers_take_inputs_without_a_batch(device: str) -> None:
    check_same(nn.LSTM(5, 6), wanting(4, 5), device=device, strides=False, **CLOSE)
    check_same(nn.GRU(5, 6), wanting(4, 5), device=device, strides=False, **CLOSE)


def test_recurrent_layers_take_initial_states(device: str) -> None:
    check_same(
        nn.LSTM(5, 6), wanting(4, 3, 5), (wanting(1, 3, 6), wanting(1, 3, 6)), device=device, strides=False, **CLOSE
    )
    check_same(nn.GRU(5, 6), wanting(4, 3, 5), wanting(1, 3, 6), device=device, strides=False, **CLOSE)


@pytest.mark.parametrize("enforce_sorted", [True, False])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_take_packed_sequences(kind: Any, enforce_sorted: bool, device: str) -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = kind(5, 6, bidirectional=True, batch_first=True)

        def forward(self, x: Tensor) -> Any:
            lengths = [4, 3, 1] if enforce_sorted else [1, 4, 3]
            packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), True, enforce_sorted)
            output, state = self.layer(packed)
            padded, lengths_again = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
            assert lengths_again.tolist() == lengths
            return padded, state

    check_same(Packed(), wanting(3, 4, 5), device=device, strides=False, **CLOSE)


@pytest.mark.parametrize("bias", [True, False])
def test_recurrent_cells_are_those_of_the_cpu(bias: bool, device: str) -> None:
    x, h = wanting(3, 5), wanting(3, 6)
    check_same(nn.LSTMCell(5, 6, bias), x, (h, wanting(3, 6)), device=device, strides=False, **CLOSE)
    check_same(nn.GRUCell(5, 6, bias), x, h, device=device, strides=False, **CLOSE)
    check_same(nn.RNNCell(5, 6, bias), x, h, device=device, strides=False, **CLOSE)
    check_same(nn.LSTMCell(5, 6, bias), x, device=device, strides=False, **CLOSE)


def test_each_state_of_a_cell_has_a_gradient_alone(device: str) -> None:
    class OneState(nn.Module):
        def __init__(self, which: int) -> None:
            super().__init__()
            self.cell, self.which = nn.LSTMCell(5, 6), which

        def forward(self, x: Tensor) -> Tensor:
            state: Tensor = self.cell(x)[self.which]
            return state

    for which in (0, 1):
        check_same(OneState(which), wanting(3, 5), device=device, strides=False, **CLOSE)


# Normalisation

NORMS: list[tuple[nn.Module, tuple[int, ...]]] = [
    (nn.BatchNorm1d(4), (6, 4)),
    (nn.BatchNorm2d(4), (2, 4, 5, 5)),
    (nn.BatchNorm2d(4, affine=False, momentum=None), (2, 4, 5, 5)),
    (nn.BatchNorm2d(4, track_running_stats=False), (2, 4, 5, 5)),
    (nn.BatchNorm3d(2), (2, 2, 3, 3, 3)),
    (nn.LayerNorm((4, 5)), (3, 4, 5)),
    (nn.LayerNorm(5, elementwise_affine=False), (3, 4, 5)),
    (nn.LayerNorm(5, bias=False), (3, 4, 5)),
    (nn.GroupNorm(2, 4), (2, 4, 5, 5)),
    (nn.InstanceNorm2d(3, affine=True, track_running_stats=True), (2, 3, 5, 5)),
    (nn.InstanceNorm1d(3), (2, 3, 5)),
    (nn.RMSNorm(5), (3, 5)),
    (nn.LocalResponseNorm(2), (2, 4, 5, 5)),
]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("layer", "shape"), NORMS, ids=names([layer for layer, _ in NORMS]))
def test_normalisations_are_those_of_the_cpu(
    layer: nn.Module, shape: tuple[int, ...], training: bool, device: str
) -> None:
    layer = copy.deepcopy(layer)
    for _ in range(2):
        layer(torch.randn(shape) * 2 + 1)  # so that the running statistics are not the initial ones
    check_same(layer.train(training), wanting(*shape), device=device, strides=False, **CLOSE)


def test_running_statistics_are_those_of_the_cpu(device: str) -> None:
    ours, theirs = nn.BatchNorm2d(3).to(device), nn.BatchNorm2d(3)
    for _ in range(3):
        x = torch.randn(4, 3, 5, 5) * 3 + 1
        ours(x.to(device))
        theirs(x)
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name].cpu(), value, **CLOSE)
    assert ours.num_batches_tracked is not None
    assert ours.num_batches_tracked.item() == 3
    x = torch.randn(4, 3, 5, 5)
    torch.testing.assert_close(ours.eval()(x.to(device)).cpu(), theirs.eval()(x), **CLOSE)


# Embedding, pooling, resampling, activations


def test_embeddings_are_those_of_the_cpu(device: str) -> None:
    indices = torch.tensor([[0, 3, 3], [9, 1, 0]])
    for layer in (
        nn.Embedding(10, 4),
        nn.Embedding(10, 4, padding_idx=3),
        nn.Embedding(10, 4, max_norm=1.0),
        nn.Embedding(10, 4, scale_grad_by_freq=True),
    ):
        check_same(layer, indices, device=device)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bags_are_those_of_the_cpu(mode: str, device: str) -> None:
    layer = nn.EmbeddingBag(10, 4, mode=mode)
    check_same(layer, torch.tensor([[0, 3, 3], [9, 1, 0]]), device=device)
    check_same(layer, torch.tensor([0, 3, 3, 9, 1]), torch.tensor([0, 2, 2]), device=device)


LAYERS: list[tuple[nn.Module, tuple[int, ...]]] = [
    (nn.MaxPool1d(2, 1), (2, 3, 8)),
    (nn.MaxPool2d(3, 2, 1, return_indices=True), (2, 3, 8, 8)),
    (nn.MaxPool3d(2, ceil_mode=True), (1, 2, 5, 5, 5)),
    (nn.AvgPool1d(2), (2, 3, 8)),
    (nn.AvgPool2d(3, 2, 1, count_include_pad=False), (2, 3, 8, 8)),
    (nn.AvgPool3d(2), (1, 2, 4, 4, 4)),
    (nn.AdaptiveAvgPool1d(3), (2, 3, 8)),
    (nn.AdaptiveAvgPool2d((3, 1)), (2, 3, 8, 8)),
    (nn.AdaptiveMaxPool2d(2), (2, 3, 8, 8)),
    (nn.LPPool2d(2, 2), (2, 3, 8, 8)),
    (nn.FractionalMaxPool2d(2, output_size=3), (2, 3, 8, 8)),
    (nn.Upsample(scale_factor=2), (2, 3, 4, 4)),
    (nn.Upsample(scale_factor=1.5, mode="bilinear"), (2, 3, 4, 4)),
    (nn.Upsample(size=(5, 7), mode="bicubic", align_corners=True), (2, 3, 4, 4)),
    (nn.PixelShuffle(2), (2, 4, 3, 3)),
    (nn.ReflectionPad2d(2), (2, 3, 4, 4)),
    (nn.ConstantPad1d(2, 1.5), (2, 3, 4)),
    (nn.ReplicationPad3d(1), (1, 2, 3, 3, 3)),
    (nn.CircularPad2d(1), (1, 2, 3, 3)),
    (nn.Unfold(2), (2, 3, 4, 4)),
    (nn.Linear(4, 5), (2, 3, 4)),
    (nn.Linear(4, 5, bias=False), (4,)),
    (nn.PReLU(3), (2, 3, 4)),
    (nn.GLU(), (2, 4)),
    (nn.Softmax2d(), (2, 3, 4, 4)),
    (nn.LogSoftmax(1), (2, 3, 4)),
    (nn.Softshrink(), (2, 3)),
    (nn.GELU("tanh"), (2, 3)),
    (nn.SELU(), (2, 3)),
    (nn.Hardswish(), (2, 3)),
    (nn.Dropout(0.4), (20, 3)),
    (nn.Dropout1d(0.4), (5, 6, 3)),
    (nn.Dropout3d(0.4), (2, 6, 3, 3, 3)),
    (nn.FeatureAlphaDropout(0.4), (5, 6, 3)),
    (nn.RReLU(), (20, 3)),
]


@pytest.mark.parametrize(("layer", "shape"), LAYERS, ids=names([layer for layer, _ in LAYERS]))
def test_layers_are_those_of_the_cpu(layer: nn.Module, shape: tuple[int, ...], device: str) -> None:
    check_same(layer, wanting(*shape), device=device, strides=False, **CLOSE)


def test_layers_of_two_inputs_are_those_of_the_cpu(device: str) -> None:
    check_same(nn.Bilinear(3, 4, 5), wanting(2, 3), wanting(2, 4), device=device, **CLOSE)
    check_same(nn.CosineSimilarity(), wanting(2, 3), wanting(2, 3), device=device, **CLOSE)
    pooled, indices = F.max_pool2d(torch.randn(1, 2, 4, 4), 2, return_indices=True)
    check_same(nn.MaxUnpool2d(2), pooled.requires_grad_(), indices, device=device)
    grid = F.affine_grid(torch.eye(2, 3)[None], [1, 2, 5, 5], align_corners=False).requires_grad_()
    check_same(F.grid_sample, wanting(1, 2, 4, 4), grid, device=device, **CLOSE)


# Losses

CLASSES = torch.tensor([0, 2, 1, 2])
LOSSES: list[tuple[nn.Module, list[Tensor]]] = [
    (nn.CrossEntropyLoss(), [wanting(4, 3), CLASSES]),
    (nn.CrossEntropyLoss(torch.tensor([0.2, 1, 2]), label_smoothing=0.1), [wanting(4, 3), CLASSES]),
    (nn.CrossEntropyLoss(ignore_index=2, reduction="sum"), [wanting(4, 3), CLASSES]),
    (nn.CrossEntropyLoss(), [wanting(4, 3), torch.rand(4, 3)]),
    (nn.CrossEntropyLoss(), [wanting(1, 3, 2, 2), torch.tensor([[[0, 2], [1, 1]]])]),
    (nn.NLLLoss(reduction="none"), [wanting(4, 3), CLASSES]),
    (nn.MSELoss(), [wanting(4, 3), wanting(4, 3)]),
    (nn.L1Loss(), [wanting(4, 3), torch.randn(4, 3)]),
    (nn.SmoothL1Loss(beta=0.5), [wanting(4, 3), torch.randn(4, 3)]),
    (nn.HuberLoss(), [wanting(4, 3), torch.randn(4, 3)]),
    (nn.BCELoss(), [torch.rand(4, 3, requires_grad=True), torch.rand(4, 3)]),
    (nn.BCEWithLogitsLoss(pos_weight=torch.rand(3)), [wanting(4, 3), torch.rand(4, 3)]),
    (nn.KLDivLoss(reduction="batchmean"), [wanting(4, 3), torch.rand(4, 3)]),
    (nn.PoissonNLLLoss(), [wanting(4, 3), torch.rand(4, 3)]),
    (nn.GaussianNLLLoss(), [wanting(4, 3), torch.rand(4, 3), torch.rand(4, 3)]),
    (nn.HingeEmbeddingLoss(), [wanting(4, 3), torch.rand(4, 3).round() * 2 - 1]),
    (nn.MultiLabelMarginLoss(), [wanting(4, 3), torch.tensor([[0, 2, -1], [1, -1, 0], [2, 1, 0], [-1, 0, 0]])]),
    (nn.MultiLabelSoftMarginLoss(), [wanting(4, 3), torch.rand(4, 3).round()]),
    (nn.MultiMarginLoss(), [wanting(4, 3), CLASSES]),
    (nn.MarginRankingLoss(), [wanting(4), wanting(4), torch.tensor([1.0, -1, 1, -1])]),
    (nn.SoftMarginLoss(), [wanting(4), torch.tensor([1.0, -1, 1, -1])]),
    (nn.CosineEmbeddingLoss(), [wanting(4, 3), wanting(4, 3), torch.tensor([1.0, -1, 1, -1])]),
    (nn.TripletMarginLoss(), [wanting(4, 3), wanting(4, 3), wanting(4, 3)]),
]


@pytest.mark.parametrize(("loss", "inputs"), LOSSES, ids=names([loss for loss, _ in LOSSES]))
def test_losses_are_those_of_the_cpu(loss: nn.Module, inputs: list[Tensor], device: str) -> None:
    check_same(loss, *inputs, device=device, **CLOSE)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_ctc_loss_is_that_of_the_cpu(reduction: str, device: str) -> None:
    targets, target_lengths = torch.randint(1, 5, (3, 6)), torch.tensor([6, 3, 1])
    logits = wanting(12, 3, 5)

    def loss(logits: Tensor, targets: Tensor, lengths: Tensor, target_lengths: Tensor) -> Tensor:
        return F.ctc_loss(logits.log_softmax(2), targets, lengths, target_lengths, reduction=reduction)

    lengths = torch.tensor([12, 10, 8])
    check_same(loss, logits, targets, lengths, target_lengths, device=device, **CLOSE)
    there: list[Any] = [logits.to(device).log_softmax(2), targets.to(device), (12, 10, 8), (6, 3, 1), 0, reduction]
    on_host = F.ctc_loss(*there)
    torch.testing.assert_close(on_host.cpu(), loss(logits, targets, lengths, target_lengths), **CLOSE)


# Optimizers

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": lambda p, **k: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01, **k),
    "Adam": lambda p, **k: torch.optim.Adam(p, 0.01, amsgrad=True, **k),
    "AdamW": lambda p, **k: torch.optim.AdamW(p, 0.01, **k),
    "Adagrad": lambda p, **k: torch.optim.Adagrad(p, 0.1, **k),
    "RMSprop": lambda p, **k: torch.optim.RMSprop(p, 0.01, momentum=0.5, centered=True, **k),
    "Adadelta": lambda p, **k: torch.optim.Adadelta(p, **k),
    "NAdam": lambda p, **k: torch.optim.NAdam(p, **k),
    "Rprop": lambda p, **k: torch.optim.Rprop(p, **k),
}
CASES = [
    pytest.param(name, how, id=f"{name}-{how}")
    for name in OPTIMIZERS
    for how in ("default", "foreach", "fused", "one by one")
    if how != "fused" or name in ("SGD", "Adam", "AdamW", "Adagrad")
]


def train(
    place: str, optimizer: Callable[..., torch.optim.Optimizer], how: str
) -> tuple[nn.Module, torch.optim.Optimizer]:
    options = {"default": {}, "foreach": {"foreach": True}, "fused": {"fused": True}, "one by one": {"foreach": False}}[
        how
    ]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    x, y = torch.randn(16, 4), torch.randn(16, 2)
    model, x, y = model.to(place), x.to(place), y.to(place)
    stepper = optimizer(model.parameters(), **options)
    for _ in range(5):
        stepper.zero_grad()
        F.mse_loss(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5, foreach=None if how == "default" else how != "one by one")
        stepper.step()
    return model, stepper


@pytest.mark.parametrize(("name", "how"), CASES)
def test_optimizers_step_as_on_the_cpu(name: str, how: str, device: str) -> None:
    ours, state = train(device, OPTIMIZERS[name], how)
    theirs, expected = train("cpu", OPTIMIZERS[name], "one by one")
    for mine, reference in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.cpu(), reference, rtol=1e-4, atol=1e-5)
        assert set(state.state[mine]) == set(expected.state[reference])


def test_the_state_of_an_optimizer_moves_to_the_cpu(device: str) -> None:
    model, optimizer = train(device, OPTIMIZERS["AdamW"], "default")
    saved = optimizer.state_dict()
    other = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    there = torch.optim.AdamW(other.parameters(), 0.01)
    there.load_state_dict(saved)
    first = next(iter(other.parameters()))
    assert there.state[first]["exp_avg"].device.type == "cpu"
    moments = optimizer.state[next(iter(model.parameters()))]["exp_avg"]
    torch.testing.assert_close(there.state[first]["exp_avg"], moments.cpu())


@pytest.mark.parametrize("foreach", [True, False, None])
@pytest.mark.parametrize("norm_type", [2.0, 1.0, math.inf])
def test_gradients_are_clipped_as_on_the_cpu(norm_type: float, foreach: bool | None, device: str) -> None:
    values = [torch.arange(-3.0, 3), torch.ones(2, 2) * 2]
    norms = []
    for place in ("cpu", device):
        parameters = [nn.Parameter(torch.zeros_like(value, device=place)) for value in values]
        for parameter, value in zip(parameters, values, strict=True):
            parameter.grad = value.clone().to(place)
        norms.append(nn.utils.clip_grad_norm_(parameters, 1.5, norm_type, foreach=foreach).cpu())
        clipped = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
        torch.testing.assert_close(clipped.norm(norm_type).cpu(), torch.tensor(1.5))
        nn.utils.clip_grad_value_(parameters, 0.1, foreach=foreach)
        assert max(p.grad.abs().max().item() for p in parameters if p.grad is not None) <= 0.1 + 1e-7
    torch.testing.assert_close(norms[1], norms[0])


def test_averaged_models_are_those_of_the_cpu(device: str) -> None:
    model = nn.Linear(2, 2).to(device)
    average: Any = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5)
    )
    average.update_parameters(model)
    before = model.weight.detach().clone()
    with torch.no_grad():
        model.weight.add_(2)
    average.update_parameters(model)
    torch.testing.assert_close(average.module.weight.detach(), before + 1)


# Modules as such


def test_to_moves_modules_in_place(device: str) -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    assert model.to(device) is model
    for tensor in (*model.parameters(), *model.buffers()):
        assert tensor.device.type == device
    half = copy.deepcopy(model).half()
    assert half[0].weight.dtype == torch.float16
    empty = nn.Linear(2, 2, device="meta").to_empty(device=device)
    nn.init.constant_(empty.weight, 2.0)
    assert empty.weight.tolist() == [[2, 2], [2, 2]]
    assert nn.Linear(2, 2, device=device, dtype=torch.float64).weight.dtype == torch.float64


def test_initialisers_fill_device_memory(device: str) -> None:
    for init in (
        nn.init.xavier_uniform_,
        nn.init.kaiming_normal_,
        nn.init.orthogonal_,
        nn.init.trunc_normal_,
        nn.init.eye_,
    ):
        check_same(lambda x, init=init: init(x), torch.empty(6, 6), device=device, strides=False, **CLOSE)


def test_parametrisations_are_those_of_the_cpu(device: str) -> None:
    model = nn.utils.parametrizations.weight_norm(nn.Linear(3, 4))
    check_same(model, wanting(2, 3), device=device, **CLOSE)
    check_same(nn.utils.parametrizations.orthogonal(nn.Linear(3, 3)), wanting(2, 3), device=device, **CLOSE)
    check_same(nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)), wanting(2, 3), device=device, **CLOSE)
