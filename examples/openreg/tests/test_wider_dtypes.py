"""If CUDA supports a dtype and the CPU kernel does not, the device computes in the wider dtype and rounds."""

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest
import torch
from abilities import EMULATE
from compare import gradients, seed
from conftest import RunPython
from opinfo import (
    accelerator_backward_dtypes,
    accelerator_dtypes,
    find,
    on_accelerators,
    op_db,
    place,
    run,
    samples,
    widened,
    wider,
)
from torch import Tensor
from torch.nn import functional
from torch.utils._pytree import tree_leaves

C32, C64, HALF = torch.complex32, torch.complex64, torch.float16

PARTS_ROUNDED = "nn.functional.conv"
"""Complex convolutions are three real ones, each of which is rounded. Here, as on CUDA, their results cancel."""
OVERFLOWING = ("logaddexp", "pow", "polygamma")
"""Autograd computes their gradients by several operators, and what lies between is beyond the range of half precision."""


def pairs(dtypes: Callable[[Any], set[torch.dtype]], without: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Parametrize a test by the operators of PyTorch's database and the dtypes that only accelerators take."""
    found = [
        (on_accelerators(op), dtype)
        for op in sorted(op_db, key=lambda op: op.full_name)
        if not op.full_name.startswith(without)
        for dtype in sorted(dtypes(op), key=str)
    ]
    return pytest.mark.parametrize(
        ("op", "dtype"), found, ids=[f"{op.full_name}-{str(dtype).removeprefix('torch.')}" for op, dtype in found]
    )


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "ComplexHalf support is experimental"
        yield


@pytest.fixture
def operators(device_module: ModuleType) -> Iterator[ModuleType]:
    device_module.operators.reset_fallback_counts()
    yield device_module.operators
    device_module.operators.reset_fallback_counts()


def close(actual: Tensor, expected: Tensor, rtol: float = 2e-3, atol: float = 2e-3) -> None:
    """Compare tensors of the same dtype, also of dtypes that the CPU cannot compare."""
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    actual = actual.cpu()
    if actual.dtype in (HALF, torch.bfloat16, C32):
        actual, expected = actual.to(wider(actual.dtype)), expected.to(wider(actual.dtype))
    if actual.dtype.is_floating_point or actual.dtype.is_complex:
        torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=True)
    else:
        assert torch.equal(actual, expected)


def rounded(expected: Any, dtype: torch.dtype) -> Any:
    """Round a result of the wider dtype to this dtype."""
    if not isinstance(expected, Tensor):
        return expected
    if dtype == C32 and expected.dtype == torch.float32:
        return expected.to(HALF)
    if dtype == HALF and expected.dtype == C64:
        return expected.to(C32)
    return expected.to(dtype) if expected.dtype == wider(dtype) else expected


# By PyTorch's own samples


@pairs(accelerator_dtypes)
def test_values_are_those_of_the_wider_dtype(op: Any, dtype: torch.dtype, device: str) -> None:
    tolerance = {torch.bfloat16: 1.6e-2, C32: 1e-3}.get(dtype, 1e-3)
    if op.full_name.startswith(PARTS_ROUNDED):
        tolerance = 1e-1
    for sample in samples(op, dtype, 8):
        actual = run(op, sample, device)
        expected = run(op, widened(sample, dtype), "cpu")
        for ours, theirs in zip(actual, expected, strict=True):
            if isinstance(theirs, Tensor):
                close(ours, rounded(theirs, dtype), tolerance, tolerance)
                assert ours.stride() == theirs.stride()
            else:
                assert ours == theirs


@pairs(accelerator_backward_dtypes, OVERFLOWING)
def test_gradients_are_those_of_the_wider_dtype(op: Any, dtype: torch.dtype, device: str) -> None:
    tolerance = 1e-1 if op.full_name.startswith(PARTS_ROUNDED) else 3e-2 if dtype == torch.bfloat16 else 1e-2
    for sample in samples(op, dtype, 4, wants_grad=True):
        actual = run(op, sample, device, wants_grad=True)
        expected = run(op, widened(sample, dtype), "cpu", wants_grad=True)
        for ours, theirs in zip(actual, expected, strict=True):
            if isinstance(theirs, Tensor):
                close(ours, rounded(theirs, dtype), tolerance, tolerance)
            else:
                assert ours == theirs


