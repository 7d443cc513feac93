"""What a device may be without and still be right, found out by asking it: ``@pytest.mark.needs("graphs")`` on a test.

A test that needs what the device lacks is skipped with the sentence below. Everything else holds for every device.
"""

from collections.abc import Callable
from functools import cache
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
from conftest import DEVICE, MODULE, PROJECT

LACKING = {
    "emulation": "the host cannot compute on the memory of this device: the fallback policy is cpu or error",
    "emulator": "there is no emulated device in third_party, whose switches and injected faults this test uses",
    "graphs": "this device has no graphs: device::beginCapture raises NotImplementedError",
    "queues": "work is done when its submission returns: nothing is ever pending",
    "sharing": "this device does not share memory with other processes: device::exportEvent raises NotImplementedError",
}


def _emulation() -> bool:
    try:
        with MODULE.operators.fallback_policy("emulate"):
            return True
    except ValueError:
        return False


def _emulator() -> bool:
    return next(PROJECT.glob("third_party/*/include/*/*.h"), None) is not None


def _graphs() -> bool:
    graph = torch.accelerator.Graph()
    with torch.Stream(DEVICE):
        try:
            graph.capture_begin()
        except NotImplementedError:
            return False
        graph.capture_end()
    return True


def _queues() -> bool:
    from busy import default_stream, occupy

    for _ in range(3):  # a copy is some 10 ms, so that hardly one such question comes too late
        occupy(default_stream())
        if not default_stream().query():
            MODULE.synchronize()
            return True
    return False


def _sharing() -> bool:
    try:
        ForkingPickler.dumps(torch.Event(DEVICE))
    except NotImplementedError:
        return False
    return True


_PROBES: dict[str, Callable[[], bool]] = {
    "emulation": _emulation,
    "emulator": _emulator,
    "graphs": _graphs,
    "queues": _queues,
    "sharing": _sharing,
}


# This fallback policy among others, for `parametrize`.
EMULATE = pytest.param("emulate", marks=pytest.mark.needs("emulation"))


@cache
def has(ability: str) -> bool:
    """Return whether the device has an ability. Asks it once."""
    return MODULE.device_count() > 0 and _PROBES[ability]()


def skip_without(ability: str) -> None:
    """Skip the running test if the device lacks an ability."""
    if not has(ability):
        pytest.skip(LACKING[ability])
