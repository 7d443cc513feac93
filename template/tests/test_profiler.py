"""Device times of PyTorch's profilers: they are right, or missing."""

from types import ModuleType

import pytest
import torch
from torch.autograd.profiler import profile
from torch.profiler import ProfilerActivity

SIZE = 500


def work(x: torch.Tensor) -> torch.Tensor:
    for _ in range(4):
        x = x @ x
    return torch.nn.functional.leaky_relu(x)


def check_device_times(device: str) -> None:
    x = torch.rand(SIZE, SIZE, device=device) / SIZE
    work(x)
    begin, end = (torch.Event(device, enable_timing=True) for _ in range(2))
    with profile(use_device=device) as profiler:
        begin.record()
        work(x)
        end.record()
    torch.accelerator.synchronize()
    elapsed = begin.elapsed_time(end) * 1000  # microseconds
    averages = {average.key: average for average in profiler.key_averages()}
    assert all(event.device_time_total >= 0 for event in profiler.function_events)
    assert all(event.cpu_time_total >= 0 for event in profiler.function_events)
    assert averages["aten::mm"].count == 4
    assert 0 < averages["aten::mm"].device_time_total <= elapsed
    assert 0 < averages["aten::leaky_relu"].device_time_total <= elapsed
    # Nearly all of the time is spent in these products.
    assert averages["aten::matmul"].device_time_total > 0.5 * elapsed
    assert averages["aten::mm"].device_time_total <= averages["aten::matmul"].device_time_total
    assert device.upper() in profiler.key_averages().table()


@pytest.mark.needs("timing")
def test_operators_have_device_times(device: str, capfd: pytest.CaptureFixture[str]) -> None:
    check_device_times(device)
    assert "Exception in RecordFunction" not in capfd.readouterr().err


@pytest.mark.needs("timing")
def test_operators_that_run_on_copies_have_device_times(
    device: str, device_module: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    with device_module.operators.fallback_policy("cpu"):
        check_device_times(device)
    assert "Exception in RecordFunction" not in capfd.readouterr().err


@pytest.mark.needs("timing")
def test_operators_on_another_stream_and_device_have_device_times(
    device: str, device_module: ModuleType, second_device: torch.device
) -> None:
    x = torch.ones(SIZE, SIZE, device=second_device)
    torch.accelerator.synchronize(second_device)
    with profile(use_device=device) as profiler, torch.accelerator.device_index(1), torch.Stream(second_device):
        work(x)
    device_module.synchronize(second_device)
    averages = {average.key: average for average in profiler.key_averages()}
    assert averages["aten::mm"].device_time_total > 0
    assert all(event.device_time_total >= 0 for event in profiler.function_events)


@pytest.mark.needs("graphs")
def test_operators_of_a_capture_have_no_time(device: str) -> None:
    x = torch.ones(SIZE, SIZE, device=device)
    y = torch.empty_like(x)
    graph = torch.accelerator.Graph()
    with profile(use_device=device) as profiler:
        with torch.Stream(device):
            graph.capture_begin()
            torch.abs(x, out=y)
            graph.capture_end()
        graph.replay()
        torch.accelerator.synchronize()
        x @ x
    averages = {average.key: average for average in profiler.key_averages()}
    assert averages["aten::abs"].device_time_total == 0
    assert averages["aten::mm"].device_time_total > 0
    assert torch.equal(x, y)


def test_a_profiler_without_a_plug_in_shows_no_device_times(device: str) -> None:
    """This profiler asks Kineto, which has no plug-in for the device."""
    x = torch.rand(SIZE, SIZE, device=device)
    with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as profiler:
        work(x)
    averages = {average.key: average for average in profiler.key_averages()}
    assert all(average.device_time_total == 0 for average in averages.values())
    assert averages["aten::mm"].cpu_time_total > 0
    assert device.upper() not in profiler.key_averages().table()


def test_memory_that_operators_take_and_what_is_freed(device: str) -> None:
    with torch.profiler.profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        x = torch.empty(1 << 20, device=device)
        y = torch.empty(1 << 18, device=device)
        del x
    averages = {average.key: average for average in profiler.key_averages()}
    assert averages["aten::empty"].self_device_memory_usage == 5 << 20
    assert averages["[memory]"].self_device_memory_usage == -(4 << 20)
    assert y.nbytes == 1 << 20
