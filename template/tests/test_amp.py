"""Mixed precision: which operators autocast casts, and gradient scaling."""

import math
from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from compare import HALF
from torch import nn
from torch.nn import functional as F


def make(device: str, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.rand(*shape).to(device=device, dtype=dtype)


def test_autocast_takes_float16_and_bfloat16(device: str, device_module: ModuleType) -> None:
    assert set(HALF) <= set(device_module.get_amp_supported_dtype())
    assert torch.amp.is_autocast_available(device)
    assert device_module.is_autocast_available()
    assert device_module.amp.is_autocast_available()
    assert torch.get_autocast_dtype(device) in HALF
    assert not torch.is_autocast_enabled(device)


LOW: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "mm": lambda x: x.mm(x),
    "matmul": lambda x: x @ x,
    "bmm": lambda x: x[None].bmm(x[None]),
    "addmm": lambda x: torch.addmm(x, x, x),
    "baddbmm": lambda x: torch.baddbmm(x[None], x[None], x[None]),
    "mv": lambda x: x.mv(x[0]),
    "linear": lambda x: F.linear(x, x),
    "conv2d": lambda x: F.conv2d(x[None, None], x[None, None, :3, :3]),
    "einsum": lambda x: torch.einsum("ij,jk->ik", x, x),
}
FULL: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exp": torch.exp,
    "log": lambda x: torch.log(x + 1),
    "pow": lambda x: x.pow(3),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "mse_loss": lambda x: F.mse_loss(x, x * 2),
    "cumsum": lambda x: x.cumsum(0),
    "sum": lambda x: x.sum(),
    "prod": lambda x: x.prod(0),
    "norm": lambda x: x.norm(),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x.flip(0)),
}


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("name", LOW)
def test_matrix_products_run_in_low_precision(name: str, dtype: torch.dtype, device: str) -> None:
    x = make(device, torch.float32, 8, 8)
    with torch.autocast(device, dtype=dtype):
        out = LOW[name](x)
    assert out.dtype == dtype
    expected = LOW[name](x.cpu().to(dtype).float())
    torch.testing.assert_close(out.cpu().float(), expected, atol=0.05, rtol=0.02)


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("name", FULL)
def test_sensitive_operators_run_in_float32(name: str, dtype: torch.dtype, device: str) -> None:
    x = make(device, dtype, 8, 8)
    with torch.autocast(device, dtype=dtype):
        out = FULL[name](x)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out.cpu(), FULL[name](x.cpu().float()), atol=1e-2, rtol=1e-2)


def test_the_widest_input_decides_the_dtype(device: str) -> None:
    half, full = make(device, torch.float16, 4), make(device, torch.float32, 4)
    with torch.autocast(device, dtype=torch.float16):
        assert torch.cat([half, full]).dtype == torch.float32
        assert torch.stack([half, half]).dtype == torch.float16
        assert torch.dot(half, full).dtype == torch.float32
        assert torch.dot(half, half).dtype == torch.float16
        assert torch.addcmul(half, full, full).dtype == torch.float32
        assert (half + full).dtype == torch.float32
        assert (half + half).dtype == torch.float16


def test_integers_and_doubles_are_left_alone(device: str) -> None:
    with torch.autocast(device, dtype=torch.float16):
        double = torch.ones(3, 3, device=device, dtype=torch.float64)
        assert (double @ double).dtype == torch.float64
        assert torch.ones(3, device=device, dtype=torch.int32).sum().dtype == torch.int64


def test_binary_cross_entropy_is_refused(device: str) -> None:
    x = make(device, torch.float32, 4)
    with torch.autocast(device, dtype=torch.float16), pytest.raises(RuntimeError, match="with_logits"):
        F.binary_cross_entropy(x, x)
    F.binary_cross_entropy(x, x)


def test_only_this_device_is_cast(device: str) -> None:
    there, here = make(device, torch.float32, 4, 4), torch.ones(4, 4)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert (here @ here).dtype == torch.float32
        assert (there @ there).dtype == torch.bfloat16
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (there @ there).dtype == torch.float32
        assert (here @ here).dtype == torch.bfloat16


def test_a_nested_context_replaces_the_outer_one(device: str) -> None:
    x = make(device, torch.float32, 4, 4)
    with torch.autocast(device, dtype=torch.float16):
        with torch.autocast(device, enabled=False):
            assert (x @ x).dtype == torch.float32
            assert not torch.is_autocast_enabled(device)
        with torch.autocast(device, dtype=torch.bfloat16):
            assert (x @ x).dtype == torch.bfloat16
        assert (x @ x).dtype == torch.float16
    assert (x @ x).dtype == torch.float32


def test_an_unsupported_dtype_warns_and_casts_nothing(device: str) -> None:
    x = make(device, torch.float32, 4, 4)
    with pytest.warns(UserWarning, match="not supported"), torch.autocast(device, dtype=torch.float64):
        assert (x @ x).dtype == torch.float32


def test_a_weight_is_cast_once_in_a_context(device: str) -> None:
    x = make(device, torch.float32, 4, 4)
    w = make(device, torch.float32, 4, 4).requires_grad_()
    for cache_enabled in (True, False):
        w.grad = None
        with torch.autocast(device, dtype=torch.bfloat16, cache_enabled=cache_enabled):
            (x.mm(w) + x.mm(w)).float().sum().backward()
        assert w.grad is not None
        assert w.grad.dtype == torch.float32
        torch.testing.assert_close(w.grad.cpu(), 2 * (x.cpu().T @ torch.ones(4, 4)), atol=0.05, rtol=0.02)


