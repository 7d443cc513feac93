"""Operators without a kernel of the device's own: how they run, by which setting, and how they are counted."""

import re
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest
import torch
from abilities import EMULATE, has
from compare import check_same
from conftest import PACKAGE, Define, RunPython, memory_in_use
from torch import Tensor, nn
from without_kernel import BINARY, UNARY, Operator, left_over, state, without_kernel

VARIABLE = f"{PACKAGE.upper()}_FALLBACK"
# What holds where nobody has chosen a policy.
DEFAULT = "emulate" if has("emulation") else "cpu"


@pytest.fixture
def operators(device_module: ModuleType) -> Iterator[ModuleType]:
    """The module ``operators`` with its counts at zero. Policies that a test sets are reset after it."""
    with device_module.operators.fallback_policy(DEFAULT):
        device_module.operators.reset_fallback_counts()
        yield device_module.operators
    device_module.operators.reset_fallback_counts()


@pytest.fixture
def unary() -> Operator:
    """A unary operator without a native kernel."""
    return without_kernel(UNARY)[0]


@pytest.fixture
def binary() -> Operator:
    """A binary operator without a native kernel."""
    return without_kernel(BINARY)[0]


POLICIES = pytest.mark.parametrize("policy", [EMULATE, "cpu"])

# Values

SELECTION: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "unboxed": lambda x, y: x + y,
    "boxed": lambda x, y: torch.linalg.slogdet(x @ y.T),
    "number on the host": lambda x, y: x * torch.tensor(2.0) + y,
    "in place": lambda x, y: x.clone().mul_(y).erfinv_().nan_to_num_(),
    "in place on a view": lambda x, y: x.clone().t()[1:].addcmul_(y.t()[1:], y.t()[1:]),
    "out": lambda x, y: torch.sub(x.detach(), y.detach(), out=torch.empty(0, device=x.device)),
    "strided out": lambda x, y: torch.sub(x.detach(), y.detach(), out=torch.empty(6, 6, device=x.device)[:, ::2].t()),
    "several results": lambda x, y: torch.linalg.svd(x @ y.T).S,
    "index": lambda x, y: x[torch.tensor([0, 2], device=x.device)] + y[torch.tensor([1, 1])],
    "list": lambda x, y: torch.cat([x, y, x]),
    "foreach": lambda x, y: torch._foreach_mul([x, y], [y, x]),
    "foreach in place": lambda x, y: torch._foreach_add_([x.detach().clone(), y.detach().clone()], 1.0),
    "view": lambda x, y: torch.ops.aten.alias(x) + y,
    "convolution": lambda x, y: nn.functional.conv1d(x[None], y[None, :, :3]),
    "attention": lambda x, y: nn.functional.scaled_dot_product_attention(x[None, None], y[None, None], y[None, None]),
    "layer_norm": lambda x, y: nn.functional.layer_norm(x, (6,), y[0]),
    "sort": lambda x, y: torch.sort(x * y),
    "factory": lambda x, y: torch.arange(6, device=x.device) * x + torch.eye(3, 6, device=x.device),
    "random": lambda x, y: torch.rand(3, 6, device=x.device) + torch.rand_like(x),
    "random in place": lambda x, y: x.detach().clone().uniform_().log_normal_(),
    "permutation": lambda x, y: torch.randperm(9, device=x.device),
    "dropout": lambda x, y: nn.functional.dropout(x, 0.5) + y,
    "random with a generator": lambda x, y: torch.randn(
        5,
        device=x.device,
        generator=torch.Generator(x.device).manual_seed(3),
    ),
    "multinomial with a generator": lambda x, y: torch.multinomial(
        x.detach().abs() + 1,
        2,
        generator=torch.Generator(x.device).manual_seed(3),
    ),
}


@pytest.mark.parametrize("policy", [EMULATE, "cpu"])
@pytest.mark.parametrize("function", SELECTION.values(), ids=SELECTION)
def test_every_policy_gives_the_values_of_the_cpu(
    function: Callable[..., Any], policy: str, operators: ModuleType, device: str
) -> None:
    x, y = torch.randn(3, 6, requires_grad=True), torch.randn(3, 6, requires_grad=True)
    with operators.fallback_policy(policy):
        check_same(function, x, y, device=device, strides=policy == "emulate")


