"""Streams: the current stream, and the order of work."""

import threading
import time
from types import ModuleType

import pytest
import torch
from busy import becomes_true, needs_queues, occupy


def test_default_stream_is_current_and_not_a_new_one(device: str, device_module: ModuleType) -> None:
    default = device_module.default_stream()
    assert device_module.current_stream() == default == torch.accelerator.current_stream()
    assert default.device == torch.device(device, 0)
    streams = [torch.Stream(device) for _ in range(100)]
    assert default not in streams
    assert streams[0] != streams[1]
    assert hash(streams[0]) == hash(torch.Stream(streams[0].stream_id, streams[0].device_index, streams[0].device_type))


def test_classes_are_those_of_core(device_module: ModuleType) -> None:
    assert device_module.Stream is torch.Stream
    assert device_module.Event is torch.Event
    assert isinstance(device_module.Stream(), torch.Stream)
    assert isinstance(device_module.stream(None), device_module.StreamContext)


@pytest.mark.parametrize("as_context", ["stream", "StreamContext", "itself"])
def test_a_context_restores_the_stream(as_context: str, device: str, device_module: ModuleType) -> None:
    default = device_module.current_stream()
    outer, inner = torch.Stream(device), torch.Stream(device)

    def context(stream: torch.Stream) -> object:
        return stream if as_context == "itself" else getattr(device_module, as_context)(stream)

    with context(outer):
        assert device_module.current_stream() == outer
        with context(inner):
            assert device_module.current_stream() == inner
        with device_module.stream(None):
            assert device_module.current_stream() == outer
        assert device_module.current_stream() == outer
    assert device_module.current_stream() == default
    with pytest.raises(ZeroDivisionError), context(outer):
        raise ZeroDivisionError
    assert device_module.current_stream() == default


def test_stream_context_changes_the_device(device_module: ModuleType, second_device: torch.device) -> None:
    stream = torch.Stream(second_device)
    before = device_module.current_stream(1)
    with device_module.stream(stream):
        assert device_module.current_device() == 1
        assert device_module.current_stream() == stream
    assert device_module.current_device() == 0
    assert device_module.current_stream(1) == before


def test_set_stream_refuses_what_is_no_stream(device: str, device_module: ModuleType) -> None:
    before = device_module.current_stream()
    stream = torch.Stream(device)
    device_module.set_stream(stream)
    assert device_module.current_stream() == stream
    device_module.set_stream(before)
    assert device_module.current_stream() == before
    for nonsense in (None, 3, device):
        with pytest.raises(TypeError):
            device_module.set_stream(nonsense)
    with pytest.raises(TypeError):
        device_module.stream(3)


def test_each_device_has_a_default_stream(device_module: ModuleType, second_device: torch.device) -> None:
    assert device_module.default_stream(0) != device_module.default_stream(1)
    assert device_module.default_stream(second_device).device == second_device
    with device_module.device(1):
        assert device_module.current_stream() == device_module.default_stream(1)
        assert torch.Stream().device == second_device


def test_work_of_a_stream_runs_in_order(device: str) -> None:
    stream = torch.Stream(device)
    with stream:
        x = torch.zeros(1000, device=device)
        for i in range(200):
            x.mul_(0.5).add_(i)
        back = x.cpu()
    expected = torch.zeros(1000)
    for i in range(200):
        expected.mul_(0.5).add_(i)
    assert torch.equal(back, expected)


def test_wait_stream_orders_work(device: str, device_module: ModuleType) -> None:
    producer, consumer = torch.Stream(device), torch.Stream(device)
    a = torch.randn(300, 300)
    there = a.to(device)
    device_module.synchronize()
    with producer:
        product = there
        for _ in range(5):
            product = (product @ there).div_(20)
    consumer.wait_stream(producer)
    with consumer:
        result = product + 1
    product.record_stream(consumer)
    consumer.synchronize()
    expected = a
    for _ in range(5):
        expected = (expected @ a).div_(20)
    torch.testing.assert_close(result.cpu(), expected + 1)


