"""Attention in traces, transforms and wrapped tensors: torch.compile, torch.export, torch.func, nested tensors."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from compare import check_same, to_device
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import grad, jvp, vmap
from torch.nn import functional as F  # noqa: N812
from torch.nn.attention import SDPBackend, sdpa_kernel

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}

attend = F.scaled_dot_product_attention


def inputs(*batches: int, kv_heads: int = 4) -> list[Tensor]:
    return [torch.randn(*batches, heads, length, 8) for heads, length in ((4, 6), (kv_heads, 7), (kv_heads, 7))]


# The choice


def test_sdpa_kernel_can_select_the_fused_kernel(device: str) -> None:
    q, k, v = (x.to(device) for x in inputs(2))
    expected = attend(q.cpu(), k.cpu(), v.cpu())
    for backends in (SDPBackend.OVERRIDEABLE, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH):
        with sdpa_kernel(backends):
            torch.testing.assert_close(attend(q, k, v).cpu(), expected, **CLOSE)
    assert SDPBackend(torch._fused_sdp_choice(q, k, v)) == SDPBackend.OVERRIDEABLE
    with sdpa_kernel([SDPBackend.OVERRIDEABLE, SDPBackend.MATH]):
        assert SDPBackend(torch._fused_sdp_choice(q, k, v)) == SDPBackend.OVERRIDEABLE
    with sdpa_kernel(SDPBackend.MATH):
        assert SDPBackend(torch._fused_sdp_choice(q, k, v)) == SDPBackend.MATH
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION), pytest.raises(RuntimeError, match="No viable backend"):
        attend(q, k, v)


UNFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "dropout": (lambda q, k, v: attend(q, k, v, dropout_p=0.5), "dropout"),
    "head dimensions": (lambda q, k, v: attend(q, k, v[..., :5].contiguous()), "head dimension"),
    "float64": (lambda q, k, v: attend(q.double(), k.double(), v.double()), "dtype"),
    "vmap": (lambda q, k, v: vmap(attend)(q[None], k[None], v[None]), "torch.func"),
}


@pytest.mark.parametrize(("call", "reason"), UNFUSED.values(), ids=UNFUSED)
def test_inputs_that_do_not_fit_the_fused_kernel_are_computed_without_it(
    call: Callable[..., Any], reason: str, device: str
) -> None:
    q, k, v = (x.to(device) for x in inputs(2))
    call(q, k, v)
    with (
        sdpa_kernel(SDPBackend.OVERRIDEABLE),
        pytest.raises(RuntimeError, match="does not support"),
        pytest.warns(match=reason),
    ):
        call(q, k, v)


HEADS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "head dimensions": lambda q, k, v: attend(q, k, v[..., :5]),
    "three dimensions": lambda q, k, v: attend(q[0], k[0], v[0]),
    "five dimensions": lambda q, k, v: attend(q[None], k[None], v[None]),
    "no queries": lambda q, k, v: attend(q[:, :, :0], k, v),
    "no keys": lambda q, k, v: attend(q, k[:, :, :0], v[:, :, :0]),
    "no batch": lambda q, k, v: attend(q[:0], k[:0], v[:0]),
    "batch that is broadcast": lambda q, k, v: attend(q, k[:1], v[:1]),
    "last dimension not the densest": lambda q, k, v: attend(q.transpose(2, 3).contiguous().transpose(2, 3), k, v),
    "float64": lambda q, k, v: attend(q.double(), k.double(), v.double()),
}


@pytest.mark.parametrize("call", HEADS.values(), ids=HEADS)
def test_attention_of_any_shape_is_that_of_the_cpu(call: Callable[..., Any], device: str) -> None:
    check_same(call, *(x.requires_grad_() for x in inputs(2)), device=device, strides=False, **CLOSE)


# Without data


def test_fake_tensors_have_the_shape_of_the_result(device: str) -> None:
    with FakeTensorMode(), warnings.catch_warnings():
        warnings.simplefilter("error")  # an access to data is one
        q, k, v = (x.to(device) for x in inputs(2))
        mask = torch.randn(6, 7, device=device, requires_grad=True)
        for kwargs in ({}, {"is_causal": True}, {"attn_mask": mask}, {"dropout_p": 0.5}):
            assert attend(q, k, v, **kwargs).shape == (2, 4, 6, 8)


class Attention(nn.Module):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        self.projection = nn.Linear(16, 48)
        self.kwargs = kwargs

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.projection(x).view(*x.shape[:2], 3, 2, 8).permute(2, 0, 3, 1, 4)
        return attend(q, k, v, **self.kwargs).transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x: Tensor) -> Any:
        return self.attention(x, x, x, need_weights=False)[0]


def encoder_layer() -> nn.Module:
    return nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "attention": Attention,
    "causal attention": lambda: Attention(is_causal=True),
    "masked attention": lambda: Attention(attn_mask=torch.ones(5, 5, dtype=torch.bool).tril()),
    "MultiheadAttention": SelfAttention,
    "TransformerEncoderLayer": encoder_layer,
}


def moved(model: nn.Module, device: str) -> nn.Module:
    model = copy.deepcopy(model).to(device)
    if isinstance(model, Attention):
        model.kwargs = to_device(model.kwargs, device)
    return model


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_compiled_models_give_the_values_of_eager_ones(
    make: Callable[[], nn.Module], backend: str, training: bool, device: str
) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    reference = make().train(training)
    model = moved(reference, device)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    x = torch.randn(2, 5, 16)
    with torch.set_grad_enabled(training):
        expected, actual = reference(x), compiled(x.to(device))
    torch.testing.assert_close(actual.cpu(), expected, **CLOSE)
    if training:
        expected.square().sum().backward()
        actual.square().sum().backward()
        for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
            assert ours.grad is not None
            torch.testing.assert_close(ours.grad.cpu(), theirs.grad, **CLOSE)


def test_a_model_compiled_for_dynamic_shapes_takes_any_length(device: str) -> None:
    torch._dynamo.reset()
    reference = Attention(is_causal=True)
    compiled = torch.compile(moved(reference, device), backend="aot_eager", dynamic=True, fullgraph=True)
    for batch, length in ((2, 5), (3, 7), (4, 9)):
        x = torch.randn(batch, length, 16)
        torch.testing.assert_close(compiled(x.to(device)).cpu(), reference(x), **CLOSE)


def test_an_exported_program_gives_the_values_of_the_model(device: str) -> None:
    reference = Attention().eval()
    batch = {0: torch.export.Dim("batch")}
    program = torch.export.export(
        moved(reference, device), (torch.randn(2, 5, 16).to(device),), dynamic_shapes=(batch,)
    )
    x = torch.randn(3, 5, 16)
    for exported in (program, program.run_decompositions()):
        torch.testing.assert_close(exported.module()(x.to(device)).cpu(), reference(x), **CLOSE)


# Wrapped


def slope(*args: Any, **kwargs: Any) -> Tensor:
    return attend(*args, **kwargs).sin().sum()


def masked(m: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return slope(q, k, v, attn_mask=m)


TRANSFORMS: dict[str, Callable[..., Any]] = {
    "vmap": lambda m, q, k, v: vmap(attend)(q, k, v),
    "vmap of queries": lambda m, q, k, v: vmap(attend, in_dims=(0, None, None))(q, k[0], v[0]),
    "vmap of another dimension": lambda m, q, k, v: vmap(attend, in_dims=1, out_dims=2)(q, k, v),
    "vmap of vmap": lambda m, q, k, v: vmap(vmap(attend))(q, k, v),
    "vmap of a mask": lambda m, q, k, v: vmap(lambda m: attend(q[0], k[0], v[0], attn_mask=m))(torch.stack([m, -m])),
    "grad": lambda m, q, k, v: grad(slope, argnums=(0, 1, 2))(q[0], k[0], v[0]),
    "grad of a mask": lambda m, q, k, v: grad(masked)(m, q[0], k[0], v[0]),
    "vmap of grad": lambda m, q, k, v: vmap(grad(slope, argnums=(0, 1, 2)))(q, k, v),
    "vmap of grad of a mask": lambda m, q, k, v: vmap(grad(masked), in_dims=(None, 0, 0, 0))(m, q, k, v),
    "grad of vmap": lambda m, q, k, v: grad(lambda q: vmap(attend)(q, k, v).sin().sum())(q),
    "grad of vmap of a mask": lambda m, q, k, v: grad(
        lambda m: vmap(lambda q: attend(q, k[0], v[0], attn_mask=m))(q).sin().sum()
    )(m),
}


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # on the CPU, which loops
@pytest.mark.parametrize("call", TRANSFORMS.values(), ids=TRANSFORMS)
def test_transforms_give_the_values_of_the_cpu(call: Callable[..., Any], device: str) -> None:
    check_same(call, torch.randn(6, 7), *inputs(3, 2), device=device, strides=False, **CLOSE)


def test_forward_and_second_derivatives_are_those_of_the_cpu(device: str) -> None:
    """The CPU's fused attention has neither, so the math kernel gives the expected values."""

    def derivatives(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        forward = jvp(lambda q: attend(q, k, v), (q,), (q.cos(),))[1]
        return forward, grad(lambda q: grad(slope)(q, k, v).square().sum())(q)

    q, k, v = inputs(2)
    with sdpa_kernel(SDPBackend.MATH):
        expected = derivatives(q, k, v)
    actual = derivatives(q.to(device), k.to(device), v.to(device))
    torch.testing.assert_close([x.cpu() for x in actual], list(expected), **CLOSE)


# Nested


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_attention_of_nested_tensors_is_that_of_their_parts(layout: torch.layout, device: str) -> None:
    jagged = (
        layout == torch.jagged
    )  # what varies comes first there, and attention takes no strided ones that are transposed
    parts = [torch.randn(n, 2, 8) if jagged else torch.randn(2, n, 8) for n in (3, 5)]
    results = []
    for where in (device, "cpu"):
        x = torch.nested.nested_tensor([part.to(where) for part in parts], layout=layout)
        x = x.transpose(1, 2) if jagged else x
        results.append([y.cpu() for y in attend(x, x, x).unbind()])
    torch.testing.assert_close(*results, **CLOSE)
