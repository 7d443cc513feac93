"""Events: queries, waits and times."""

import time
from types import ModuleType

import pytest
import torch
from busy import becomes_true, needs_queues, occupy


def test_an_event_that_was_never_recorded_is_reached(device: str) -> None:
    event = torch.Event(device)
    assert event.query()
    event.synchronize()
    event.wait(torch.Stream(device))


def test_a_recorded_event_is_reached_after_synchronize(device: str, device_module: ModuleType) -> None:
    event = torch.Event(device)
    x = torch.ones(100, device=device) + 1
    event.record()
    event.synchronize()
    assert event.query()
    assert event.device == torch.device(device, 0)
    assert torch.equal(x.cpu(), torch.full((100,), 2.0))
    assert isinstance(device_module.current_stream().record_event(), torch.Event)


def test_a_waiting_stream_sees_earlier_work(device: str) -> None:
    first, second = torch.Stream(device), torch.Stream(device)
    x = torch.zeros(1000, device=device)
    torch.accelerator.synchronize()
    event = torch.Event(device)
    for i in range(50):
        with first:
            x.add_(i)
            event.record()
        event.wait(second)
        with second:
            x.mul_(0.5)
        first.wait_event(second.record_event())
    first.synchronize()
    expected = 0.0
    for i in range(50):
        expected = (expected + i) * 0.5
    torch.testing.assert_close(x.cpu(), torch.full((1000,), expected))


def test_a_waiting_stream_sees_work_of_another_device(device: str, second_device: torch.device) -> None:
    x = torch.zeros(1000, device=device)
    torch.accelerator.synchronize()
    here, there = torch.Stream(device), torch.Stream(second_device)
    with here:
        x.add_(5)
        event = here.record_event()
    there.wait_event(event)
    with there:
        y = x.to(second_device, non_blocking=True) * 2
    there.synchronize()
    assert torch.equal(y.cpu(), torch.full((1000,), 10.0))


def test_wait_binds_to_the_record_made_before_it(device: str) -> None:
    producer, consumer = torch.Stream(device), torch.Stream(device)
    event = torch.Event(device)
    event.record(producer)
    consumer.wait_event(event)
    event.record(consumer)  # a wait that looked at this record would wait for itself
    consumer.synchronize()
    assert consumer.query()
    assert event.query()


@pytest.mark.needs("timing")
def test_elapsed_times_add_up(device: str) -> None:
    events = [torch.Event(device, enable_timing=True) for _ in range(3)]
    a = torch.randn(200, 200, device=device)
    events[0].record()
    a = a @ a
    events[1].record()
    a = a @ a
    events[2].record()
    events[2].synchronize()
    first, second = events[0].elapsed_time(events[1]), events[1].elapsed_time(events[2])
    assert first > 0
    assert second > 0
    assert events[0].elapsed_time(events[2]) == pytest.approx(first + second, rel=1e-3, abs=1e-3)
    assert events[1].elapsed_time(events[0]) == pytest.approx(-first, rel=1e-3, abs=1e-3)


@pytest.mark.needs("timing")
def test_elapsed_time_needs_two_recorded_events_with_timing(device: str) -> None:
    timed, untimed = torch.Event(device, enable_timing=True), torch.Event(device)
    with pytest.raises(ValueError, match="enable_timing"):
        timed.elapsed_time(untimed)
    other = torch.Event(device, enable_timing=True)
    with pytest.raises(ValueError, match="recorded"):
        timed.elapsed_time(other)


def test_event_stays_on_its_device(device: str, second_device: torch.device) -> None:
    event = torch.Event(device)
    event.record(torch.Stream(device))
    with pytest.raises(RuntimeError, match="an event of device 0 cannot be recorded on a stream of device 1"):
        event.record(torch.Stream(second_device))
    event.synchronize()
    assert event.device == torch.device(device, 0)
    event.record(torch.Stream(device))


@pytest.mark.needs("timing")
def test_an_event_can_be_recorded_again(device: str, device_module: ModuleType) -> None:
    event = torch.Event(device, enable_timing=True, blocking=True)
    for _ in range(20):
        event.record()
        event.synchronize()
        assert event.query()
    event.record()
    device_module.synchronize()
    assert event.query()


@needs_queues
def test_recording_again_does_not_release_an_older_wait(device: str) -> None:
    producer, consumer, idle = (torch.Stream(device) for _ in range(3))
    with producer:
        x = torch.zeros(1000, device=device)
        source = torch.arange(1000.0).pin_memory()
    landing = torch.zeros(1000).pin_memory()
    producer.synchronize()

    event = torch.Event(device)
    occupy(producer)
    with producer:
        x.copy_(source, non_blocking=True)
        event.record()
    consumer.wait_event(event)
    event.record(idle)
    with consumer:
        landing.copy_(x, non_blocking=True)
    assert becomes_true(event.query)
    assert not producer.query(), "the producer was not busy for long enough"
    assert not consumer.query()
    consumer.synchronize()
    assert torch.equal(landing, source)


@needs_queues
def test_query_is_truthful_while_work_runs(device: str) -> None:
    stream = torch.Stream(device)
    before, after = torch.Event(device), torch.Event(device)
    before.record(stream)
    occupy(stream)
    after.record(stream)
    assert becomes_true(before.query)
    assert not after.query()
    assert becomes_true(after.query)
    stream.synchronize()
    assert stream.query()


@pytest.mark.needs("timing")
@needs_queues
def test_the_timestamp_is_taken_by_the_device(device: str) -> None:
    """The timestamp is the time at which the device reaches the event, not the time of the call."""
    stream = torch.Stream(device)
    start, middle, end = (torch.Event(device, enable_timing=True) for _ in range(3))
    submitted = time.perf_counter()
    start.record(stream)
    occupy(stream, 10)
    middle.record(stream)
    occupy(stream, 10)
    end.record(stream)
    submission = (time.perf_counter() - submitted) * 1e3
    end.synchronize()
    total = (time.perf_counter() - submitted) * 1e3
    assert submission < start.elapsed_time(end) < total
    assert middle.elapsed_time(end) > 0.1 * start.elapsed_time(end)
    assert start.elapsed_time(middle) > 0.1 * start.elapsed_time(end)


@pytest.mark.needs("timing")
@needs_queues
def test_time_of_a_pending_event_is_an_error(device: str) -> None:
    stream = torch.Stream(device)
    start, end = torch.Event(device, enable_timing=True), torch.Event(device, enable_timing=True)
    start.record(stream)
    occupy(stream)
    end.record(stream)
    with pytest.raises((RuntimeError, ValueError), match=r"pending|complete"):
        start.elapsed_time(end)
    end.synchronize()
    assert start.elapsed_time(end) > 0


@pytest.mark.needs("timing")
def test_time_between_devices_is_an_error(device: str, second_device: torch.device) -> None:
    start, end = torch.Event(device, enable_timing=True), torch.Event(second_device, enable_timing=True)
    start.record(torch.Stream(device))
    end.record(torch.Stream(second_device))
    torch.accelerator.synchronize(device)
    torch.accelerator.synchronize(second_device)
    with pytest.raises((RuntimeError, ValueError), match="device"):
        start.elapsed_time(end)


@needs_queues
def test_events_outlive_their_python_objects(device: str) -> None:
    producer, consumer = torch.Stream(device), torch.Stream(device)
    occupy(producer)
    event = producer.record_event()
    consumer.wait_event(event)
    del event
    assert not consumer.query()
    consumer.synchronize()
    assert producer.query()
