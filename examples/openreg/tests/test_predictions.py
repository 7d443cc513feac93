"""Results have the shape, strides and dtype that torch.compile and torch.export predict.

The tests cover operators with device-specific names, such as the fused attention. All others have the CPU's layout.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._prims_common import check_significant_strides
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

ops = torch.ops.aten


def check_prediction(op: Callable[..., Any], *args: Any) -> Any:
    """Compare the results of `op` with its results for fake tensors."""
    results = op(*args)
    with FakeTensorMode() as mode:
        predicted = op(*tree_map_only(Tensor, mode.from_tensor, args))
    pairs = zip(results, predicted, strict=True) if isinstance(results, tuple) else [(results, predicted)]
    for actual, expected in pairs:
        if not isinstance(expected, Tensor):
            assert actual == expected
            continue
        assert (actual.shape, actual.dtype, actual.device) == (expected.shape, expected.dtype, expected.device)
        assert check_significant_strides(actual, expected, only_cuda=False)[0], (
            actual.stride(),
            expected.stride(),
        )
    return results


def gradients_like(result: Tensor) -> Iterator[Tensor]:
    """Yield gradients for a result: with its layout, with another layout, and expanded from one number."""
    yield torch.randn_like(result)
    yield torch.randn_like(result.transpose(1, 2).contiguous()).transpose(1, 2)
    yield torch.ones((), dtype=result.dtype, device=result.device).expand(result.shape)


def swapped(*shape: int) -> Tensor:
    """Return a tensor with the layout of a projection: in memory the heads are behind the sequence."""
    return torch.randn(shape).transpose(1, 2)


ATTENTIONS: dict[str, Callable[[], tuple[Tensor, ...]]] = {
    "contiguous": lambda: (torch.randn(2, 4, 6, 8), torch.randn(2, 4, 7, 8), torch.randn(2, 4, 7, 8)),
    "projections": lambda: (swapped(2, 6, 4, 8), swapped(2, 7, 4, 8), swapped(2, 7, 4, 8)),
    "different layouts": lambda: (
        torch.randn(2, 4, 6, 8),
        swapped(2, 7, 4, 8),
        torch.randn(7, 2, 4, 8).permute(1, 2, 0, 3),
    ),
    "parts of one projection": lambda: swapped(2, 6, 4, 24).chunk(3, -1),
    "expanded": lambda: (
        torch.randn(1, 4, 6, 8).expand(2, -1, -1, -1),
        *torch.randn(2, 2, 1, 7, 8).expand(2, 2, 4, 7, 8),
    ),
    "grouped queries": lambda: (torch.randn(2, 4, 6, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 8)),
    "nothing": lambda: (torch.randn(0, 4, 6, 8), torch.randn(0, 4, 7, 8), torch.randn(0, 4, 7, 8)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("inputs", ATTENTIONS.values(), ids=ATTENTIONS)
def test_fused_attention_has_the_predicted_layout(
    inputs: Callable[[], tuple[Tensor, ...]], dtype: torch.dtype, device: str
) -> None:
    q, k, v = (x.to(device, dtype) for x in inputs())
    if inputs is ATTENTIONS["expanded"]:
        q, k, v = q[:1].expand(q.shape), k[:, :1].expand(k.shape), v[:, :1].expand(v.shape)
    if inputs is ATTENTIONS["parts of one projection"]:
        q, k, v = torch.cat([q, k, v], -1).transpose(1, 2).contiguous().transpose(1, 2).chunk(3, -1)
    bias = torch.randn(q.shape[-2], k.shape[-2], device=device, dtype=dtype)
    for mask, causal in ((None, False), (None, True), (bias, False)):
        forward = ops._scaled_dot_product_fused_attention_overrideable.default
        out, lse, _, _, max_q, max_k, seed, offset, _ = check_prediction(forward, q, k, v, mask, 0.0, causal)
        for grad in gradients_like(out):

            def backward(*args: Any) -> tuple[Tensor, ...]:
                # PyTorch predicts a gradient for a mask even where none is asked for.
                return ops._scaled_dot_product_fused_attention_overrideable_backward.default(*args)[:3]

            wanted = [True, True, True, False]
            more = (None, None, max_q, max_k, 0.0, causal, seed, offset)
            check_prediction(backward, grad, q, k, v, mask, wanted, out, lse, *more)


CHANNELS_LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


@pytest.mark.parametrize("transposed", [False, True], ids=["plain", "transposed"])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("which", ["neither", "input", "weight", "both", "other strides"])
def test_a_convolution_has_the_predicted_layout(which: str, dimensions: int, transposed: bool, device: str) -> None:
    channels_last = CHANNELS_LAST.get(dimensions, torch.contiguous_format)
    length = [6] * dimensions
    x = torch.randn(2, 4, *length, device=device)
    weight = torch.randn(*((4, 4) if transposed else (8, 2)), *[3] * dimensions, device=device)
    if which in ("input", "both"):
        x = x.to(memory_format=channels_last)
    if which in ("weight", "both"):
        weight = weight.to(memory_format=channels_last)
    if which == "other strides":
        x = x.transpose(0, 1).contiguous().transpose(0, 1)
    one, none = [1] * dimensions, [0] * dimensions
    options = (one, one, one, transposed, none, 2)
    y = check_prediction(ops.convolution.default, x, weight, None, *options)
    for grad in gradients_like(y):
        check_prediction(ops.convolution_backward.default, grad, x, weight, [8], *options, [True] * 3)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_a_convolution_of_an_empty_batch_has_the_predicted_layout(dimensions: int, device: str) -> None:
    x = torch.randn(0, 4, *[6] * dimensions, device=device)
    weight = torch.randn(8, 4, *[3] * dimensions, device=device)
    one, none = [1] * dimensions, [0] * dimensions
    y = check_prediction(ops.convolution.default, x, weight, None, one, one, one, False, none, 1)
    check_prediction(ops.convolution_backward.default, y, x, weight, [8], one, one, one, False, none, 1, [True] * 3)