@pytest.mark.parametrize(
    "name", ["div.no_rounding_mode", "fft.fft", "histc", "lerp", "nn.functional.avg_pool3d", "sum"]
)
def test_dtype_is_that_of_the_meta_kernel(name: str, device: str) -> None:
    (op,) = find(name)
    for dtype in accelerator_dtypes(op):
        for sample in samples(op, dtype, 3):
            given, args, kwargs = place(sample, "meta")
            expected = tree_leaves(op(given, *args, **kwargs))
            assert [x.dtype for x in run(op, sample, device)] == [x.dtype for x in expected]


# By hand


@pytest.mark.parametrize("policy", [EMULATE, "cpu"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_histc_counts_integers(dtype: torch.dtype, policy: str, device: str, operators: ModuleType) -> None:
    """A mixture of experts counts the tokens of each expert by histc of integers."""
    experts = torch.tensor([0, 3, 3, 1, 7, 7, 7, 2], dtype=dtype, device=device)
    with operators.fallback_policy(policy):
        for _ in range(2):
            counts = torch.histc(experts, bins=8, min=0, max=7)
            assert counts.dtype == dtype
            assert counts.tolist() == [1, 1, 1, 2, 0, 0, 0, 3]
        out = torch.empty(0, dtype=dtype, device=device)
        assert torch.histc(experts, bins=4, min=0, max=7, out=out) is out
    assert out.tolist() == [2, 3, 0, 3]


def test_counts_wrap_around_in_a_narrow_dtype(device: str) -> None:
    assert torch.histc(torch.zeros(300, dtype=torch.uint8, device=device), bins=1, min=0, max=1).tolist() == [300 - 256]
    assert torch.histc(torch.zeros(200, dtype=torch.int8, device=device), bins=1, min=0, max=1).tolist() == [200 - 256]


@pytest.mark.parametrize("policy", [EMULATE, "cpu"])
def test_pooling_in_half_precision_is_that_of_float32_rounded(policy: str, device: str, operators: ModuleType) -> None:
    x = torch.randn(2, 3, 6, 6, 6).half()
    with operators.fallback_policy(policy):
        ours = x.to(device).requires_grad_()
        y = functional.avg_pool3d(ours, 2)
        (gradient,) = gradients(y, [ours])
    theirs = x.float().requires_grad_()
    expected = functional.avg_pool3d(theirs, 2)
    close(y.detach(), expected.detach().half())
    close(gradient, gradients(expected, [theirs])[0].half())


@pytest.mark.parametrize("dtype", [HALF, torch.bfloat16])
def test_losses_in_half_precision_are_those_of_float32_rounded(dtype: torch.dtype, device: str) -> None:
    x, target = torch.randn(4, 5).to(dtype), torch.tensor([1, 0, 4, 2])
    ours, theirs = x.to(device).requires_grad_(), x.float().requires_grad_()
    loss = functional.multi_margin_loss(ours, target.to(device))
    expected = functional.multi_margin_loss(theirs, target)
    close(loss.detach(), expected.detach().to(dtype), 1e-2, 1e-2)
    close(gradients(loss, [ours])[0], gradients(expected, [theirs])[0].to(dtype), 1e-2, 1e-2)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "irfftn"])
def test_fourier_transforms_take_half_precision(name: str, device: str) -> None:
    function = getattr(torch.fft, name)
    for dtype in [HALF, C32]:
        if dtype == C32 and name in ("rfft", "ihfft"):
            continue  # of real numbers
        x = torch.randn(4, 8, dtype=wider(dtype)).to(dtype)
        expected = function(x.to(wider(dtype)))
        actual = function(x.to(device))
        close(actual, expected.to({C64: C32, torch.float32: HALF}[expected.dtype]), 5e-3, 5e-3)
        with torch.inference_mode():
            assert torch.equal(function(x.to(device)).cpu().view(HALF), actual.cpu().view(HALF))
        out = torch.empty(0, dtype=actual.dtype, device=device)
        assert function(x.to(device), out=out) is out
        assert torch.equal(out.cpu().view(HALF), actual.cpu().view(HALF))