def test_work_keeps_its_order_over_many_streams(device: str, device_module: ModuleType) -> None:
    x = torch.zeros(1000, device=device)
    streams = [torch.Stream(device) for _ in range(8)]
    previous = device_module.current_stream()
    for i in range(64):
        stream = streams[i % len(streams)]
        stream.wait_stream(previous)
        with stream:
            x.mul_(2).add_(1).remainder_(1009)
        previous = stream
    device_module.current_stream().wait_stream(previous)
    assert torch.equal(x.cpu(), torch.full((1000,), float((pow(2, 64) - 1) % 1009)))


def test_work_keeps_its_order_over_devices(device: str, device_module: ModuleType, second_device: torch.device) -> None:
    here = torch.ones(1000, device=device)
    there = torch.zeros(1000, device=second_device)
    a, b = torch.Stream(device), torch.Stream(second_device)
    a.wait_stream(device_module.current_stream(0))
    b.wait_stream(device_module.current_stream(1))
    for _ in range(10):
        with a:
            here.add_(there.to(device, non_blocking=True))
        b.wait_stream(a)
        with b:
            there.copy_(here, non_blocking=True)
        a.wait_stream(b)
    device_module.synchronize(0)
    device_module.synchronize(1)
    assert torch.equal(there.cpu(), torch.full((1000,), 2.0**9))


def test_a_synchronized_stream_is_idle(device: str) -> None:
    stream = torch.Stream(device)
    assert stream.query()
    with stream:
        torch.randn(200, 200, device=device) @ torch.randn(200, 200, device=device)
    stream.synchronize()
    assert stream.query()


def test_any_priority_is_accepted(device: str) -> None:
    x = torch.arange(10.0, device=device)
    torch.accelerator.synchronize()
    for priority in (-100, -1, 0, 1, 100):
        with torch.Stream(device, priority=priority) as stream:
            total = x.sum()
        stream.synchronize()
        assert total.item() == 45


def test_an_external_stream_keeps_its_handle(device: str, device_module: ModuleType) -> None:
    owner = torch.Stream(device)
    handle = owner.native_handle
    stream = device_module.get_stream_from_external(handle, device)
    assert stream.device == torch.device(device, 0)
    assert stream.native_handle == handle
    with stream:
        assert device_module.current_stream() == stream
        x = torch.ones(10, device=device) * 2
    owner.synchronize()
    assert stream.query()
    assert x.sum().item() == 20


def test_current_stream_belongs_to_the_thread(device: str, device_module: ModuleType) -> None:
    seen = []
    with torch.Stream(device):
        thread = threading.Thread(target=lambda: seen.append(device_module.current_stream()))
        thread.start()
        thread.join()
    assert seen == [device_module.default_stream()]


def test_backward_runs_on_the_stream_of_forward(device: str, device_module: ModuleType) -> None:
    w = torch.randn(50, 50)
    there = w.to(device).requires_grad_()
    stream = torch.Stream(device)
    stream.wait_stream(device_module.current_stream())
    with stream:
        (there @ there).tanh().sum().backward()
    device_module.current_stream().wait_stream(stream)
    w.requires_grad_()
    (w @ w).tanh().sum().backward()
    torch.testing.assert_close(there.grad.cpu(), w.grad)


@pytest.mark.needs("timing")
@needs_queues
@pytest.mark.needs("priorities")
def test_a_stream_of_higher_priority_runs_first(device: str, device_module: ModuleType) -> None:
    for priority in (-1, -2):
        low, high = torch.Stream(device), torch.Stream(device, priority=priority)
        others = [torch.Stream(device) for _ in range(8)]
        events = []
        for stream in others:
            occupy(stream, 3)
        for stream in (low, high):
            occupy(stream, 2)
            with stream:
                events.append(torch.Event(device, enable_timing=True))
                events[-1].record()
        device_module.synchronize()
        assert events[1].elapsed_time(events[0]) > 0, "the later submission was to be served first"