@pytest.mark.parametrize("policy", [EMULATE, "cpu"])
def test_numbers_on_the_host_come_first(policy: str, operators: ModuleType, device: str) -> None:
    with operators.fallback_policy(policy):
        check_same(lambda x: [1 - x, torch.tensor(2.0) * x, torch.tensor(1.0) - x], torch.randn(3), device=device)


@pytest.mark.parametrize("policy", [EMULATE, "cpu"])
def test_writes_reach_the_devices_memory(policy: str, operators: ModuleType, device: str) -> None:
    with operators.fallback_policy(policy):
        x = torch.arange(12.0, device=device).view(3, 4)
        address = x.data_ptr()
        assert x.add_(1) is x
        x[:, 1].mul_(10)
        torch.exp(x[2], out=x[0])
        torch._foreach_mul_([x[1]], 2.0)
        assert x.data_ptr() == address
    expected = torch.arange(1.0, 13).view(3, 4)
    expected[:, 1] *= 10
    expected[0], expected[1] = expected[2].exp(), expected[1] * 2
    torch.testing.assert_close(x.cpu(), expected)


@pytest.mark.parametrize("policy", [EMULATE, "cpu"])
def test_host_tensors_do_not_mix(policy: str, operators: ModuleType, device: str) -> None:
    with operators.fallback_policy(policy), pytest.raises(RuntimeError):
        torch.ones(3, device=device) + torch.ones(3)


@pytest.mark.parametrize("policy", [EMULATE, "cpu"])
def test_running_statistics_reach_the_devices_memory(policy: str, operators: ModuleType, device: str) -> None:
    """Batch normalisation writes the running statistics although its schema does not declare it."""
    x = torch.randn(8, 3) + 2
    ours, theirs = nn.BatchNorm1d(3).to(device), nn.BatchNorm1d(3)
    with operators.fallback_policy(policy):
        ours(x.to(device))
    theirs(x)
    torch.testing.assert_close(ours.running_mean.cpu(), theirs.running_mean)
    torch.testing.assert_close(ours.running_var.cpu(), theirs.running_var)


@pytest.mark.parametrize("policy", [EMULATE, "cpu"])
def test_operands_on_two_devices_are_refused(
    policy: str, operators: ModuleType, device: str, second_device: torch.device
) -> None:
    x, y = torch.eye(3, device=device), torch.eye(3, device=second_device)
    with operators.fallback_policy(policy):
        for call in (lambda: x + y, lambda: torch.linalg.solve(x, y), lambda: torch.linalg.lstsq(x, y)):
            with pytest.raises(RuntimeError, match="two devices"):
                call()


@pytest.mark.needs("emulation")
def test_policy_cpu_runs_on_the_host(operators: ModuleType, device: str, device_module: ModuleType) -> None:
    x = torch.rand(256, 256, device=device)
    device_module.reset_peak_memory_stats()
    before = memory_in_use()
    torch.linalg.qr(x)
    emulated = device_module.max_memory_allocated() - before
    with operators.fallback_policy("cpu"):
        device_module.reset_peak_memory_stats()
        torch.linalg.qr(x)
    assert device_module.max_memory_allocated() - before < emulated, "scratch memory was taken from the device"


# The policy `error`


def test_error_says_what_to_do(operators: ModuleType, device: str) -> None:
    x = torch.eye(3, device=device)
    cases: list[tuple[str, Callable[[], Any]]] = [
        ("aten::add.Tensor", lambda: x + x),
        ("aten::linalg_inv_ex", lambda: torch.linalg.inv(x)),
        ("aten::erfinv_", lambda: x.erfinv_()),
        ("aten::cat", lambda: torch.cat([x, x])),
    ]
    with operators.fallback_policy("error"):
        for name, call in left_over(cases):
            with pytest.raises(NotImplementedError) as caught:
                call()
            for part in (name, device, "csrc/aten/native", "policy"):
                assert part in str(caught.value)
    assert torch.equal((x + x).cpu(), torch.eye(3) * 2)


def test_error_leaves_the_devices_own_operators_alone(operators: ModuleType, device: str) -> None:
    with operators.fallback_policy("error"):
        x = torch.zeros(2, 3, device=device)
        x.copy_(torch.tensor([[-1.0, 2, -3], [4, -5, 6]]))
        y = x.t()[1:].clone()
        assert x[1, 2].item() == 6
        assert torch.equal(y.zero_().cpu(), torch.zeros(2, 2))
        assert x.to(torch.device(device, 0)) is x
        assert x.resize_(1, 2).shape == (1, 2)
    assert operators.fallback_counts() == {}


