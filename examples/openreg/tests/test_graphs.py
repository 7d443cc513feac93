"""Graphs: a capture records work without running it, and each replay() runs the work."""

import gc
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from conftest import Define
from torch import nn

pytestmark = pytest.mark.needs("graphs")


@pytest.fixture(autouse=True)
def _idle(device_module: ModuleType) -> Iterator[None]:
    yield
    device_module.synchronize()


def capture(**options: object) -> tuple[torch.accelerator.Graph, torch.Stream]:
    return torch.accelerator.Graph(**options), torch.Stream()


def test_nothing_runs_before_the_replay(device: str) -> None:
    x = torch.zeros(2000, device=device)
    graph, stream = capture()
    with stream, graph:
        x += 1
    assert torch.equal(x.cpu(), torch.zeros(2000))
    for n in (1, 2, 3):
        graph.replay()
        assert torch.equal(x.cpu(), torch.full((2000,), float(n)))


def test_a_capture_ends_on_the_stream_that_it_began_on(device: str) -> None:
    graph, stream = capture()
    with stream:
        graph.capture_begin()
        with torch.Stream(device), pytest.raises(RuntimeError, match="the stream that it began on"):
            graph.capture_end()
        graph.capture_end()
    graph.replay()


def test_a_replay_computes_from_the_present_inputs(device: str) -> None:
    x = torch.randn(32, 16, device=device)
    weight = torch.randn(8, 16, device=device)
    graph, stream = capture()
    with stream, graph:
        hidden = torch.nn.functional.linear(x, weight).relu()
        result = torch.softmax(hidden, -1).sum(0)
    for _ in range(3):
        fresh = torch.randn(32, 16)
        x.copy_(fresh)
        graph.replay()
        expected = torch.softmax(torch.nn.functional.linear(fresh, weight.cpu()).relu(), -1).sum(0)
        torch.testing.assert_close(result.cpu(), expected)


def test_a_replay_runs_native_kernels_copies_and_fills(device: str) -> None:
    x = torch.randn(100, device=device)
    out = torch.full((100,), 7.0, device=device)
    halves = torch.zeros(50, device=device)
    graph, stream = capture()
    with stream, graph:
        positive = x.abs()
        leaky = torch.nn.functional.leaky_relu(x, 0.1)
        out.zero_()
        out.add_(positive)
        clone = leaky.clone()
        halves.copy_(out[::2])
        as_double = clone.to(torch.float64)
    assert torch.equal(out.cpu(), torch.full((100,), 7.0))
    for _ in range(2):
        fresh = torch.randn(100)
        x.copy_(fresh)
        graph.replay()
        assert torch.equal(out.cpu(), fresh.abs())
        assert torch.equal(halves.cpu(), fresh.abs()[::2])
        torch.testing.assert_close(as_double.cpu(), torch.nn.functional.leaky_relu(fresh, 0.1).double())


def test_lists_and_several_results_are_computed_again(device: str) -> None:
    x = torch.randn(6, 4, device=device)
    graph, stream = capture()
    with stream, graph:
        values, indices = x.sort(0)
        parts = torch.cat([values, x])
        split = torch.unbind(parts)
        sums = torch._foreach_add([values, x], 1.0)
        torch._foreach_mul_([parts], 2.0)
    fresh = torch.randn(6, 4)
    x.copy_(fresh)
    graph.replay()
    expected = fresh.sort(0)
    assert torch.equal(values.cpu(), expected.values)
    assert torch.equal(indices.cpu(), expected.indices)
    assert torch.equal(split[7].cpu(), fresh[1] * 2)
    assert torch.equal(sums[1].cpu(), fresh + 1)


def test_out_arguments_get_their_size(device: str) -> None:
    x = torch.randn(5, device=device)
    graph, stream = capture()
    with stream, graph:
        out = torch.empty(0, device=device)
        torch.exp(x, out=out)
    assert out.shape == (5,)
    graph.replay()
    torch.testing.assert_close(out.cpu(), x.cpu().exp())