@needs_queues
def test_query_is_truthful_while_work_runs(device: str) -> None:
    stream = torch.Stream(device)
    landing = torch.zeros(1000).pin_memory()
    with stream:
        x = torch.arange(1000.0, device=device)
        occupy(stream)
        landing.copy_(x, non_blocking=True)
    assert not stream.query()
    assert becomes_true(stream.query)
    assert torch.equal(landing, torch.arange(1000.0))


@needs_queues
def test_synchronize_covers_exactly_one_device(device_module: ModuleType, second_device: torch.device) -> None:
    here, there = torch.Stream(torch.device(second_device.type, 0)), torch.Stream(second_device)
    occupy(there, 40)
    occupy(here, 2)
    device_module.synchronize(0)
    assert here.query()
    assert not there.query()
    device_module.synchronize(second_device)
    assert there.query()


@needs_queues
def test_default_stream_does_not_wait_for_others(device: str, device_module: ModuleType) -> None:
    side = torch.Stream(device)
    occupy(side, 40)
    x = torch.ones(100, device=device)
    (x * 2).abs_()
    device_module.current_stream().synchronize()
    assert not side.query()
    side.synchronize()


def test_threads_that_share_a_stream_lose_no_work(device: str) -> None:
    stream = torch.Stream(device)
    with stream:
        shared = torch.zeros(100, device=device)
        own = [torch.full((100,), -float(i + 1), device=device) for i in range(8)]
    failures: list[BaseException] = []

    def work(mine: torch.Tensor) -> None:
        try:
            with stream:
                for _ in range(50):
                    shared.add_(1)  # waits for its turn
                    mine.abs_().neg_()  # queued behind it
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(x,)) for x in own]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stream.synchronize()
    assert not failures
    assert torch.equal(shared.cpu(), torch.full((100,), 400.0))
    for i, x in enumerate(own):
        assert torch.equal(x.cpu(), torch.full((100,), -float(i + 1)))


def test_a_handle_that_is_no_stream_is_refused(device: str, device_module: ModuleType) -> None:
    for nonsense in (0, 12345, 1 << 40):
        with pytest.raises((RuntimeError, ValueError), match="stream"):
            device_module.get_stream_from_external(nonsense, device)


def test_an_external_stream_of_another_device_is_refused(
    device: str, device_module: ModuleType, second_device: torch.device
) -> None:
    handle = torch.Stream(second_device).native_handle
    assert device_module.get_stream_from_external(handle, second_device).device == second_device
    with pytest.raises(ValueError, match="device"):
        device_module.get_stream_from_external(handle, device)


BLOCKING_CALLS = {
    "stream.synchronize": lambda x, stream, event: stream.synchronize(),
    "event.synchronize": lambda x, stream, event: event.synchronize(),
    "accelerator.synchronize": lambda x, stream, event: torch.accelerator.synchronize(),
    "item": lambda x, stream, event: x[0].item(),
    "cpu": lambda x, stream, event: x.cpu(),
    "tolist": lambda x, stream, event: x.tolist(),
    "pageable copy": lambda x, stream, event: x.copy_(torch.ones(10), non_blocking=True),
    "emulated operator": lambda x, stream, event: x.cumsum(0),
}


@needs_queues
@pytest.mark.parametrize("name", BLOCKING_CALLS)
def test_other_threads_go_on_while_one_waits(name: str, device: str) -> None:
    """A call that waits must release the GIL. Otherwise it blocks every other thread."""
    stream = torch.Stream(device)
    event = torch.Event(device)
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    with stream:
        x = torch.ones(10, device=device)
        thread = threading.Thread(target=tick)
        thread.start()
        occupy(stream, 20)
        event.record()
        started = time.perf_counter()
        BLOCKING_CALLS[name](x, stream, event)
        ended = time.perf_counter()
    done.set()
    thread.join()
    assert event.query(), "the call came back before the work was done"
    meanwhile = [t for t in ticks if started < t < ended]
    assert len(meanwhile) > 5, f"{len(meanwhile)} ticks in {ended - started:.3f} s"
    stream.synchronize()
