"""What a correct device may lack: ``@pytest.mark.needs("graphs")`` on a test.

The names are those of ``torch.<device>.capabilities()`` and those below. A test that needs what the device lacks is skipped
with the device's own sentence, or the one below. Everything else holds for every device.
"""

import importlib
from collections.abc import Callable
from functools import cache

import pytest
import torch
from conftest import DEVICE, MODULE, PACKAGE, PROJECT

LACKING = {
    "emulation": "the host cannot compute on the memory of this device: the fallback policy is cpu or error",
    "emulator": "there is no emulated device, whose switches and injected faults this test uses",
    "priorities": "all streams of this device have the same priority: priorityRange() is {0, 0}",
    "queues": "work is done when its submission returns: nothing is ever pending",
}


def _emulation() -> bool:
    try:
        with MODULE.operators.fallback_policy("emulate"):
            return True
    except ValueError:
        return False


def _emulator() -> bool:
    return next(PROJECT.glob("third_party/*/include/*/*.h"), None) is not None


def _priorities() -> bool:
    least, greatest = importlib.import_module(f"{PACKAGE}._C")._get_stream_priority_range()
    return bool(greatest < least)


def _queues() -> bool:
    from busy import default_stream, occupy

    if not has("pinned_memory"):  # a copy of other memory is done when its submission returns
        return False
    number = torch.ones(1).to(DEVICE)
    landing = torch.zeros(1).pin_memory()
    for _ in range(3):  # a copy is some 10 ms, so that hardly one such question comes too late
        landing.zero_()
        occupy(default_stream())
        landing.copy_(number, non_blocking=True)
        # If a value is not copied yet, work is pending, even if a broken query says otherwise.
        pending = landing.item() == 0 or not default_stream().query()
        MODULE.synchronize()
        if pending:
            return True
    return False


_PROBES: dict[str, Callable[[], bool]] = {
    "emulation": _emulation,
    "emulator": _emulator,
    "priorities": _priorities,
    "queues": _queues,
}


# This fallback policy among others, for `parametrize`.
EMULATE = pytest.param("emulate", marks=pytest.mark.needs("emulation"))


@cache
def has(ability: str) -> bool:
    """Return whether the device has an ability. Asks it once."""
    if MODULE.device_count() == 0 or not MODULE.capabilities().get(ability, True):
        return False
    return ability not in _PROBES or _PROBES[ability]()


def skip_without(ability: str) -> None:
    """Skip the running test if the device lacks an ability."""
    if not has(ability):
        pytest.skip((LACKING | MODULE.missing_capabilities())[ability])