def test_a_training_step_learns_as_on_the_cpu(device: str) -> None:
    torch.manual_seed(0)
    reference = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).to(device)
    model.load_state_dict(reference.state_dict())
    x, y = torch.zeros(32, 8, device=device), torch.zeros(32, 1, device=device)

    def step(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter -= 0.05 * parameter.grad
                parameter.grad.zero_()
        return loss

    for parameter in [*model.parameters(), *reference.parameters()]:
        parameter.grad = torch.zeros_like(parameter)
    graph, stream = capture()
    with stream, graph:
        loss = step(model, x, y)
    for _ in range(5):
        data, target = torch.randn(32, 8), torch.randn(32, 1)
        x.copy_(data)
        y.copy_(target)
        graph.replay()
        expected = step(reference, data, target)
        torch.testing.assert_close(loss.cpu(), expected)
    for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours.cpu(), theirs)


def test_random_numbers_differ_between_replays(device: str) -> None:
    graph, stream = capture()
    with stream, graph:
        x = torch.rand(1000, device=device)
    graph.replay()
    first = x.cpu()
    graph.replay()
    second = x.cpu()
    assert not torch.equal(first, second)
    assert 0.4 < first.mean() < 0.6
    torch.manual_seed(3)
    graph.replay()
    again = x.cpu()
    torch.manual_seed(3)
    assert torch.equal(torch.rand(1000, device=device).cpu(), again)


def test_a_capture_includes_streams_that_fork_and_join(device: str) -> None:
    x = torch.ones(100, device=device)
    graph, stream = capture()
    other = torch.Stream()
    with stream, graph:
        a = x + 1
        other.wait_stream(stream)
        with other:
            b = a * 10
        c = a * 2
        stream.wait_stream(other)
        d = b + c
    x.fill_(4)
    graph.replay()
    assert torch.equal(d.cpu(), torch.full((100,), 60.0))


def test_a_replay_runs_in_the_order_of_the_current_stream(device: str) -> None:
    x = torch.zeros(100_000, device=device)
    graph, stream = capture()
    with stream, graph:
        x += 1
    with torch.Stream(device):
        for _ in range(20):
            x.mul_(2)
            graph.replay()
        value = x.cpu()
    assert torch.equal(value, torch.full_like(value, float(2**20 - 1)))


def test_memory_of_the_graph_is_not_reused_outside(device: str) -> None:
    x = torch.ones(1000, device=device)
    graph, stream = capture()
    with stream, graph:
        y = x + 1
        del y
        z = x + 2
    others = [torch.zeros(1000, device=device) for _ in range(50)]
    graph.replay()
    assert torch.equal(z.cpu(), torch.full((1000,), 3.0))
    assert all(not other.any() for other in others)


def test_two_graphs_can_share_a_pool(device: str) -> None:
    x = torch.ones(10, device=device)
    first, stream = capture()
    with stream, first:
        a = x + 1
    second = torch.accelerator.Graph(pool=first.pool())
    with stream, second:
        b = a * 2
    assert second.pool() == first.pool()
    x.fill_(5)
    first.replay()
    second.replay()
    assert torch.equal(b.cpu(), torch.full((10,), 12.0))


def test_memory_goes_back_after_reset(device: str, device_module: ModuleType) -> None:
    gc.collect()
    device_module.empty_cache()
    before = device_module.memory_reserved()
    x = torch.ones(8 << 20, device=device)
    graph, stream = capture()
    with stream, graph:
        y = x * 2
    graph.replay()
    del x, y
    graph.reset()
    del graph
    gc.collect()
    device_module.empty_cache()
    assert device_module.memory_reserved() == before


def test_a_graph_can_be_captured_again_after_reset(device: str) -> None:
    x = torch.ones(10, device=device)
    graph, stream = capture()
    with stream, graph:
        x += 1
    with pytest.raises(RuntimeError, match="reset"), stream:
        graph.capture_begin()
    graph.reset()
    with stream, graph:
        x *= 3
    graph.replay()
    assert torch.equal(x.cpu(), torch.full((10,), 3.0))


@pytest.mark.needs("pinned_memory")
def test_a_replay_copies_from_pinned_memory_again(device: str) -> None:
    before = torch.zeros(1000).pin_memory()
    x = torch.zeros(1000, device=device)
    graph, stream = capture()
    with stream, graph:
        x.copy_(before, non_blocking=True)
        within = torch.zeros(1000).pin_memory()
        within.copy_(x * 2, non_blocking=True)
    for n in (1.0, 2.0):
        before.fill_(n)
        graph.replay()
        torch.accelerator.synchronize()
        assert torch.equal(within, torch.full((1000,), 2 * n))
    del before, within
    for _ in range(5):
        assert torch.ones(1000).pin_memory().sum() == 1000