@pytest.mark.needs("emulation")
def test_error_leaves_functions_of_the_host_alone_where_the_device_runs_them(
    operators: ModuleType, device: str
) -> None:
    x = torch.tensor([[-1.0, 2, -3], [4, -5, 6]])
    there = x.to(device)
    with operators.fallback_policy("error"):
        for name, call in (("aten::abs", torch.abs), ("aten::leaky_relu", nn.functional.leaky_relu)):
            if state(name) == "native":
                assert torch.equal(call(there).cpu(), call(x))
    assert operators.fallback_counts() == {}


# Settings


def test_one_operator_has_its_own_policy(operators: ModuleType, device: str) -> None:
    refused, other = without_kernel(UNARY, 2)
    x = torch.full((2,), 0.5).to(device)
    expected = refused(x)
    for name in (refused.name, refused.name.removeprefix("aten::"), getattr(torch.ops.aten, refused.function).default):
        operators.set_operator_policy(name, "error")
        try:
            other(x)
            with pytest.raises(NotImplementedError, match=re.escape(refused.name)):
                refused(x)
        finally:
            operators.set_operator_policy(name, None)
        assert torch.equal(refused(x).cpu(), expected.cpu())


def test_an_operators_own_policy_wins(operators: ModuleType, device: str, binary: Operator) -> None:
    on_host, *others = without_kernel(UNARY, 3)
    host = torch.full((2,), 0.5)
    x = host.to(device)
    operators.set_operator_policy(binary.name, DEFAULT)
    operators.set_operator_policy(on_host.name, "cpu")
    try:
        with operators.fallback_policy("error"):
            torch.testing.assert_close(binary(x, x).cpu(), binary(host, host))
            torch.testing.assert_close(on_host(x).cpu(), on_host(host))
            for other in others:
                with pytest.raises(NotImplementedError, match=re.escape(other.name)):
                    other(x)
    finally:
        operators.set_operator_policy(binary.name, None)
        operators.set_operator_policy(on_host.name, None)


def test_unknown_policies_are_refused(operators: ModuleType) -> None:
    for wrong in ("", "Emulate", "cuda"):
        with pytest.raises(ValueError, match="emulate"):
            operators.set_fallback_policy(wrong)
        with pytest.raises(ValueError, match="emulate"):
            operators.set_operator_policy("aten::add.Tensor", wrong)
    assert operators.get_fallback_policy() == DEFAULT