def test_transforms_refuse_what_cuda_refuses(device: str) -> None:
    x = torch.randn(8, device=device)
    with pytest.raises(RuntimeError, match="Unsupported dtype BFloat16"):
        torch.fft.fft(x.bfloat16())
    with pytest.raises(RuntimeError, match="expects a complex output tensor"):
        torch.fft.fft(x.half(), out=torch.empty(0, dtype=HALF, device=device))


def test_a_fourier_transform_in_half_precision_has_a_gradient(device: str) -> None:
    x = torch.randn(16).half()
    ours, theirs = x.to(device).requires_grad_(), x.float().requires_grad_()
    y, expected = torch.fft.rfft(ours).abs().sum(), torch.fft.rfft(theirs).abs().sum()
    close(y.detach(), expected.detach().half(), 1e-2, 1e-2)
    close(gradients(y, [ours])[0], gradients(expected, [theirs])[0].half(), 1e-2, 1e-2)


@pytest.mark.parametrize("dtype", [C32, C64, torch.complex128])
def test_nansum_of_complex_numbers_skips_nan(dtype: torch.dtype, device: str) -> None:
    nan = float("nan")
    x = torch.tensor([[1 + 2j, complex(nan, 1), 3], [complex(0, nan), 4j, 5]], dtype=torch.complex128).to(dtype)
    ours = x.to(device)
    assert torch.nansum(ours).to(C64).item() == 9 + 6j
    assert torch.nansum(ours, 1).to(C64).tolist() == [4 + 2j, 5 + 4j]
    assert torch.nansum(ours, 0, keepdim=True).dtype == dtype
    assert torch.nanmean(ours, 1).to(C64).tolist() == [2 + 1j, 2.5 + 2j]
    out = torch.empty(0, dtype=dtype, device=device)
    assert torch.nansum(ours, 1, out=out) is out
    assert out.to(C64).tolist() == [4 + 2j, 5 + 4j]
    if dtype != C32:
        (gradient,) = gradients(torch.nansum(ours.requires_grad_()), [ours])
        assert gradient.cpu().tolist() == [[1, 0, 1], [0, 1, 1]]


def complex_half(*shape: int) -> tuple[Tensor, Tensor]:
    """Return random numbers, and the same in the wider dtype."""
    x = torch.randn(*shape, dtype=C64).to(C32)
    return x, x.to(C64)


@pytest.mark.parametrize("policy", [EMULATE, "cpu"])
def test_direct_calls_compute_in_the_wider_dtype(policy: str, device: str, operators: ModuleType) -> None:
    """These operators are emulated without boxing: functional, in place, and with out."""
    x, x_wide = complex_half(4, 4)
    y, y_wide = complex_half(4, 4)
    with operators.fallback_policy(policy):
        ours, other = x.to(device), y.to(device)
        close(ours / other, (x_wide / y_wide).to(C32), 1e-2, 1e-2)
        close(ours.exp(), x_wide.exp().to(C32), 1e-2, 1e-2)
        close(ours @ other, (x_wide @ y_wide).to(C32), 1e-2, 1e-2)
        before = ours.data_ptr()
        assert ours.div_(other) is ours
        assert ours.data_ptr() == before
        close(ours, (x_wide / y_wide).to(C32), 1e-2, 1e-2)
        out = torch.empty(0, dtype=C32, device=device)
        assert torch.mm(x.to(device), other, out=out) is out
        close(out, (x_wide @ y_wide).to(C32), 1e-2, 1e-2)


@pytest.mark.parametrize("policy", [EMULATE, "cpu"])
def test_lists_compute_in_the_wider_dtype(policy: str, device: str, operators: ModuleType) -> None:
    values = [complex_half(3), complex_half(2, 2)]
    with operators.fallback_policy(policy):
        ours = [x.to(device) for x, _ in values]
        for actual, (_, x_wide) in zip(torch._foreach_sin(ours), values, strict=True):
            close(actual, x_wide.sin().to(C32), 1e-2, 1e-2)
        torch._foreach_sin_(ours)
        for actual, (_, x_wide) in zip(ours, values, strict=True):
            close(actual, x_wide.sin().to(C32), 1e-2, 1e-2)