def test_a_kept_graph_can_be_dumped_and_instantiated(device: str, tmp_path: Path) -> None:
    x = torch.ones(10, device=device)
    graph, stream = capture(keep_graph=True)
    graph.enable_debug_mode()
    with stream, graph:
        x += 1
        x.zero_()
    graph.instantiate()
    graph.replay()
    graph.debug_dump(str(tmp_path / "graph.dot"))
    text = (tmp_path / "graph.dot").read_text()
    assert text.startswith("digraph")
    assert "->" in text


@pytest.mark.parametrize("how", ["item", "synchronize", "cpu", "nonzero"])
def test_a_capture_refuses_calls_that_wait_for_values(how: str, device: str, device_module: ModuleType) -> None:
    x = torch.ones(10, device=device)
    graph, stream = capture()

    def work() -> None:
        with stream, graph:
            y = x + 1
            if how == "item":
                y.sum().item()
            elif how == "synchronize":
                stream.synchronize()
            elif how == "cpu":
                y.cpu()
            else:
                y.nonzero()

    with pytest.raises((RuntimeError, NotImplementedError), match=r"captur"):
        work()
    # The stream, and the device, are as usable as before.
    with stream:
        assert torch.equal((x + 1).cpu(), torch.full((10,), 2.0))
    again, _ = capture()
    with stream, again:
        x += 1
    again.replay()
    assert torch.equal(x.cpu(), torch.full((10,), 2.0))


def test_replay_needs_a_capture() -> None:
    with pytest.raises(RuntimeError, match="is empty"):
        torch.accelerator.Graph().replay()
    with pytest.raises(RuntimeError, match="capture_begin"):
        torch.accelerator.Graph().capture_end()


def test_a_device_captures_one_graph_at_a_time(device: str) -> None:
    x = torch.ones(4, device=device)
    graph, stream = capture()
    with stream, graph:
        with pytest.raises(RuntimeError, match="another graph is being captured"):
            torch.accelerator.Graph().capture_begin()
        x += 1
    graph.replay()
    assert torch.equal(x.cpu(), torch.full((4,), 2.0))


def test_a_capture_that_cannot_begin_leaves_nothing(device: str, second_device: torch.device) -> None:
    graph, stream = capture()
    with stream, graph:
        x = torch.ones(4, device=device)
        other = torch.Stream(device=second_device)
        with other, pytest.raises(RuntimeError, match="already recording"):
            torch.accelerator.Graph(pool=graph.pool()).capture_begin()
    graph.replay()
    assert torch.equal(x.cpu(), torch.ones(4))

    y = torch.ones(4, device=second_device)
    later = torch.accelerator.Graph()
    with torch.Stream(device=second_device), later:
        y += 1
    later.replay()
    assert torch.equal(y.cpu(), torch.full((4,), 2.0))


# What a replay reads, and what it is too late for


def test_only_streams_of_the_capture_are_capturing(device: str) -> None:
    graph, stream = capture()
    other = torch.Stream()
    assert not stream.is_capturing()
    with stream, graph:
        assert stream.is_capturing()
        assert torch.accelerator.current_stream().is_capturing()
        assert not other.is_capturing()
        other.wait_stream(stream)
        assert other.is_capturing()
        stream.wait_stream(other)
    assert not stream.is_capturing()
    assert not other.is_capturing()
    graph.replay()
    assert not torch.accelerator.current_stream().is_capturing()


