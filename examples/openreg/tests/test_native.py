"""The native kernels, one section for each style of registration."""

import importlib
import math
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from abilities import EMULATE, has
from compare import check_same, to_device
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F  # noqa: N812

SIGNED = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
]
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture
def operators(device_module: ModuleType) -> Iterator[ModuleType]:
    device_module.operators.reset_fallback_counts()
    yield device_module.operators
    device_module.operators.reset_fallback_counts()


@pytest.fixture
def library(device: str) -> Any:
    """The device's custom operators."""
    return getattr(torch.ops, device)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "dense": lambda x: x,
    "transposed": lambda x: x.t(),
    "slice": lambda x: x[1:, ::2],
    "backwards in memory": lambda x: x.t()[1:].t(),
    "expanded": lambda x: x[:1].expand(5, 7),
    "empty": lambda x: x[:0],
    "number": lambda x: x[2, 3],
    "large": lambda x: x.repeat(60, 50),
}


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> Callable[[Tensor], Tensor]:
    return LAYOUTS[request.param]


def sample(dtype: torch.dtype) -> Tensor:
    return torch.testing.make_tensor(5, 7, dtype=dtype, device="cpu")


def check_variants(
    function: Callable[..., Tensor],
    in_place: Callable[..., Tensor],
    x: Tensor,
    layout: Callable[[Tensor], Tensor],
    device: str,
) -> None:
    """Compare the functional, the in-place and the out variant of an operator with the CPU's functional one."""
    expected = function(layout(x))
    there = to_device(x, device)
    actual = function(layout(there))
    assert (actual.dtype, actual.stride()) == (expected.dtype, expected.stride())
    torch.testing.assert_close(actual.cpu(), expected)

    out = torch.empty(0, dtype=expected.dtype, device=device)
    assert function(layout(there), out=out) is out
    torch.testing.assert_close(out.cpu(), expected)
    columns = torch.zeros(*expected.shape, 2, dtype=expected.dtype, device=device)
    function(layout(there), out=columns[..., 1])
    torch.testing.assert_close(columns[..., 1].cpu(), expected)
    assert not columns[..., 0].any()

    torch.testing.assert_close(there.cpu(), x)
    view = layout(there)
    if 0 not in view.stride():
        assert in_place(view) is view
        torch.testing.assert_close(view.cpu(), expected)
        host = x.clone()
        in_place(layout(host))
        torch.testing.assert_close(there.cpu(), host)


# DispatchStub


@pytest.mark.parametrize("dtype", [*SIGNED, torch.uint8], ids=str)
def test_abs_gives_the_values_of_the_cpu(dtype: torch.dtype, layout: Callable[[Tensor], Tensor], device: str) -> None:
    check_variants(torch.abs, Tensor.abs_, sample(dtype), layout, device)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_abs_of_complex_numbers_is_real(dtype: torch.dtype, layout: Callable[[Tensor], Tensor], device: str) -> None:
    x = sample(dtype)
    check_same(lambda x: layout(x).abs(), x.requires_grad_(), device=device)
    with pytest.raises(RuntimeError, match="not supported for complex"):
        x.detach().to(device).abs_()


def test_abs_of_zeros_infinities_and_nan_has_no_sign(device: str) -> None:
    x = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, -1e-45])
    y = x.to(device).abs().cpu()
    torch.testing.assert_close(y, x.abs(), rtol=0, atol=0, equal_nan=True)
    assert not y.signbit().any()
    check_same(torch.abs, torch.tensor([-1.0, 0.0, 2.0], requires_grad=True), device=device)


# Structured kernels


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_leaky_relu_gives_the_values_of_the_cpu(
    dtype: torch.dtype, layout: Callable[[Tensor], Tensor], device: str
) -> None:
    def function(x: Tensor, out: Tensor | None = None) -> Tensor:
        if out is None:
            return F.leaky_relu(x, 0.1)
        result: Tensor = torch.ops.aten.leaky_relu.out(x, 0.1, out=out)
        return result

    check_variants(function, lambda x: F.leaky_relu_(x, 0.1), sample(dtype), layout, device)


