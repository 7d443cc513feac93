"""``usage()`` of operators without a native kernel: the number of calls, their time, and the operands of the first call."""

import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch

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


def test_same_operators_and_calls_as_the_counts(operators: ModuleType, device: str) -> None:
    x = torch.rand(4, 4, device=device, requires_grad=True)
    torch.linalg.det(x.softmax(0) @ x).backward()
    counts = operators.fallback_counts()
    usage = operators.usage()
    assert list(usage) == list(counts)
    assert {name: used["calls"] for name, used in usage.items()} == counts
    assert all(0 < used["timed_calls"] <= used["calls"] and used["seconds"] > 0 for used in usage.values())


@pytest.mark.parametrize("policy", ["emulate", "cpu"])
def test_the_first_call_keeps_its_operands(policy: str, operators: ModuleType, device: str) -> None:
    x, y = torch.rand(2, 3, device=device), torch.ones(3, dtype=torch.int64, device=device)
    operators.reset_fallback_counts()
    with operators.fallback_policy(policy):
        torch.mul(x, y)
        torch.mul(x[:1].double(), 2.0)
        torch.cat([x, x[1:]])
        torch.linalg.slogdet(x @ x.T)
        torch.nn.functional.layer_norm(x, (3,), weight=x[0])
    usage = operators.usage()
    assert usage["aten::mul.Tensor"]["first_call"] == [
        {"argument": "self", "dtype": torch.float32, "shape": (2, 3)},
        {"argument": "other", "dtype": torch.int64, "shape": (3,)},
    ]
    assert set(usage["aten::mul.Tensor"]["dtypes"]) == {torch.float32, torch.int64, torch.float64}
    assert usage["aten::cat"]["first_call"] == [
        {"argument": "tensors", "dtype": torch.float32, "shape": (2, 3)},
        {"argument": "tensors", "dtype": torch.float32, "shape": (1, 3)},
    ]
    assert usage["aten::_linalg_slogdet"]["first_call"] == [{"argument": "A", "dtype": torch.float32, "shape": (2, 2)}]
    assert [tensor["argument"] for tensor in usage["aten::native_layer_norm"]["first_call"]] == ["input", "weight"]
    assert all(used["omitted"] == 0 for used in usage.values())


def test_later_calls_do_not_change_the_first(operators: ModuleType, device: str) -> None:
    first = torch.rand(2, 3, device=device)
    for _ in range(2):
        operators.reset_fallback_counts()
        torch.erfinv(first)
        torch.erfinv(torch.rand(7, device=device, dtype=torch.float64))
        used = operators.usage()["aten::erfinv"]
        assert used["first_call"] == [{"argument": "self", "dtype": first.dtype, "shape": tuple(first.shape)}]
        assert used["dtypes"] == [torch.float32, torch.float64]
        first = torch.rand(1, dtype=torch.float32, device=device)


def test_long_lists_are_cut(operators: ModuleType, device: str) -> None:
    tensors = [torch.ones(i, device=device) for i in range(40)]
    torch.cat(tensors)
    used = operators.usage()["aten::cat"]
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
    torch.tril_indices(3, 3, device=device)
    used = operators.usage()["aten::tril_indices"]
    assert (used["first_call"], used["omitted"]) == ([], 0)


# Time

PAUSE = 0.004


def slow(x: torch.Tensor) -> torch.Tensor:
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


@pytest.mark.parametrize("name", ["add.Tensor", "erfinv"], ids=["unboxed", "boxed"])
def test_some_of_many_calls_are_timed(name: str, operators: ModuleType, device: str) -> None:
    x = torch.full((2,), 0.5, device=device)
    function = {"add.Tensor": lambda: x + x, "erfinv": lambda: torch.erfinv(x)}[name]
    operators.reset_fallback_counts()
    for _ in range(6416):
        function()
    used = operators.usage()[f"aten::{name}"]
    assert used["calls"] == 6416
    assert 66 <= used["timed_calls"] <= 166, "16, and 100 on average"
    assert used["seconds"] > 0


def test_the_first_calls_and_some_later_ones_are_timed(operators: ModuleType, device: str, define: Define) -> None:
    """Later calls are chosen at irregular distances, because a regular distance could match a period of the program."""
    name = "usage_tests::watched"
    counted: list[int] = []

    def kernel(x: torch.Tensor) -> torch.Tensor:
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


def test_refused_calls_take_no_time(operators: ModuleType, device: str) -> None:
    x = torch.full((2,), 0.5, device=device)
    operators.reset_fallback_counts()
    with operators.fallback_policy("error"):
        for _ in range(3):
            with pytest.raises(NotImplementedError):
                torch.erfinv(x)
    used = operators.usage()["aten::erfinv"]
    assert (used["calls"], used["timed_calls"], used["seconds"]) == (3, 0, 0)
    assert used["first_call"] == [{"argument": "self", "dtype": torch.float32, "shape": (2,)}]


def test_failing_calls_are_kept_too(operators: ModuleType, device: str) -> None:
    x = torch.ones(2, 3, device=device)
    operators.reset_fallback_counts()
    with pytest.raises(RuntimeError):
        torch.mm(x, x)
    used = operators.usage()["aten::mm"]
    assert (used["calls"], used["timed_calls"]) == (1, 1)


def test_calls_of_all_threads_are_counted(operators: ModuleType, device: str) -> None:
    x = torch.ones(2, device=device)
    operators.reset_fallback_counts()

    def work() -> None:
        for _ in range(500):
            torch.erf(x)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        operators.usage()
    for thread in threads:
        thread.join()
    used = operators.usage()["aten::erf"]
    assert used["calls"] == 1500
    assert used["seconds"] > 0