HOST_OPERANDS: dict[str, tuple[torch.Tensor, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]] = {
    "product": (torch.tensor(2.0), lambda x, h: x * h),
    "in place": (torch.tensor(2.0), lambda x, h: x.clone().add_(h)),
    "out": (torch.tensor(2.0), lambda x, h: torch.mul(x, h, out=torch.empty(0, device=x.device))),
    "fill": (torch.tensor(2.0), lambda x, h: x.clone().fill_(h)),
    "where": (torch.tensor(2.0), lambda x, h: torch.where(x > 1, x, h)),
    "list": (torch.tensor(2.0), lambda x, h: torch._foreach_mul([x, x], h)[1]),
    "complex": (torch.tensor(2 + 1j).conj(), lambda x, h: x * h),
    "index": (torch.tensor([2, 0, 2]), lambda x, h: x[h]),
    "index that is written": (torch.tensor([2, 0]), lambda x, h: x.clone().index_put_((h,), x[:2] * 10)),
    "mask": (torch.tensor([True, False, False, True]), lambda x, h: x.clone().index_put_((h,), x[:1])),
}


@pytest.mark.parametrize(("operand", "call"), HOST_OPERANDS.values(), ids=HOST_OPERANDS)
def test_host_operands_are_read_at_the_capture(
    operand: torch.Tensor, call: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], device: str
) -> None:
    host = operand.clone()
    x = torch.zeros(4, device=device)
    graph, stream = capture()
    with stream, graph:
        y = call(x, host)
    host.fill_(1)
    data = torch.arange(4.0)
    x.copy_(data)
    graph.replay()
    assert torch.equal(y.cpu(), call(data, operand))


def ones(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype, device=torch.accelerator.current_accelerator())


# What to do, and what a part of the error says.
UNFIT: dict[str, tuple[Callable[[], object], str]] = {
    "shape": (lambda: ones(3).add_(ones(4)), "broadcast"),
    "shape of out": (lambda: torch.mul(ones(3), ones(4), out=ones(3)), "broadcast"),
    "shape in a list": (lambda: torch._foreach_add_([ones(3), ones(2)], [ones(3), ones(4)]), "broadcast"),
    "length of a list": (lambda: torch._foreach_mul_([ones(3)], [ones(3), ones(3)]), "same number of tensors"),
    "shape of matrices": (lambda: ones(2, 2).addmm_(ones(2, 3), ones(4, 2)), "reduction dim"),
    "shape of a mask": (lambda: ones(3).masked_fill_(ones(4, dtype=torch.bool), 1.0), "broadcast"),
    "shape of an index": (lambda: ones(3).index_add_(0, ones(2, dtype=torch.long), ones(3)), "[Nn]umber of indices"),
    "shape of a copy": (lambda: ones(3).copy_(ones(4)), "expanded size"),
    "dimension": (lambda: ones(3).cumsum_(4), "out of range"),
    "dtype": (lambda: ones(3, dtype=torch.long).add_(1.5), "in-place"),
    "dtype of out": (lambda: torch.add(ones(3), 1.5, out=ones(3, dtype=torch.long)), "cast"),
    "dtype in a list": (lambda: torch._foreach_add_([ones(3, dtype=torch.long)], 1.5), "in-place"),
    "memory that is written twice": (lambda: ones(1).expand(3).add_(1), "clone"),
    "memory that is read and written": (lambda: (lambda x: x[1:].mul_(x[:-1]))(ones(4)), "clone"),
    "memory that is read, and written by out": (lambda: (lambda x: torch.exp(x[1:], out=x[:-1]))(ones(4)), "clone"),
}


@pytest.mark.parametrize(("call", "reason"), UNFIT.values(), ids=UNFIT)
def test_wrong_operands_raise_at_the_capture(call: Callable[[], object], reason: str, device: str) -> None:
    with pytest.raises((RuntimeError, IndexError)) as eager:
        call()
    graph, stream = capture()
    # A kernel in the project's sources checks its operands itself, and says the same as outside of a capture.
    with stream, graph, pytest.raises(eager.type, match=f"{reason}|{re.escape(str(eager.value))}"):
        call()
    # The capture goes on without it.
    graph.reset()
    x = torch.ones(3, device=device)
    with stream, graph:
        x.add_(1)
        with pytest.raises(eager.type):
            call()
    graph.replay()
    assert x.tolist() == [2.0] * 3


def test_an_in_place_operator_needs_no_meta_kernel(device: str) -> None:
    """The capture records such an operator without checking its operands."""
    library = torch.library.Library("graph_tests", "FRAGMENT")
    library.define("double_(Tensor(a!) x) -> Tensor(a!)")
    library.impl("double_", lambda x: x.mul_(2), "CPU")
    x = torch.ones(3, device=device)
    graph, stream = capture()
    with stream, graph:
        torch.ops.graph_tests.double_(x)
    for n in (2.0, 4.0):
        graph.replay()
        assert x.tolist() == [n] * 3


