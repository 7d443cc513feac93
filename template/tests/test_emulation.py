"""CPU kernels that run on device memory: who owns the memory, which tensors return, and that CPU tensors stay as they are."""

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest
import torch
from compare import check_same
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

pytestmark = pytest.mark.needs("emulation")

MiB = 1 << 20


@pytest.fixture(autouse=True)
def _no_garbage_collection() -> Iterator[None]:
    """Exceptions of earlier tests keep tensors in reference cycles. Freeing these would change the counts of memory."""
    gc.disable()
    yield
    gc.enable()


# Memory

RESULTS: dict[str, Callable[[Tensor], Any]] = {
    "unboxed": lambda x: x + 1,
    "boxed": lambda x: torch.erfinv(x),
    "native": lambda x: F.leaky_relu(x),
    "copy": lambda x: x.clone(),
    "matmul": lambda x: x @ x,
    "convolution": lambda x: F.conv2d(x[None, None], torch.ones(1, 1, 1, 1, device=x.device)),
}


@pytest.mark.parametrize("function", RESULTS.values(), ids=RESULTS)
def test_results_are_device_memory(function: Callable[[Tensor], Any], device: str, device_module: ModuleType) -> None:
    x = torch.rand(512, 512, device=device)
    before = device_module.memory_allocated()
    result = function(x)
    assert device_module.memory_allocated() - before == MiB
    result.resize_(0).untyped_storage().resize_(0)
    assert device_module.memory_allocated() == before
    result = function(x)
    del result
    assert device_module.memory_allocated() == before


def test_several_results_are_accounted_one_by_one(device: str, device_module: ModuleType) -> None:
    x = torch.rand(256, 256, device=device)
    before = device_module.memory_allocated()
    values, indices = torch.sort(x)
    assert device_module.memory_allocated() - before == values.nbytes + indices.nbytes
    del values
    assert device_module.memory_allocated() - before == indices.nbytes
    del indices
    assert device_module.memory_allocated() == before


def test_scratch_memory_is_given_back(device: str, device_module: ModuleType) -> None:
    x = torch.rand(128, 128, device=device)
    layer = nn.LSTM(16, 16).to(device)
    functions: list[Callable[[], Any]] = [
        lambda: torch.linalg.svdvals(x),
        lambda: torch.linalg.solve(x + torch.eye(128, device=device), x),
        lambda: torch.fft.fft2(x),
        lambda: F.conv2d(x.view(1, 4, 64, 64), x.view(-1)[:432].view(12, 4, 3, 3)),
        lambda: layer(x.view(64, 16, 16))[0].sum().backward(),
        lambda: torch.topk(x, 3),
        lambda: F.interpolate(x[None, None], scale_factor=2, mode="bicubic"),
    ]
    for function in functions:
        function()
        layer.zero_grad()
        gc.collect()
        before = device_module.memory_allocated()
        function()
        layer.zero_grad()
        gc.collect()
        assert device_module.memory_allocated() == before


def empty_by_kernel(device: str, nbytes: int) -> Tensor:
    """Return device memory that a CPU kernel of PyTorch allocates and does not write."""
    return torch._empty_affine_quantized([nbytes], scale=1.0, zero_point=0, dtype=torch.quint8, device=device)


def test_running_out_of_memory_within_a_kernel_raises(device: str, device_module: ModuleType) -> None:
    _, total = device_module.mem_get_info()
    x = torch.ones(1, device=device)
    before = device_module.memory_allocated()
    with pytest.raises(torch.OutOfMemoryError):
        empty_by_kernel(device, 2 * total)
    with pytest.raises(torch.OutOfMemoryError):
        torch.erfinv(x.expand(total))
    assert device_module.memory_allocated() == before
    assert (x + 1).item() == 2