@pytest.mark.parametrize("policy", [EMULATE, "cpu"])
def test_nothing_is_written_twice(policy: str, device: str, operators: ModuleType) -> None:
    """These kernels write a part of the result before they reach the operand whose dtype they refuse."""
    x, x_wide = complex_half(3)
    real = torch.randn(3)
    with operators.fallback_policy(policy):
        ours = [real.to(device), x.to(device)]
        torch._foreach_sin_(ours)
        close(ours[0], real.sin())
        close(ours[1], x_wide.sin().to(C32), 1e-2, 1e-2)

        a, a_wide = complex_half(3, 3)
        b, b_wide = complex_half(2, 3, 3)
        ours = a.to(device)
        ours.addbmm_(b.to(device), b.to(device), beta=2)
        close(ours, torch.addbmm(a_wide, b_wide, b_wide, beta=2).to(C32), 2e-2, 2e-2)


def test_only_overlapping_views_of_one_memory_are_refused(device: str) -> None:
    x, x_wide = complex_half(8)
    ours = x.to(device)
    ours[:4].div_(ours[4:])
    x_wide[:4].div_(x_wide[4:])
    close(ours, x_wide.to(C32), 1e-2, 1e-2)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer"):
            ours[:4].div_(ours[2:6])
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers"):
            ours[:1].expand(4).div_(ours[4:])


def test_lazy_conjugates_and_strides_are_kept(device: str) -> None:
    x, x_wide = complex_half(4, 6)
    ours = x.to(device)
    close(ours.conj().sqrt(), x_wide.conj().sqrt().to(C32), 1e-2, 1e-2)
    close(ours.mT[::2].sqrt(), x_wide.mT[::2].sqrt().to(C32), 1e-2, 1e-2)
    assert ours.mT[::2].sqrt().stride() == x_wide.mT[::2].sqrt().stride()
    ours.mT[::2].sqrt_()
    x_wide.mT[::2].sqrt_()
    close(ours, x_wide.to(C32), 1e-2, 1e-2)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_tensors_compute_in_the_wider_dtype(layout: torch.layout, device: str) -> None:
    x, x_wide = complex_half(3, 4)
    ours = x_wide.to_sparse(layout=layout).to(C32).to(device)
    for _ in range(2):
        close(ours.sin().to_dense(), x_wide.sin().to(C32), 1e-2, 1e-2)
    close(ours.sum(), x_wide.sum().to(C32), 1e-2, 1e-2)


def test_a_dtype_named_in_the_call_is_the_result_dtype(device: str) -> None:
    x = torch.randn(6)
    close(torch.cumsum(x.to(device), 0, dtype=C32), x.cumsum(0).to(C32), 1e-2, 1e-2)
    y, y_wide = complex_half(6)
    assert torch.sum(y.to(device), dtype=C64).dtype == C64
    close(torch.sum(y.to(device), dtype=C64), y_wide.sum())
    assert torch.sum(y.to(device)).dtype == C32


def test_factories_of_complex_half_have_values(device: str) -> None:
    assert torch.ones(3, dtype=C32, device=device).to(C64).tolist() == [1, 1, 1]
    assert torch.eye(2, dtype=C32, device=device).to(C64).tolist() == [[1, 0], [0, 1]]
    assert torch.linspace(0, 1, 3, dtype=C32, device=device).to(C64).tolist() == [0, 0.5, 1]
    seed(device)
    x = torch.randn(3, dtype=C32, device=device)
    assert x.dtype == C32
    assert x.to(C64).abs().sum() > 0


def test_mixed_dtypes_promote(device: str) -> None:
    x, x_wide = complex_half(4)
    y = torch.randn(4)
    assert torch.div(x.to(device), y.to(device)).dtype == C64 == torch.promote_types(C32, torch.float32)
    close(torch.div(x.to(device), y.to(device)), x_wide / y)
    assert torch.div(x.to(device), 2.0).dtype == C32
    assert torch.div(y.half().to(device), x.to(device)).dtype == C32