def test_a_replay_changes_no_version(define: Define, device: str) -> None:
    """Not even where the kernel itself reports its write to autograd, which does not know of replays."""

    def kernel(x: torch.Tensor) -> None:
        x.mul_(2)
        torch.autograd.graph.increment_version(x)

    double = define("double_(Tensor(a!) x) -> ()", kernel)
    x, y = torch.ones(3, device=device), torch.ones(3, device=device)
    graph, stream = capture()
    with stream, graph:
        double(x)
        y.add_(1)
        torch._foreach_add_([y], 1)
    versions = x._version, y._version
    for _ in range(2):
        graph.replay()
    assert (x.tolist(), y.tolist()) == ([4, 4, 4], [5, 5, 5])
    assert (x._version, y._version) == versions


@pytest.mark.needs("pinned_memory")
@pytest.mark.parametrize("how", ["to the device", "converted", "from the device", "torch.tensor", "0-dimensional"])
def test_copies_of_pageable_memory_are_refused(how: str, device: str) -> None:
    x = torch.ones(3, device=device)
    host = torch.full((3,), 2.0)
    copies: dict[str, Callable[[], object]] = {
        "to the device": lambda: x.copy_(host, non_blocking=True),
        "converted": lambda: x.copy_(host.double().pin_memory(), non_blocking=True),
        "from the device": lambda: host.copy_(x, non_blocking=True),
        "torch.tensor": lambda: torch.tensor([1.0, 2.0], device=device),
        "0-dimensional": lambda: x[0].copy_(host[0]),
    }
    graph, stream = capture()
    with pytest.raises(RuntimeError, match="pageable"), stream, graph:
        copies[how]()
    assert x.tolist() == [1.0] * 3
    assert host.tolist() == [2.0] * 3


def test_an_optimizer_step_asks_no_stream_outside_of_captures(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parameter = torch.ones(3, device=device, requires_grad=True)
    parameter.grad = torch.ones_like(parameter)
    optimizer = torch.optim.Adam([parameter], lr=0.1)
    monkeypatch.setattr(torch.accelerator, "current_stream", lambda *_: pytest.fail("the step asked for a stream"))
    optimizer.step()


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.Adamax, torch.optim.RAdam])
def test_an_optimizer_that_counts_on_the_host_is_refused(kind: type[torch.optim.Optimizer], device: str) -> None:
    parameter = torch.ones(3, device=device, requires_grad=True)
    parameter.grad = torch.ones_like(parameter)
    optimizer = kind([parameter], lr=0.1)
    optimizer.step()
    before = parameter.tolist()
    graph, stream = capture()
    with stream, graph, pytest.raises(RuntimeError, match="capturable=True"):
        optimizer.step()
    assert parameter.tolist() == before
    optimizer.step()
    assert parameter.tolist() != before


@pytest.mark.parametrize("how", ["capturable", "fused", "without a count"])
def test_replayed_optimizer_steps_are_the_cpus(how: str, device: str) -> None:
    def optimizer(parameter: torch.Tensor, **kwargs: Any) -> torch.optim.Optimizer:
        if how == "without a count":
            return torch.optim.SGD([parameter], lr=0.1, momentum=0.5)
        return torch.optim.Adam([parameter], lr=0.1, **kwargs)

    ours = torch.ones(3, device=device, requires_grad=True)
    theirs = torch.ones(3, requires_grad=True)
    ours.grad, theirs.grad = torch.zeros(3, device=device), torch.zeros(3)
    options = {} if how == "without a count" else {how: True}
    captured, reference = optimizer(ours, **options), optimizer(theirs)
    captured.step()
    reference.step()
    graph, stream = capture()
    with stream, graph:
        captured.step()
    for n in range(4):
        gradient = torch.arange(3.0) + n
        ours.grad.copy_(gradient)
        theirs.grad.copy_(gradient)
        graph.replay()
        reference.step()
        torch.testing.assert_close(ours.detach().cpu(), theirs.detach())