def test_the_cache_is_given_up_within_a_kernel(device: str, device_module: ModuleType) -> None:
    _, total = device_module.mem_get_info()
    torch.empty(total // 5 * 3, dtype=torch.uint8, device=device)
    assert device_module.memory_reserved() >= total // 5 * 3
    assert empty_by_kernel(device, total // 5 * 4).nbytes == total // 5 * 4
    device_module.empty_cache()


# The CPU's own allocator


def test_cpu_tensors_stay_ordinary_after_emulation(device: str, device_module: ModuleType) -> None:
    torch.linalg.inv(torch.eye(3, device=device)) + 1
    before = device_module.memory_allocated()
    x = torch.ones(1000)
    x.resize_(100_000).fill_(2)
    shared = torch.arange(10.0).share_memory_()
    assert shared.is_shared()
    assert shared.sum() == 45
    assert x.numpy().sum() == 200_000
    assert torch.from_numpy(x.numpy()).data_ptr() == x.data_ptr()
    assert torch.frombuffer(bytearray(4), dtype=torch.int32).item() == 0
    assert (x @ x).device.type == "cpu"
    assert device_module.memory_allocated() == before


def test_cpu_and_device_kernels_alternate(device: str) -> None:
    host, there = torch.zeros(100), torch.zeros(100, device=device)
    for n in range(50):
        host, there = (host + n).sin(), (there + n).sin()
    torch.testing.assert_close(there.cpu(), host)


def test_half_precision_convolution_and_linear_are_those_of_the_cpu(device: str) -> None:
    x, weight = torch.randn(2, 8, 12, 12, dtype=torch.bfloat16), torch.randn(16, 8, 3, 3, dtype=torch.bfloat16)
    check_same(F.conv2d, x, weight, device=device)
    check_same(F.linear, x, torch.randn(5, 12, dtype=torch.bfloat16), device=device)


# Any operator with a CPU kernel


def test_result_may_be_a_view(define: Any, device: str) -> None:
    first = define("first(Tensor(a) x) -> Tensor(a)", lambda x: x[0].t())
    x = torch.arange(12.0, device=device).view(2, 2, 3)
    y = first(x)
    assert (y.device, y.shape, y.stride(), y.data_ptr()) == (x.device, (3, 2), (1, 3), x.data_ptr())
    y.fill_(7)
    assert x.sum().item() == 6 * 7 + 51
    base = x.data_ptr()
    del x
    assert y.data_ptr() == base
    assert y.sum().item() == 42


def test_result_may_be_the_argument(define: Any, device: str) -> None:
    same = define("same(Tensor(a) x) -> Tensor(a)", lambda x: x)
    x = torch.ones(3, device=device)
    assert same(x) is x


def test_result_may_be_lazily_conjugated(define: Any, device: str) -> None:
    conjugated = define("conjugated(Tensor(a) x) -> Tensor(a)", lambda x: x.conj())
    imaginary = define("imaginary(Tensor(a) x) -> Tensor(a)", lambda x: x.conj().imag)
    x = torch.tensor([1 + 2j, 3 - 1j], device=device)
    assert conjugated(x).tolist() == [1 - 2j, 3 + 1j]
    assert imaginary(x).tolist() == [-2, 1]


def test_result_may_be_a_constant_of_the_host(define: Any, device: str) -> None:
    constant = torch.arange(6.0).view(2, 3).t()
    given = define("constant(Tensor x) -> Tensor", lambda x: constant)
    y = given(torch.ones(1, device=device))
    assert (y.device.type, y.stride()) == (device, (1, 3))
    y.zero_()
    assert constant.sum() == 15


def test_lists_options_and_numbers_reach_the_kernel(define: Any, device: str) -> None:
    def kernel(xs: list[Tensor], y: Tensor | None, z: Tensor | None, n: int) -> Any:
        assert z is None
        assert y is not None
        return [x * n for x in xs], y + len(xs), n + 1, None

    mixed = define("mixed(Tensor[] xs, Tensor? y, Tensor? z, int n) -> (Tensor[], Tensor, int, Tensor?)", kernel)
    xs = [torch.ones(2, device=device), torch.ones(3, device=device)]
    products, total, number, nothing = mixed(xs, xs[0], None, 3)
    assert [p.tolist() for p in products] == [[3, 3], [3, 3, 3]]
    assert {p.device.type for p in products} == {device}
    assert (total.tolist(), number, nothing) == ([3, 3], 4, None)


def test_written_arguments_return_as_the_same_tensors(define: Any, device: str) -> None:
    grow = define("grow_(Tensor(a!) x, int n) -> Tensor(a!)", lambda x, n: x.resize_(n).fill_(n))
    both = define(
        "both_(Tensor(a!) x, Tensor(b!) y) -> (Tensor(b!), Tensor(a!))",
        lambda x, y: (y.add_(1), x.sub_(1)),
    )
    fill = define("fill_(Tensor(a!)[] xs, int n) -> ()", lambda xs, n: [x.fill_(n) for x in xs][:0] or None)
    x = torch.zeros(2, device=device)
    assert grow(x, 1000) is x
    assert x.shape == (1000,)
    assert torch.equal(x.cpu(), torch.full((1000,), 1000.0))
    y = torch.zeros(3, device=device)
    results = both(x, y)
    assert results[0] is y
    assert results[1] is x
    assert (x[0].item(), y[0].item()) == (999, 1)
    fill([x, y[1:]], 5)
    assert (x.unique().tolist(), y.tolist()) == ([5], [1, 5, 5])


def test_grown_memory_is_the_devices(define: Any, device: str, device_module: ModuleType) -> None:
    grow = define("grow2_(Tensor(a!) x, int n) -> Tensor(a!)", lambda x, n: x.resize_(n).fill_(n))
    before = device_module.memory_allocated()
    x = torch.zeros(2, device=device)
    view = x[1:]
    grow(x, MiB)
    assert device_module.memory_allocated() - before == 4 * MiB
    assert view.item() == MiB
    del x, view
    assert device_module.memory_allocated() == before


def test_kernels_can_call_operators_of_device_and_cpu(define: Any, device: str) -> None:
    def kernel(x: Tensor) -> Tensor:
        other = torch.ones(3, device=device) * 2
        assert other.device.type == device
        scale = torch.tensor([1.0, 2.0, 3.0]).sum()
        inverse: Tensor = torch.linalg.inv(x @ x.t() + torch.eye(len(x)))
        return inverse * scale

    nested = define("nested(Tensor x) -> Tensor", kernel)
    x = torch.randn(4, 4)
    expected = torch.linalg.inv(x @ x.t() + torch.eye(4)) * 6
    torch.testing.assert_close(nested(x.to(device)).cpu(), expected)


# Kernels that raise

FAILURES: dict[str, Callable[[Tensor], Any]] = {
    "cholesky": lambda x: torch.linalg.cholesky(-torch.eye(4, device=x.device)),
    "inverse": lambda x: torch.linalg.inv(torch.zeros(4, 4, device=x.device)),
    "index": lambda x: x[torch.tensor([100], device=x.device)],
    "gather": lambda x: x.gather(0, torch.full((1, 4), 9, device=x.device)),
    "embedding": lambda x: F.embedding(torch.tensor([9], device=x.device), x),
    "nll_loss": lambda x: F.nll_loss(x, torch.full((4,), 9, device=x.device)),
    "bincount": lambda x: torch.bincount(-torch.arange(4, device=x.device)),
    "multinomial": lambda x: torch.multinomial(-x, 1),
    "shapes": lambda x: x + x[:, :3],
    "matmul": lambda x: x @ x[:3],
    "out": lambda x: torch.add(x, x, out=torch.empty(0, dtype=torch.int64, device=x.device)),
    "dtype": lambda x: torch.linalg.inv(x.long()),
    "convolution": lambda x: F.conv2d(x[None, None], x[None, None, None]),
    "native": lambda x: F.leaky_relu(x.long()),
    "shape of a dropout": lambda x: F.dropout(x, 2.0),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_failed_call_leaves_content_and_memory(
    failure: Callable[[Tensor], Any], device: str, device_module: ModuleType
) -> None:
    x = torch.rand(4, 4, device=device) + torch.eye(4, device=device)
    content = x.cpu()
    before = device_module.memory_allocated()
    with pytest.raises((RuntimeError, IndexError, ValueError)) as caught:
        failure(x)
    with pytest.raises(type(caught.value)):
        failure(content)
    del caught
    assert device_module.memory_allocated() == before
    assert torch.equal(x.cpu(), content)
    host = torch.zeros(3)
    assert host.numpy().sum() == 0
    torch.testing.assert_close((torch.linalg.inv(x) @ x).cpu(), torch.eye(4), rtol=1e-3, atol=1e-4)


def test_a_python_kernel_that_raises_frees_its_memory(define: Any, device: str, device_module: ModuleType) -> None:
    def kernel(x: Tensor) -> Tensor:
        scratch = x * 2
        raise LookupError(f"{scratch.shape}")

    fail = define("fail(Tensor x) -> Tensor", kernel)
    x = torch.ones(MiB, device=device)
    before = device_module.memory_allocated()
    with pytest.raises(LookupError, match="1048576"):
        fail(x)
    assert device_module.memory_allocated() == before
    assert torch.ones(2).numpy().sum() == 2
    assert (x + 1).sum().item() == 2 * MiB


def test_an_exception_in_backward_reaches_the_caller(device: str) -> None:
    class Raising(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            raise LookupError("on purpose")

    x = torch.ones(3, device=device, requires_grad=True)
    with pytest.raises(LookupError, match="on purpose"):
        Raising.apply(x).sum().backward()  # type: ignore[no-untyped-call]
    (x * 3).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3, 3, 3]


# Threads and devices


def work(place: Any, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(32, 32, generator=generator).to(place).requires_grad_()
    y = x
    for _ in range(20):
        y = (y @ x).tanh() + torch.linalg.solve(x.detach() + 40 * torch.eye(32, device=place), y)
        y = F.layer_norm(y, (32,))[torch.arange(31, -1, -1, device=place)]
    y.square().sum().backward()
    assert x.grad is not None
    return x.grad.cpu()


def test_threads_give_the_values_of_one_thread(
    device: str, second_device: torch.device, device_module: ModuleType
) -> None:
    def on_a_stream(seed: int) -> Tensor:
        with device_module.stream(torch.Stream(device)):
            return work(device, seed)

    # Each place is held against itself: so many steps make much of the last digit, which a kernel need not share.
    expected, host = [work(device, seed) for seed in range(4)], [work("cpu", seed) for seed in range(4)]
    gc.collect()
    before = device_module.memory_allocated()
    with ThreadPoolExecutor(3) as pool:
        results = [
            pool.map(lambda seed: work(device, seed), range(4)),
            pool.map(lambda seed: work(second_device, seed), range(4)),
            pool.map(on_a_stream, range(4)),
            pool.map(lambda seed: work("cpu", seed), range(4)),
        ]
    for kind, alone in zip(results, [expected, expected, expected, host], strict=True):
        for ours, theirs in zip(kind, alone, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)
    gc.collect()
    assert device_module.memory_allocated() == before


def test_kernels_may_use_several_threads(device: str) -> None:
    count = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        x = torch.randn(400_000, requires_grad=True)
        check_same(lambda x: [x.sort().values, x.sin() + x, x.view(400, 1000).softmax(1).sum(0)], x, device=device)
        check_same(F.conv2d, torch.randn(4, 8, 32, 32), torch.randn(8, 8, 3, 3), device=device)
    finally:
        torch.set_num_threads(count)


def test_operators_run_where_their_operands_are(
    device: str,
    second_device: torch.device,
    device_module: ModuleType,
) -> None:
    x = torch.rand(64, 64, device=second_device)
    before = device_module.memory_allocated(0), device_module.memory_allocated(1)
    results = [x + 1, torch.erfinv(x), torch.linalg.inv(x), F.leaky_relu(x), torch.rand_like(x), x @ x]
    assert {result.device for result in results} == {second_device}
    assert device_module.memory_allocated(0) == before[0]
    assert device_module.memory_allocated(1) - before[1] == len(results) * x.nbytes
    assert device_module.current_device() == 0