@pytest.mark.parametrize("inplace", [False, True])
def test_the_gradient_of_leaky_relu_is_that_of_the_cpu(inplace: bool, device: str) -> None:
    class Activation(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.leaky_relu(x * 2, 0.3, inplace=inplace)

    check_same(Activation(), torch.randn(4, 5, requires_grad=True), device=device)
    there = torch.randn(4, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: F.leaky_relu(x * 2, 0.3, inplace=inplace), there)


def test_leaky_relu_refuses_integers_and_two_devices(device: str, second_device: torch.device) -> None:
    with pytest.raises(NotImplementedError, match="leaky_relu"):
        F.leaky_relu(torch.ones(2, dtype=torch.int64, device=device))
    with pytest.raises(RuntimeError):
        torch.ops.aten.leaky_relu.out(
            torch.ones(2, device=device), 0.1, out=torch.empty(2, dtype=torch.int64, device=device)
        )
    with pytest.raises(RuntimeError):
        torch.ops.aten.leaky_relu.out(torch.ones(2, device=device), 0.1, out=torch.empty(2, device=second_device))
    with pytest.raises(RuntimeError):
        torch.ops.aten.leaky_relu.out(torch.ones(2, device=device), 0.1, out=torch.empty(2))


def test_kernels_run_where_their_operands_are(second_device: torch.device, device_module: ModuleType) -> None:
    x = torch.tensor([-2.0, 3.0], device=second_device)
    for result in (x.abs(), F.leaky_relu(x), x.clone().zero_()):
        assert result.device == second_device
    assert F.leaky_relu(x, 0.5).tolist() == [-1, 3]
    assert device_module.current_device() == 0


# TORCH_LIBRARY_IMPL


@pytest.mark.parametrize("dtype", [*SIGNED, torch.bool, torch.complex64], ids=str)
def test_zero_writes_only_the_elements_of_a_view(dtype: torch.dtype, device: str) -> None:
    for name in ("dense", "transposed", "slice", "backwards in memory", "empty", "number"):
        x = sample(dtype)
        there = x.to(device)
        view = LAYOUTS[name](there)
        assert view.zero_() is view
        LAYOUTS[name](x).zero_()
        assert torch.equal(there.cpu(), x)


def test_zero_grad_keeps_the_gradient_and_fills_it(device: str) -> None:
    layer = nn.Linear(2, 2).to(device)
    layer(torch.ones(1, 2, device=device)).sum().backward()
    layer.zero_grad(set_to_none=False)
    assert layer.weight.grad is not None
    assert layer.weight.grad.tolist() == [[0, 0], [0, 0]]


# Custom operator


def composed_bias_relu(x: Tensor, bias: Tensor) -> Tensor:
    return (x + bias).relu()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(7,), (5, 7), (2, 3, 7), (0, 7), (300, 7)])
def test_bias_relu_gives_the_values_of_its_formula(
    shape: tuple[int, ...], dtype: torch.dtype, library: Any, device: str
) -> None:
    x, bias = torch.randn(shape, dtype=dtype), torch.randn(7, dtype=dtype)
    actual = library.bias_relu(x.to(device), bias.to(device))
    assert (actual.dtype, actual.device.type) == (dtype, device)
    torch.testing.assert_close(actual.cpu(), composed_bias_relu(x, bias))


def test_bias_relu_takes_strided_operands(library: Any, device: str) -> None:
    x, bias = torch.randn(7, 5), torch.randn(14)
    actual = library.bias_relu(x.to(device).t(), bias.to(device)[::2])
    torch.testing.assert_close(actual.cpu(), composed_bias_relu(x.t(), bias[::2]))


def test_the_gradient_of_bias_relu_is_that_of_its_formula(library: Any, device: str) -> None:
    x = torch.randn(2, 5, 7, dtype=torch.float64, device=device, requires_grad=True)
    bias = torch.randn(7, dtype=torch.float64, device=device, requires_grad=True)
    slope = torch.randn_like(x)
    actual = torch.autograd.grad(library.bias_relu(x, bias), (x, bias), slope)
    expected = torch.autograd.grad(composed_bias_relu(x, bias), (x, bias), slope)
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    assert torch.autograd.gradcheck(library.bias_relu, (x, bias))
    assert torch.autograd.gradcheck(library.bias_relu, (x, bias.detach()))
    assert not library.bias_relu(x.detach(), bias.detach()).requires_grad