@pytest.mark.parametrize("name", ["div", "erfcx", "softmax", "clamp", "inv", "ctc_loss"])
def test_errors_that_no_dtype_avoids_keep_their_message(name: str, device: str) -> None:
    """The first call and later calls raise the kernel's own message."""
    x = torch.ones(2, 2, device=device)
    calls: dict[str, tuple[Callable[[], Tensor], str]] = {
        "div": (lambda: torch.div(x.to(C32), x[0, 0].expand(3).to(C32)), "must match the size"),
        "erfcx": (lambda: torch.special.erfcx(x.to(C32)), "not implemented for 'ComplexHalf'"),
        "softmax": (lambda: x.long().softmax(0), "not implemented for 'Long'"),
        "clamp": (lambda: x.to(C32).clamp(0, 1), "not supported for complex"),
        "ctc_loss": (
            lambda: functional.ctc_loss(
                x.half().view(2, 1, 2),
                x[:1].long(),
                *(torch.tensor([n], device=device) for n in (2, 1)),
                reduction="sum",
            ),
            "not implemented for 'Half'",
        ),
        "inv": (lambda: torch.linalg.inv(x.half()), "Low precision dtypes not supported. Got Half"),
    }
    call, words = calls[name]
    for _ in range(3):
        with pytest.raises(RuntimeError, match=words):
            call()


def test_wrong_dtype_of_out_is_refused_each_time(device: str) -> None:
    experts = torch.arange(4, device=device)
    for _ in range(3):
        torch.histc(experts, bins=2)
        with pytest.raises(RuntimeError):
            torch.histc(experts, bins=2, out=torch.empty(0, dtype=torch.bool, device=device))


# Counted


@pytest.mark.parametrize("policy", [EMULATE, "cpu"])
@pytest.mark.parametrize("name", ["div.Tensor", "logaddexp"], ids=["unboxed", "boxed"])
def test_calls_in_a_wider_dtype_are_counted_apart(name: str, policy: str, device: str, operators: ModuleType) -> None:
    x = complex_half(4)[0].to(device)
    function = {"div.Tensor": torch.div, "logaddexp": torch.logaddexp}[name]
    y = torch.randn(4, device=device)
    operators.reset_fallback_counts()
    with operators.fallback_policy(policy):
        for _ in range(40):
            function(x, x)
            function(y, y)
    used = operators.usage()[f"aten::{name}"]
    assert (used["calls"], used["widened_calls"]) == (80, 40)
    operators.reset_fallback_counts()
    function(y, y)
    assert operators.usage()[f"aten::{name}"]["widened_calls"] == 0


def test_second_call_does_not_try_the_first_dtype(run_python: RunPython) -> None:
    """A new process has not called the operator yet. A profiler shows which operators its CPU kernel calls."""
    code = """
        import torch, warnings
        warnings.simplefilter("ignore")
        x, y = torch.ones(2, 2, dtype=torch.complex32, device=device), torch.ones(3, 2, 2, dtype=torch.complex32, device=device)
        for _ in range(3):
            with torch.autograd.profiler.profile() as profile:
                x.addbmm(y, y)
            print([event.name for event in profile.function_events].count("aten::addmm_"))
    """
    result = run_python(dedent(code))
    assert result.returncode == 0, result.stderr
    once, again, later = map(int, result.stdout.split())
    assert once > again == later > 0


def test_threads_retry_independently(device: str) -> None:
    x, x_wide = complex_half(16)
    ours = x.to(device)
    expected = x_wide.tan().to(C32)
    with ThreadPoolExecutor(4) as pool:
        for actual in pool.map(lambda _: ours.tan(), range(40)):
            close(actual, expected, 1e-2, 1e-2)


# Graphs


@pytest.mark.needs("graphs", "emulation")
@pytest.mark.parametrize("warm", [False, True])
def test_a_graph_records_calls_in_the_wider_dtype(warm: bool, device: str, operators: ModuleType) -> None:
    """A warm operator is known to need the wider dtype; otherwise the first replay finds it out."""
    function = torch.Tensor.acos if warm else torch.Tensor.asin
    x, x_wide = complex_half(4)
    ours = x.to(device)
    with operators.fallback_policy("emulate"), torch.Stream(device):
        if warm:
            function(ours)
        graph = torch.accelerator.Graph()
        graph.capture_begin()
        y = function(ours)
        graph.capture_end()
        graph.replay()
        close(y, function(x_wide).to(C32), 1e-2, 1e-2)
        other, other_wide = complex_half(4)
        ours.copy_(other)
        graph.replay()
        close(y, function(other_wide).to(C32), 1e-2, 1e-2)
