"""The emulated device helps to find mistakes: injected failures, delays, lost devices, the launch log."""

import re
from pathlib import Path

import pytest
from conftest import PROJECT, RunPython, emulator_variable

pytestmark = pytest.mark.needs("emulator")

PREFIX = emulator_variable("") or ""  # of the environment variables
LIBRARY = """
import ctypes, importlib.util, pathlib, torch
folder = pathlib.Path(importlib.util.find_spec(package).submodule_search_locations[0]) / "lib"
sdk = next(lib for lib in map(ctypes.CDLL, map(str, folder.iterdir())) if hasattr(lib, PREFIX + "DeviceFail"))
"""


def c_prefix() -> str:
    """Return the prefix of the SDK's functions."""
    for header in sorted(PROJECT.glob("third_party/*/include/*/*.h")):
        if found := re.search(r"\b(\w+)Malloc\(", header.read_text()):
            return found[1]
    raise AssertionError("the SDK has no function for allocations")


def sdk_name() -> str:
    """Return the name of the SDK, which its public header has too."""
    return next(PROJECT.glob("third_party/*/include/*/*.h")).parent.name


def test_a_refused_allocation_is_tried_again(run_python: RunPython) -> None:
    code = """
import torch
x = torch.ones(4, device=device)
print(x.sum().item(), torch.get_device_module(device).memory_stats()["num_alloc_retries"])
"""
    done = run_python(code, env={f"{PREFIX}FAIL": f"{c_prefix()}Malloc:1"})
    assert done.stdout.split() == ["4.0", "1"], done.stderr


def test_a_failed_launch_is_raised_once(run_python: RunPython) -> None:
    code = """
import torch
x = torch.full((4,), -2.0, device=device)
try:
    x.abs()
    torch.get_device_module(device).synchronize()
    print("nothing raised")
except torch.AcceleratorError as error:
    print("injected" in str(error), x.abs().tolist())
"""
    done = run_python(code, env={f"{PREFIX}FAIL": f"{c_prefix()}LaunchKernel:1"})
    assert done.stdout.strip() == "True [2.0, 2.0, 2.0, 2.0]", done.stdout + done.stderr


def test_events_of_pinned_memory_are_destroyed(run_python: RunPython) -> None:
    """The device library refuses to destroy the first event, so the warning shows that the allocator tried to destroy it."""
    code = """
import torch
x, pinned = torch.zeros(4, device=device), torch.ones(4).pin_memory()
x.copy_(pinned, non_blocking=True)
del pinned  # an event now says when the copy is done
torch.accelerator.synchronize()
print(torch.ones(4).pin_memory().sum().item(), x.sum().item())  # looks at the event
"""
    done = run_python(code, env={f"{PREFIX}FAIL": f"{c_prefix()}EventDestroy:1"})
    assert done.stdout.split() == ["4.0", "4.0"], done.stderr
    assert f"{c_prefix()}EventDestroy" in done.stderr


def test_unknown_function_is_refused(run_python: RunPython) -> None:
    done = run_python("import torch; torch.ones(1, device=device)", env={f"{PREFIX}FAIL": "teleport:1"})
    assert done.returncode != 0
    assert "teleport" in done.stderr


def test_delays_show_work_that_is_pending(run_python: RunPython) -> None:
    code = """
import time, torch
x = torch.full((4,), -2.0, device=device)
event = torch.Event(device)
begin = time.perf_counter()
y = x.abs()
event.record()
pending = not event.query()
value = y.tolist()
print(pending, value, time.perf_counter() - begin >= 0.2)
"""
    done = run_python(code, env={f"{PREFIX}DELAY_US": "200000", f"{PREFIX}LAUNCH": "async"})
    assert done.stdout.strip() == "True [2.0, 2.0, 2.0, 2.0] True", done.stdout + done.stderr


def test_a_lost_device_says_so(run_python: RunPython) -> None:
    code = (
        f"PREFIX = {c_prefix()!r}\n{LIBRARY}"
        + """
x = torch.ones(4, device=device)
assert x.sum().item() == 4
getattr(sdk, PREFIX + "DeviceFail")(0, b"the fan stopped")
for action in (lambda: x + 1, lambda: x.cpu(), torch.accelerator.synchronize):
    try:
        action()
        print("nothing raised")
    except torch.AcceleratorError as error:
        print("the fan stopped" in str(error))
if torch.accelerator.device_count() > 1:
    assert torch.ones(2, device=f"{device}:1").sum().item() == 2  # another device is as well as before
"""
    )
    done = run_python(code)
    assert done.stdout.split() == ["True"] * 3, done.stdout + done.stderr
    assert done.returncode == 0, done.stderr


def test_the_launch_log_names_each_kernel(run_python: RunPython, tmp_path: Path) -> None:
    log = tmp_path / "launches.txt"
    code = (
        "import torch; x = torch.full((1000,), -1.0, device=device); x.abs_(); x.zero_(); print(x.cpu().sum().item())"
    )
    done = run_python(code, env={f"{PREFIX}LOG": str(log)})
    assert done.stdout.strip() == "0.0", done.stderr
    lines = log.read_text().splitlines()
    assert any("4000" in line and "fill" in line.lower() for line in lines), lines
    assert any("4000" in line and "copy" in line.lower() for line in lines), lines
    assert any("kernel" in line.lower() for line in lines), lines


def test_host_access_shows_where_it_came_from(run_python: RunPython) -> None:
    code = """
import ctypes, faulthandler, torch
faulthandler.enable()
x = torch.ones(1000, device=device)
torch.get_device_module(device).synchronize()

def stray():
    return ctypes.c_float.from_address(x.data_ptr()).value

stray()
"""
    done = run_python(code)
    assert done.returncode != 0
    assert re.search(r"0x[0-9a-f]+", done.stderr)
    assert re.search(r"device 0\b", done.stderr), done.stderr
    assert re.search(r"\d+ bytes", done.stderr), done.stderr
    assert re.search(rf"error in \S*{sdk_name()}\S*:", done.stderr), done.stderr
    assert "in stray" in done.stderr, done.stderr
