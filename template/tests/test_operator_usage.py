"""``usage()`` of operators without a native kernel: the number of calls, their time, and the operands of the first call."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from without_kernel import UNARY, Operator, left_over, without_kernel

pytestmark = pytest.mark.needs("emulation")  # emulated calls are what is counted and timed


@pytest.fixture
def operators(device_module: ModuleType) -> Iterator[ModuleType]:
    with device_module.operators.fallback_policy("emulate"):
        device_module.operators.reset_fallback_counts()
        yield device_module.operators
    device_module.operators.reset_fallback_counts()


Define = Callable[[str, Callable[..., Any]], Any]


@pytest.fixture
def define() -> Iterator[Define]:
    """Make an operator of a schema and a CPU kernel: ``define("f(Tensor x) -> Tensor", function)``."""
    library = torch.library.Library("usage_tests", "FRAGMENT")

    def make(schema: str, kernel: Callable[..., Any]) -> Any:
        library.define(schema)
        name = schema.partition("(")[0]
        library.impl(name, kernel, "CPU")
        return getattr(torch.ops.usage_tests, name)

    yield make
    library._destroy()


@pytest.fixture
def unary() -> Operator:
    """A unary operator without a kernel."""
    return without_kernel(UNARY)[0]


def test_same_operators_and_calls_as_the_counts(operators: ModuleType, device: str, unary: Operator) -> None:
    x = torch.rand(4, 4, device=device, requires_grad=True)
    torch.linalg.det(x.softmax(0) @ x).backward()
    unary(x.detach())
    counts = operators.fallback_counts()
    usage = operators.usage()
    assert list(usage) == list(counts)
    assert {name: used["calls"] for name, used in usage.items()} == counts
    assert all(0 < used["timed_calls"] <= used["calls"] and used["seconds"] > 0 for used in usage.values())


@pytest.mark.parametrize("policy", ["emulate", "cpu"])
def test_the_first_call_keeps_its_operands(policy: str, operators: ModuleType, device: str, define: Define) -> None:
    scale = define("scale(Tensor x, Tensor y) -> Tensor", lambda x, y: x * y)
    join = define("join(Tensor[] tensors) -> Tensor", torch.cat)
    norm = define("norm(Tensor x, Tensor? weight, Tensor? bias) -> Tensor", lambda x, weight, bias: x * weight)
    x, y = torch.rand(2, 3, device=device), torch.ones(3, dtype=torch.int64, device=device)
    operators.reset_fallback_counts()
    with operators.fallback_policy(policy):
        scale(x, y)
        scale(x[:1].double(), torch.tensor(2.0))
        join([x, x[1:]])
        norm(x, x[0], None)
    usage = operators.usage()
    assert usage["usage_tests::scale"]["first_call"] == [
        {"argument": "x", "dtype": torch.float32, "shape": (2, 3)},
        {"argument": "y", "dtype": torch.int64, "shape": (3,)},
    ]
    assert set(usage["usage_tests::scale"]["dtypes"]) == {torch.float32, torch.int64, torch.float64}
    assert usage["usage_tests::join"]["first_call"] == [
        {"argument": "tensors", "dtype": torch.float32, "shape": (2, 3)},
        {"argument": "tensors", "dtype": torch.float32, "shape": (1, 3)},
    ]
    assert [tensor["argument"] for tensor in usage["usage_tests::norm"]["first_call"]] == ["x", "weight"]
    assert all(used["omitted"] == 0 for used in usage.values())


@pytest.mark.parametrize("policy", ["emulate", "cpu"])
def test_the_first_call_of_pytorchs_operators_has_the_names_of_the_schema(
    policy: str, operators: ModuleType, device: str
) -> None:
    x = torch.rand(2, 3, device=device)
    cases: list[tuple[str, Callable[[], Any], list[tuple[str, tuple[int, ...]]]]] = [
        ("aten::mul.Tensor", lambda: x * x[0], [("self", (2, 3)), ("other", (3,))]),
        ("aten::cat", lambda: torch.cat([x, x[1:]]), [("tensors", (2, 3)), ("tensors", (1, 3))]),
        ("aten::_linalg_slogdet", lambda: torch.linalg.slogdet(x @ x.T), [("A", (2, 2))]),
        (
            "aten::native_layer_norm",
            lambda: torch.nn.functional.layer_norm(x, (3,), weight=x[0]),
            [("input", (2, 3)), ("weight", (3,))],
        ),
    ]
    on_the_host = dict(left_over([(name, call) for name, call, _ in cases]))
    for name, call, expected in cases:
        if name in on_the_host:
            operators.reset_fallback_counts()
            with operators.fallback_policy(policy):
                call()
            first = operators.usage()[name]["first_call"]
            assert [(tensor["argument"], tensor["shape"]) for tensor in first] == expected


def test_later_calls_do_not_change_the_first(operators: ModuleType, device: str, unary: Operator) -> None:
    first = torch.rand(2, 3, device=device)
    for _ in range(2):
        operators.reset_fallback_counts()
        unary(first)
        unary(torch.rand(7, device=device, dtype=torch.float64))
        used = operators.usage()[unary.name]
        assert used["first_call"] == [{"argument": "self", "dtype": first.dtype, "shape": tuple(first.shape)}]
        assert used["dtypes"] == [torch.float32, torch.float64]
        first = torch.rand(1, dtype=torch.float32, device=device)


def test_long_lists_are_cut(operators: ModuleType, device: str, define: Define) -> None:
    join = define("join(Tensor[] tensors) -> Tensor", torch.cat)
    join([torch.ones(i, device=device) for i in range(40)])
    used = operators.usage()["usage_tests::join"]
    assert [tensor["shape"] for tensor in used["first_call"]] == [(i,) for i in range(16)]
    assert used["omitted"] == 24


def test_multi_part_tensors_are_described_by_their_shape(operators: ModuleType, device: str) -> None:
    operators.reset_fallback_counts()
    torch.eye(3).to_sparse().to(device).coalesce().neg()
    used = [used for used in operators.usage().values() for tensor in used["first_call"] if tensor["shape"] == (3, 3)]
    assert used
    nested = torch.nested.as_nested_tensor([torch.ones(2), torch.ones(3)]).to(device)
    operators.reset_fallback_counts()
    nested.sin()
    (tensor,) = operators.usage()["aten::sin"]["first_call"]
    assert tensor == {"argument": "self", "dtype": torch.float32, "shape": None}


def test_factories_have_no_tensors(operators: ModuleType, device: str) -> None:
    for name, call in left_over([("aten::tril_indices", lambda: torch.tril_indices(3, 3, device=device))]):
        call()
        used = operators.usage()[name]
        assert (used["first_call"], used["omitted"]) == ([], 0)


# Time

PAUSE = 0.004


def slow(x: Tensor) -> Tensor:
    time.sleep(PAUSE)
    return x.clone()


@pytest.mark.parametrize("policy", ["emulate", "cpu"])
@pytest.mark.parametrize("calls", [1, 16, 20])
def test_the_time_covers_all_calls(policy: str, calls: int, operators: ModuleType, device: str, define: Define) -> None:
    function = define("slow(Tensor x) -> Tensor", slow)
    x = torch.ones(2, device=device)
    operators.reset_fallback_counts()
    start = time.perf_counter()
    with operators.fallback_policy(policy):
        for _ in range(calls):
            function(x)
    elapsed = time.perf_counter() - start
    used = operators.usage()["usage_tests::slow"]
    assert used["timed_calls"] == (calls if policy == "cpu" else min(calls, 16))
    # Those that were not timed are taken to be like the others.
    assert calls * PAUSE <= used["seconds"] <= elapsed * calls / used["timed_calls"]


@pytest.mark.parametrize("candidates", [UNARY[:4], UNARY[4:]], ids=["unboxed", "boxed"])
def test_some_of_many_calls_are_timed(candidates: Sequence[str], operators: ModuleType, device: str) -> None:
    (function,) = without_kernel(candidates)
    x = torch.full((2,), 0.5, device=device)
    operators.reset_fallback_counts()
    for _ in range(6416):
        function(x)
    used = operators.usage()[function.name]
    assert used["calls"] == 6416
    assert 66 <= used["timed_calls"] <= 166, "16, and 100 on average"
    assert used["seconds"] > 0


def test_the_first_calls_and_some_later_ones_are_timed(operators: ModuleType, device: str, define: Define) -> None:
    """Later calls are chosen at irregular distances, because a regular distance could match a period of the program."""
    name = "usage_tests::watched"
    counted: list[int] = []

    def kernel(x: Tensor) -> Tensor:
        counted.append(operators.usage()[name]["timed_calls"])
        return x.clone()

    function = define("watched(Tensor x) -> Tensor", kernel)
    x = torch.ones(2, device=device)
    operators.reset_fallback_counts()
    for _ in range(4000):
        function(x)
    timed = [call for call in range(1, 4000) if counted[call] != counted[call - 1]]
    assert timed[:15] == list(range(1, 16))
    gaps = [after - before for before, after in zip(timed[15:], timed[16:], strict=False)]
    assert max(gaps) < 128
    assert 48 < sum(gaps) / len(gaps) < 80
    for period in (2, 4, 8, 64):
        phases = [call % period for call in timed[16:]]
        assert len(set(phases)) > min(period, len(phases)) / 2, "each call of a loop gets its turn"


def test_calls_on_the_host_are_all_timed(operators: ModuleType, device: str) -> None:
    if operators.coverage()["aten::linalg_eig"]["state"] != "cpu":
        pytest.skip("linalg_eig does not run on the host on this device")
    x = torch.eye(2, device=device)
    operators.reset_fallback_counts()
    for _ in range(40):
        torch.linalg.eig(x)
    used = operators.usage()["aten::linalg_eig"]
    assert (used["calls"], used["timed_calls"]) == (40, 40)
    assert used["first_call"] == [{"argument": "self", "dtype": torch.float32, "shape": (2, 2)}]


def test_refused_calls_take_no_time(operators: ModuleType, device: str, unary: Operator) -> None:
    x = torch.full((2,), 0.5, device=device)
    operators.reset_fallback_counts()
    with operators.fallback_policy("error"):
        for _ in range(3):
            with pytest.raises(NotImplementedError):
                unary(x)
    used = operators.usage()[unary.name]
    assert (used["calls"], used["timed_calls"], used["seconds"]) == (3, 0, 0)
    assert used["first_call"] == [{"argument": "self", "dtype": torch.float32, "shape": (2,)}]


def test_failing_calls_are_kept_too(operators: ModuleType, device: str, define: Define) -> None:
    function = define("product(Tensor x) -> Tensor", lambda x: torch.mm(x, x))
    x = torch.ones(2, 3, device=device)
    operators.reset_fallback_counts()
    with pytest.raises(RuntimeError):
        function(x)
    used = operators.usage()["usage_tests::product"]
    assert (used["calls"], used["timed_calls"]) == (1, 1)


def test_calls_of_all_threads_are_counted(operators: ModuleType, device: str, unary: Operator) -> None:
    x = torch.ones(2, device=device)
    operators.reset_fallback_counts()

    def work() -> None:
        for _ in range(500):
            unary(x)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        operators.usage()
    for thread in threads:
        thread.join()
    used = operators.usage()[unary.name]
    assert used["calls"] == 1500
    assert used["seconds"] > 0
