"""Fixtures for all tests. The device's name is asked for, never written: the same tests hold for every backend."""

import gc
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parent.parent


def emulator_variable(name: str) -> str | None:
    """Return an environment variable of the emulated device, such as LAUNCH with its prefix; None without such a device."""
    for header in sorted(PROJECT.glob("third_party/*/include/*/*.h")):
        if found := re.search(r"\b([A-Z][A-Z0-9_]*_)LAUNCH\b", header.read_text()):
            return found[1] + name
    return None


# The tests need two emulated devices with room, whatever the defaults of this project are.
for _name, _value in (("NUM_DEVICES", "2"), ("DEVICE_MEMORY", "4G")):
    if _variable := emulator_variable(_name):
        os.environ.setdefault(_variable, _value)

import torch  # noqa: E402  torch loads the backend

# How PyTorch names C++ functions in stack traces. It is read at the first one; addr2line, the default, takes a minute for
# PyTorch's own libraries.
os.environ.setdefault("TORCH_SYMBOLIZE_MODE", "dladdr")

DEVICE = torch._C._get_privateuse1_backend_name()
if DEVICE == "privateuseone":
    pytest.exit("no backend is loaded: install this project, and leave TORCH_DEVICE_BACKEND_AUTOLOAD alone", 2)
MODULE = torch.get_device_module(DEVICE)
PACKAGE = MODULE.__name__.partition(".")[0]


@pytest.fixture(scope="session")
def device() -> str:
    """The name of the device type, as in ``torch.ones(2, device=device)``."""
    return DEVICE


@pytest.fixture(scope="session")
def device_module() -> ModuleType:
    """What users see as ``torch.<device>``."""
    return MODULE


def memory_in_use() -> int:
    """Return the bytes of the current device that tensors hold; those in the garbage of earlier tests are freed first."""
    gc.collect()
    return int(MODULE.memory_allocated())


@pytest.fixture
def second_device() -> torch.device:
    """A device other than the one that is current by default."""
    if MODULE.device_count() < 2:
        pytest.skip("this needs two devices")
    return torch.device(DEVICE, 1)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs what the device is without, before anything is made for it."""
    from abilities import skip_without

    if MODULE.device_count() == 0 and item.get_closest_marker("no_device") is None:
        pytest.skip("there is no device on this machine, or csrc/device is not written yet: device_count() is 0")
    for marker in item.iter_markers("needs"):
        for ability in marker.args:
            skip_without(ability)


@pytest.fixture(autouse=True)
def _same_device_and_stream_after_the_test() -> Iterator[None]:
    if MODULE.device_count() == 0:
        yield
        return
    index = MODULE.current_device()
    stream = MODULE.current_stream()
    yield
    assert (MODULE.current_device(), MODULE.current_stream()) == (index, stream)


Define = Callable[[str, Callable[..., Any]], Any]


@pytest.fixture
def define() -> Iterator[Define]:
    """Define an operator whose only kernel is a Python function for the CPU: ``define(schema, kernel)`` returns it."""
    library = torch.library.Library("python_kernels", "FRAGMENT")

    def add(schema: str, kernel: Callable[..., Any]) -> Any:
        name = schema.partition("(")[0]
        library.define(schema)
        library.impl(name, kernel, "CPU")
        return getattr(torch.ops.python_kernels, name)

    yield add
    library._destroy()


RunPython = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def run_python(tmp_path_factory: pytest.TempPathFactory) -> RunPython:
    """Run a script in a process of its own: ``run_python(code, cwd=..., env=...)``. `device` and `package` are in it.

    The process starts in an empty folder, so that nothing is imported from the working folder by accident. It imports
    torch anew, which takes seconds: put into one script what belongs together.
    """
    folder = tmp_path_factory.mktemp("elsewhere")

    def run(code: str, cwd: Path = folder, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        code = f"device, package = {DEVICE!r}, {PACKAGE!r}\n{code}"
        command = [sys.executable, "-c", code]
        return subprocess.run(
            command, cwd=cwd, env=os.environ | (env or {}), capture_output=True, text=True, timeout=120, check=False
        )

    return run