def test_functions_of_the_module_fill_in_the_device(device: str, device_module: ModuleType) -> None:
    x = make(device, torch.float32, 4, 4)
    with device_module.amp.autocast(dtype=torch.float16):
        assert (x @ x).dtype == torch.float16

    @device_module.amp.autocast(dtype=torch.bfloat16)
    def product(a: torch.Tensor) -> torch.Tensor:
        return a @ a

    assert product(x).dtype == torch.bfloat16
    scaler = device_module.amp.GradScaler(init_scale=4.0)
    assert isinstance(scaler, torch.amp.GradScaler)
    assert scaler.is_enabled()
    assert scaler.scale(x.sum()).device.type == device
    assert scaler.get_scale() == 4.0


def test_custom_functions_cast_their_inputs(device: str, device_module: ModuleType) -> None:
    class Product(torch.autograd.Function):
        @staticmethod
        @device_module.amp.custom_fwd(cast_inputs=torch.float32)
        def forward(ctx: torch.autograd.function.FunctionCtx, a: torch.Tensor) -> torch.Tensor:
            assert not torch.is_autocast_enabled(device)
            ctx.save_for_backward(a)
            return a @ a

        @staticmethod
        @device_module.amp.custom_bwd
        def backward(ctx: torch.autograd.function.FunctionCtx, grad: torch.Tensor) -> torch.Tensor:
            (a,) = ctx.saved_tensors
            return grad @ a.T + a.T @ grad

    x = make(device, torch.float16, 4, 4).requires_grad_()
    with torch.autocast(device, dtype=torch.float16):
        out = Product.apply(x)
    assert out.dtype == torch.float32
    out.sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize("dtype", HALF)
def test_custom_operators_cast_their_inputs(dtype: torch.dtype, device: str) -> None:
    """``register_autocast`` casts inputs to its own dtype whenever autocast is on, whatever autocast's dtype."""

    @torch.library.custom_op("amp_tests::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    try:
        torch.library.register_autocast("amp_tests::double", device, dtype)
        x = make(device, torch.float32, 4, 4)
        assert torch.equal(double(x).cpu(), x.cpu() * 2)
        with torch.autocast(device):
            result = double(x)
        assert torch.equal(result.cpu(), x.cpu().to(dtype) * 2)
        assert result.dtype == dtype
        with torch.autocast("cpu"):
            assert double(x).dtype == torch.float32
    finally:
        double._lib._destroy()


@pytest.mark.parametrize("value", [2.0, math.inf, math.nan])
@pytest.mark.parametrize("dtype", [*HALF, torch.float32])
def test_gradients_are_unscaled_in_one_operator(dtype: torch.dtype, value: float, device: str) -> None:
    gradients = [torch.full((5,), 4.0, dtype=dtype), torch.tensor([8.0, value], dtype=dtype)]
    results = []
    for where in ("cpu", device):
        moved = [gradient.clone().to(where) for gradient in gradients]
        found, inverse = torch.zeros(1, device=where), torch.full((1,), 0.25, device=where)
        torch._amp_foreach_non_finite_check_and_unscale_(moved, found, inverse)
        results.append([x.cpu() for x in (*moved, found)])
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=0, equal_nan=True)
    assert results[1][-1].item() == float(not math.isfinite(value))
    assert torch.equal(results[1][0], torch.ones(5, dtype=dtype))


@pytest.mark.parametrize("skipped", [False, True])
def test_fused_optimizers_unscale_their_gradients(skipped: bool, device: str) -> None:
    """The scaler passes the scale and a flag for infinities to fused optimizers, so the host does not wait for the flag."""
    results = []
    for where in ("cpu", device):
        w = torch.ones(4, device=where, requires_grad=True)
        optimizer = torch.optim.AdamW([w], lr=0.5, fused=True)
        scaler = torch.amp.GradScaler(where, init_scale=16.0, growth_interval=100)
        slope = torch.tensor([1.0, -2.0, math.inf if skipped else 3.0, 4.0], device=where)
        scaler.scale((w * slope).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        results.append((w.detach().cpu(), scaler.get_scale()))
    torch.testing.assert_close(results[1], results[0])
    assert torch.equal(results[1][0], torch.ones(4)) == skipped
    assert results[1][1] == (8.0 if skipped else 16.0)


def test_scaler_skips_steps_with_infinite_gradients(device: str) -> None:
    w = torch.ones(3, device=device, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=1.0)
    scaler = torch.amp.GradScaler(device, init_scale=8.0, growth_interval=1)
    scaler.scale((w * torch.tensor([1.0, float("inf"), 1.0], device=device)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(w.detach().cpu(), torch.ones(3))
    assert scaler.get_scale() == 4.0
    optimizer.zero_grad()
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    assert torch.equal(w.grad.cpu(), torch.ones(3))
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(w.detach().cpu(), torch.zeros(3))
    assert scaler.get_scale() == 8.0
    restored = torch.amp.GradScaler(device)
    restored.load_state_dict(scaler.state_dict())
    assert restored.get_scale() == 8.0


def test_training_in_mixed_precision_follows_the_cpu(device: str) -> None:
    def losses(where: str) -> list[float]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 4))
        x, y = torch.randn(64, 8), torch.randint(0, 4, (64,))
        model, x, y = model.to(where), x.to(where), y.to(where)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        scaler = torch.amp.GradScaler(where)
        result = []
        for _ in range(20):
            optimizer.zero_grad()
            with torch.autocast(where, dtype=torch.bfloat16):
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            result.append(loss.item())
        return result

    there, here = losses(device), losses("cpu")
    assert there[-1] < 0.8 * there[0]
    assert there == pytest.approx(here, rel=0.05)