def test_bias_relu_keeps_nan(library: Any, device: str) -> None:
    x = torch.tensor([[math.nan, math.inf, -math.inf, -0.0, 2.0], [1.0, math.nan, 0.0, -1.0, math.nan]])
    bias = torch.tensor([0.0, 0.0, 0.0, 0.0, math.nan])
    here = to_device((x, bias), device)
    torch.testing.assert_close(library.bias_relu(*here).cpu(), composed_bias_relu(x, bias), equal_nan=True)
    operands = [t.requires_grad_() for t in (x, bias, *here)]
    composed_bias_relu(x, bias).sum().backward()
    library.bias_relu(*here).sum().backward()
    for theirs, ours in zip(operands[:2], operands[2:], strict=True):
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad, equal_nan=True)


@pytest.mark.filterwarnings("error")
def test_the_second_gradient_of_bias_relu_is_right(library: Any, device: str) -> None:
    x = torch.randn(4, 3, dtype=torch.float64, device=device, requires_grad=True)
    bias = torch.randn(3, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradgradcheck(library.bias_relu, (x, bias))

    def penalty(function: Callable[[Tensor, Tensor], Tensor]) -> tuple[Tensor, ...]:
        first = torch.autograd.grad(function(x, bias).pow(3).sum(), (x, bias), create_graph=True)
        return torch.autograd.grad(sum(g.pow(2).sum() for g in first), (x, bias))

    torch.testing.assert_close(penalty(library.bias_relu), penalty(composed_bias_relu))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_bias_relu_without_elements_has_zero_gradients(shape: tuple[int, int], library: Any, device: str) -> None:
    x = torch.ones(shape, device=device, requires_grad=True)
    bias = torch.ones(shape[1], device=device, requires_grad=True)
    library.bias_relu(x, bias).sum().backward()
    assert (x.grad.shape, bias.grad.tolist()) == (shape, [0.0] * shape[1])


def loss(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, bias: function(x, bias).pow(3).sum()


TRANSFORMS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "grad": lambda f: torch.func.grad(loss(f), (0, 1)),
    "grad of grad": lambda f: torch.func.grad(lambda x, b: torch.func.grad(loss(f))(x, b).sum(), (0, 1)),
    "vjp": lambda f: lambda x, b: torch.func.vjp(f, x, b)[1](x),
    "jvp": lambda f: lambda x, b: torch.func.jvp(f, (x, b), (x, b)),
    "jacrev": lambda f: torch.func.jacrev(f, (0, 1)),
    "hessian": lambda f: torch.func.hessian(loss(f), (0, 1)),
    "vmap": lambda f: torch.vmap(f, (0, None)),
    "vmap of both": lambda f: lambda x, b: torch.vmap(f)(torch.stack([x, -x]), torch.stack([b, b + 1])),
    "vmap of grad": lambda f: torch.vmap(torch.func.grad(loss(f)), (0, None)),
    "grad of vmap": lambda f: torch.func.grad(loss(torch.vmap(f, (0, None)))),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.filterwarnings("error", "ignore:.*torch.jit")
def test_bias_relu_works_in_transforms(
    transform: Callable[[Any], Callable[..., Any]], library: Any, device: str
) -> None:
    x, bias = torch.randn(4, 3, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    actual = transform(library.bias_relu)(x.to(device), bias.to(device))
    torch.testing.assert_close(actual, to_device(transform(composed_bias_relu)(x, bias), device))
    with pytest.raises(ValueError, match="bias_relu takes"):
        transform(library.bias_relu)(x.to(device), bias.to(device)[:1])


def test_bias_relu_refuses_operands_that_do_not_fit(library: Any, device: str, second_device: torch.device) -> None:
    x = torch.ones(2, 3, device=device)
    for bias in (torch.ones(2, device=device), torch.ones(1, 3, device=device), torch.ones((), device=device)):
        with pytest.raises(ValueError, match="bias_relu takes"):
            library.bias_relu(x, bias)
    with pytest.raises(TypeError, match="one dtype"):
        library.bias_relu(x, torch.ones(3, device=device, dtype=torch.float64))
    for place in (second_device, "cpu"):
        with pytest.raises(RuntimeError, match="at least two devices"):
            library.bias_relu(x, torch.ones(3, device=place))
    with pytest.raises(NotImplementedError, match="bias_relu"):
        library.bias_relu(
            torch.ones(2, 3, dtype=torch.int64, device=device), torch.ones(3, dtype=torch.int64, device=device)
        )


def test_bias_relu_has_shapes_without_data(library: Any, device: str) -> None:
    meta = library.bias_relu(torch.empty(4, 3, device="meta").t(), torch.empty(4, device="meta"))
    assert (meta.shape, meta.stride(), meta.device.type) == ((3, 4), (4, 1), "meta")
    with FakeTensorMode():
        x = torch.empty(5, 3, device=device, requires_grad=True)
        y = library.bias_relu(x, torch.empty(3, device=device))
        assert (y.shape, y.device.type) == ((5, 3), device)
        (grad,) = torch.autograd.grad(y.sum(), x)
        assert (grad.shape, grad.device.type) == ((5, 3), device)


def test_bias_relu_keeps_the_rules_for_operators(library: Any, device: str) -> None:
    x = torch.randn(4, 3, device=device, requires_grad=True)
    bias = torch.randn(3, device=device, requires_grad=True)
    tests = ("test_schema", "test_faketensor")
    done = torch.library.opcheck(library.bias_relu.default, (x, bias), test_utils=tests)
    assert set(done.values()) == {"SUCCESS"}


# Operator defined in Python


@pytest.fixture
def swiglu(device_module: ModuleType) -> Callable[[Tensor, Tensor], Tensor]:
    function: Callable[[Tensor, Tensor], Tensor] = importlib.import_module(f"{device_module.__name__}.library").swiglu
    return function


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_swiglu_gives_the_values_of_its_formula(
    dtype: torch.dtype, swiglu: Callable[[Tensor, Tensor], Tensor], library: Any, device: str
) -> None:
    for name in ("dense", "transposed", "slice", "empty", "number"):
        gate, up = LAYOUTS[name](sample(dtype)), LAYOUTS[name](sample(dtype) + 1)
        expected = F.silu(gate) * up
        for function in (swiglu, library.swiglu):
            actual = function(gate.to(device), up.to(device))
            assert (actual.dtype, actual.device.type, actual.stride()) == (dtype, device, expected.stride())
            torch.testing.assert_close(actual.cpu(), expected)


def test_both_gradients_of_swiglu_are_right(swiglu: Callable[[Tensor, Tensor], Tensor], device: str) -> None:
    gate = torch.randn(3, 4, dtype=torch.float64, device=device, requires_grad=True)
    up = torch.randn(3, 4, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(swiglu, (gate, up))
    assert torch.autograd.gradgradcheck(swiglu, (gate, up))
    assert torch.autograd.gradcheck(swiglu, (gate.detach(), up))
    assert not swiglu(gate.detach(), up.detach()).requires_grad


def test_swiglu_has_shapes_without_data(swiglu: Callable[[Tensor, Tensor], Tensor], library: Any, device: str) -> None:
    with FakeTensorMode():
        gate = torch.empty(5, 3, device=device, requires_grad=True)
        result = swiglu(gate, gate)
        assert (result.shape, result.device.type) == ((5, 3), device)
        (grad,) = torch.autograd.grad(result.sum(), gate)
        assert grad.shape == (5, 3)
    operands = tuple(torch.randn(2, 3, device=device, requires_grad=True) for _ in range(2))
    tests = ("test_schema", "test_faketensor")
    assert set(torch.library.opcheck(library.swiglu.default, operands, test_utils=tests).values()) == {"SUCCESS"}


def test_swiglu_refuses_operands_that_do_not_fit(swiglu: Callable[[Tensor, Tensor], Tensor], device: str) -> None:
    x = torch.ones(2, 3, device=device)
    for other, what in ((x[:1], "shape"), (x.half(), "dtype"), (x.cpu(), "device")):
        with pytest.raises(RuntimeError, match=f"swiglu needs two tensors of the same {what}"):
            swiglu(x, other)


# Fallback of a single operator


@pytest.mark.parametrize("policy", [EMULATE, "error"])
def test_decompositions_run_on_the_host(policy: str, operators: ModuleType, device: str) -> None:
    x, y = torch.randn(4, 4), torch.randn(4, 2)
    with operators.fallback_policy(policy):
        values, vectors = torch.linalg.eig(x.to(device))
        solution = torch.linalg.lstsq(x.to(device), y.to(device)).solution
    assert (values.device.type, vectors.device.type, solution.device.type) == (device, device, device)
    expected_values, expected_vectors = torch.linalg.eig(x)
    torch.testing.assert_close(values.cpu(), expected_values)
    torch.testing.assert_close(vectors.cpu(), expected_vectors)
    torch.testing.assert_close(solution.cpu(), torch.linalg.lstsq(x, y).solution)
    counts = operators.fallback_counts()
    assert (counts["aten::linalg_eig"], counts["aten::linalg_lstsq"]) == (1, 1)


# Composed kernels


def test_native_kernels_are_no_fallbacks(operators: ModuleType, library: Any, device: str) -> None:
    """abs, leaky_relu and bias_relu launch functions of the host: the emulated device runs them, other devices cannot."""
    x = torch.tensor([[-1.0, 2.0]]).to(device)
    x.abs_()
    F.leaky_relu(x)
    library.bias_relu(x, x[0])
    x.zero_()
    of_the_host = {"aten::abs_", "aten::abs.out", "aten::leaky_relu", f"{device}::bias_relu"}
    counts = operators.fallback_counts()
    states = {name: operators.coverage()[name]["state"] for name in ("aten::abs_", "aten::leaky_relu", "aten::zero_")}
    launched = (
        states["aten::abs_"] == "native"
    )  # else kernels of the device are no functions of the host (csrc/device/Kernel.h)
    assert launched or not has("emulation")
    assert counts.keys() == (set() if launched else of_the_host)
    expected = "native" if launched else "host body"
    assert states == {"aten::abs_": expected, "aten::leaky_relu": expected, "aten::zero_": "native"}


DROPOUTS: dict[str, Callable[[Tensor], Any]] = {
    "native_dropout": lambda x: torch.native_dropout(x, 0.3, True),
    "dropout": lambda x: F.dropout(x, 0.3),
    "dropout in place": lambda x: F.dropout(x * 1, 0.3, inplace=True),
    "dropout2d": lambda x: F.dropout2d(x[None], 0.3),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.3, training=True),
}


@pytest.mark.parametrize("dropout", DROPOUTS.values(), ids=DROPOUTS)
def test_dropout_repeats_with_its_seed(
    dropout: Callable[[Tensor], Any], device: str, device_module: ModuleType
) -> None:
    def draw(seed: int) -> tuple[Tensor, Tensor]:
        device_module.manual_seed(seed)
        result = dropout(x)
        result = result[0] if isinstance(result, tuple) else result
        (grad,) = torch.autograd.grad(result.sum(), x)
        return result.detach().cpu(), grad.cpu()

    x = torch.rand(8, 16, 16, device=device, requires_grad=True)
    before = torch.get_rng_state()
    first, second, third = draw(1), draw(1), draw(2)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])
    assert not torch.equal(first[0], third[0])
    assert 0 < (first[1] == 0).float().mean() < 0.6
    assert torch.equal(first[1] == 0, second[1] == 0)


def test_native_dropout_drops_the_asked_share(device: str) -> None:
    x = torch.ones(100_000, device=device, dtype=torch.float64)
    output, mask = torch.native_dropout(x, 0.25, True)
    assert mask.dtype == torch.bool
    assert abs(mask.double().mean().item() - 0.75) < 0.01
    torch.testing.assert_close(output, mask.double() / 0.75)
    kept, mask = torch.native_dropout(x, 0.25, False)
    assert torch.equal(kept.cpu(), x.cpu())
    assert mask.all()
    dropped, mask = torch.native_dropout(x, 1.0, True)
    assert not dropped.any()
    assert not mask.any()
    assert kept.data_ptr() != x.data_ptr()
    nothing, mask = torch.native_dropout(x[:0], 0.5, True)
    assert nothing.shape == mask.shape == (0,)