def test_policies_hold_for_all_threads(operators: ModuleType, device: str, unary: Operator) -> None:
    errors = []
    x = torch.ones(2).to(device)

    def work() -> None:
        try:
            unary(x)
        except NotImplementedError as error:
            errors.append(error)

    with operators.fallback_policy("error"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(errors) == 1


def test_backward_follows_the_policy(operators: ModuleType, device: str, unary: Operator) -> None:
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return unary(grad)

    x = torch.ones(2, device=device, requires_grad=True)
    y = Same.apply(x)  # type: ignore[no-untyped-call]
    with operators.fallback_policy("error"), pytest.raises(NotImplementedError, match=re.escape(unary.name)):
        y.backward(torch.ones(2).to(device))


def test_warnings_come_once_for_each_operator(operators: ModuleType, device: str, binary: Operator) -> None:
    unary, quiet = without_kernel(UNARY, 2)
    x = torch.full((2,), 0.5, device=device)
    for policy, place in {DEFAULT: "device memory" if has("emulation") else "host", "cpu": "host"}.items():
        operators.reset_fallback_counts()
        with operators.fallback_policy(policy, warn=True):
            calls: list[Callable[[], Tensor]] = [lambda: binary(x, x), lambda: unary(x)]
            for call in calls:
                with pytest.warns(UserWarning, match=place) as caught:
                    for _ in range(3):
                        call()
                assert len(caught) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            quiet(x)


# Counts


def test_calls_are_counted_by_operator(operators: ModuleType, device: str, binary: Operator) -> None:
    assert operators.fallback_counts() == {}
    often, once = without_kernel(UNARY, 2)
    x = torch.full((2, 2), 0.5, device=device)
    operators.reset_fallback_counts()
    once(x)
    for _ in range(3):
        binary(x, x)
    often(x)
    often(x)
    x.view(4).zero_()
    expected = {binary.name: 3, often.name: 2, once.name: 1}
    assert operators.fallback_counts() == expected
    assert list(operators.fallback_counts()) == list(expected)
    operators.reset_fallback_counts()
    assert operators.fallback_counts() == {}
    once(x)
    assert operators.fallback_counts() == {once.name: 1}


def test_counts_do_not_depend_on_the_policy(operators: ModuleType, device: str, unary: Operator) -> None:
    def work() -> dict[str, int]:
        operators.reset_fallback_counts()
        x = torch.rand(4, 4, device=device, requires_grad=True)
        torch.linalg.det(x.softmax(0) @ x).backward()
        for _ in range(3):
            unary(x.detach())
        counts: dict[str, int] = operators.fallback_counts()
        return counts

    emulated = work()
    with operators.fallback_policy("cpu"):
        assert work() == emulated
    assert emulated[unary.name] >= 3


def test_counts_of_threads_add_up(operators: ModuleType, device: str, binary: Operator, unary: Operator) -> None:
    def work() -> None:
        x = torch.ones(2, device=device).abs()
        for _ in range(200):
            unary(binary(x, x))

    operators.reset_fallback_counts()
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = operators.fallback_counts()
    assert (counts[binary.name], counts[unary.name]) == (600, 600)


def test_operators_of_other_libraries_are_counted(operators: ModuleType, device: str) -> None:
    library = torch.library.Library("fallback_tests", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    operators.reset_fallback_counts()
    result = torch.ops.fallback_tests.twice(torch.ones(2, device=device))
    assert operators.fallback_counts()["fallback_tests::twice"] == 1
    assert result.tolist() == [2, 2]
    library._destroy()


def test_operators_without_a_cpu_kernel_are_refused(operators: ModuleType, device: str) -> None:
    library = torch.library.Library("fallback_tests", "FRAGMENT")
    library.define("nowhere(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match=r"fallback_tests::nowhere.*csrc/aten/native"):
        torch.ops.fallback_tests.nowhere(torch.ones(2, device=device))
    library._destroy()


@POLICIES
def test_a_tensor_on_another_device_is_refused(
    policy: str, operators: ModuleType, device: str, second_device: torch.device, define: Define
) -> None:
    """A CPU kernel that is told to make its result on the host would make it on the device, and the host would read that."""
    like = define("like(Tensor x, Device? device) -> Tensor", lambda x, device: torch.zeros_like(x, device=device))
    x = torch.ones(2, device=device)
    with operators.fallback_policy(policy):
        assert like(x, None).device == like(x, x.device).device == x.device
        with pytest.raises(NotImplementedError, match="cannot make a tensor on device cpu"):
            like(x, torch.device("cpu"))
        with pytest.raises(RuntimeError, match="two devices"):
            like(x, second_device)


def test_operators_can_be_defined_anew(operators: ModuleType, device: str) -> None:
    def define(schema: str, kernel: Callable[..., Any]) -> Any:
        library = torch.library.Library("fallback_tests", "FRAGMENT")
        library.define(schema)
        library.impl("anew", kernel, "CPU")
        return library

    x, y = torch.ones(2, device=device), torch.full((2,), 3.0, device=device)
    for _ in range(3):
        library = define("anew(Tensor x) -> Tensor", lambda x: x * 2)
        assert torch.ops.fallback_tests.anew(x).tolist() == [2, 2]
        library._destroy()
        library = define("anew(Tensor x, Tensor(a!) y) -> Tensor(a!)", lambda x, y: y.add_(x))
        assert torch.ops.fallback_tests.anew(x, y) is y
        library._destroy()
    assert y.tolist() == [6, 6]
    assert operators.fallback_counts()["fallback_tests::anew"] == 6


# The environment variable

SHOW = """
import warnings, torch
operators = torch.get_device_module(device).operators
x = torch.ones(2).to(device)
print(operators.get_fallback_policy())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    try:
        getattr(torch, function)(x)
    except NotImplementedError:
        print("refused")
print(len(caught))
"""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", [DEFAULT, "0"]),
        (DEFAULT, [DEFAULT, "0"]),
        ("cpu", ["cpu", "0"]),
        ("error", ["error", "refused", "0"]),
        ("warn", [DEFAULT, "1"]),
        ("cpu,warn", ["cpu", "1"]),
    ],
)
def test_the_environment_sets_policy_and_warnings(
    value: str, expected: list[str], run_python: RunPython, unary: Operator
) -> None:
    done = run_python(f"function = {unary.function!r}\n{SHOW}", env={VARIABLE: value})
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == expected


def test_emulation_is_refused_where_the_host_cannot_reach_device_memory(
    operators: ModuleType, run_python: RunPython
) -> None:
    if has("emulation"):
        pytest.skip("the host reaches the memory of this device")
    before = operators.get_fallback_policy()
    with pytest.raises(ValueError, match="choose `cpu`"):
        operators.set_fallback_policy("emulate")
    with pytest.raises(ValueError, match="choose `cpu`"):
        operators.set_operator_policy("aten::add.Tensor", "emulate")
    assert operators.get_fallback_policy() == before
    done = run_python("import torch", env={VARIABLE: "emulate"})
    assert done.returncode == 1
    assert "choose `cpu`" in done.stderr


# What a call writes


@POLICIES
def test_the_rest_of_a_storage_stays_when_a_view_grows(policy: str, operators: ModuleType, device: str) -> None:
    """An out argument that is a view and too small is resized, which enlarges the storage."""
    results = []
    for place in ("cpu", device):
        with operators.fallback_policy(policy), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that out is resized
            x = torch.arange(6.0, device=place)
            view = x[2:4]
            torch.cumsum(torch.ones(9, device=place), 0, out=view)
        results.append((x.tolist(), view.tolist(), x.untyped_storage().nbytes()))
    assert results[0] == results[1]


STRIDED: dict[str, Callable[[Tensor], Tensor]] = {
    "columns": lambda x: x[:, 1::2],
    "rows": lambda x: x[1:, 2:5],
    "transposed": lambda x: x.t()[::3],
    "diagonal": lambda x: x.diagonal(),
    "every other of each": lambda x: x[::2, ::2],
    "permuted": lambda x: x.view(2, 3, 8).permute(2, 0, 1)[1::2],
    "one element": lambda x: x[3, 3],
    "dense": lambda x: x.t(),
}


@POLICIES
@pytest.mark.parametrize("view", STRIDED.values(), ids=STRIDED)
def test_only_the_elements_of_a_view_are_written(
    view: Callable[[Tensor], Tensor], policy: str, operators: ModuleType, device: str
) -> None:
    results = []
    for place in ("cpu", device):
        x = torch.arange(48.0, device=place).view(6, 8)
        with operators.fallback_policy(policy):
            view(x).add_(100)
            torch.mul(view(x), 2, out=view(x))
        results.append(x.tolist())
    assert results[0] == results[1]


@POLICIES
def test_streams_write_elements_that_lie_between_each_other(policy: str, operators: ModuleType, device: str) -> None:
    x = torch.zeros(300, 200, device=device)
    torch.accelerator.synchronize()

    def add(column: int) -> None:
        with torch.Stream(device) as stream:
            for _ in range(30):
                x[:, column::2].add_(1)
            stream.synchronize()

    with operators.fallback_policy(policy):
        run_threads([lambda: add(0), lambda: add(1)])
    assert (x.min().item(), x.max().item()) == (30, 30)


@POLICIES
def test_a_call_is_one_step_to_other_threads(policy: str, operators: ModuleType, device: str) -> None:
    """On one stream a thread halves by an emulated operator and another doubles by a native kernel. No step may be lost."""
    x = torch.full((100_000,), -1.0, device=device)

    def halve() -> None:
        for _ in range(60):
            x.mul_(0.5)

    def double() -> None:
        for _ in range(60):
            nn.functional.leaky_relu_(x, 2.0)

    with operators.fallback_policy(policy):
        run_threads([halve, double])
    assert (x.min().item(), x.max().item()) == (-1, -1)


def run_threads(functions: list[Callable[[], None]]) -> None:
    with ThreadPoolExecutor(len(functions)) as pool:
        for future in [pool.submit(function) for function in functions]:
            future.result()


@pytest.mark.parametrize(("value", "autoload"), [("nonsense", "0"), ("cpu,loud", "1"), ("emulate,cpu", "0")])
def test_a_wrong_setting_in_the_environment_is_an_exception(value: str, autoload: str, run_python: RunPython) -> None:
    env = {VARIABLE: value, "TORCH_DEVICE_BACKEND_AUTOLOAD": autoload}
    done = run_python("import torch; __import__(package)", env=env)
    assert done.returncode == 1, "an exception ends Python with 1, a signal would be negative"
    assert f"{VARIABLE}={value}" in done.stderr
    assert "warn" in done.stderr
