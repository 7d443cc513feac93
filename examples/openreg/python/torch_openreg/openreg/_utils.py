"""Converts the forms of a device argument to an index."""

from typing import TypeAlias

import torch

from .. import _C
from .._build_info import DEVICE_NAME

DeviceLike: TypeAlias = int | str | torch.device | None


def _get_device_index(device: DeviceLike, optional: bool = False) -> int:
    """Return the index of `device`, without checking that the device exists.

    Core calls this by name when it loads a checkpoint, and has better advice than we on an index out of range.
    None and a device without an index mean the current device if `optional`, else they raise ValueError.
    """
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != DEVICE_NAME:
            raise ValueError(f"expected a device of type '{DEVICE_NAME}', but got '{device}'")
        device = device.index
    elif isinstance(device, bool) or not isinstance(device, int | None):
        raise TypeError(f"expected an int, a str or a torch.device, but got {device!r}")
    if device is not None:
        return device
    if not optional:
        raise ValueError(f"expected an index or a device with an index, such as '{DEVICE_NAME}:0'")
    return torch.accelerator.current_device_index()


def existing_index(device: DeviceLike = None) -> int:
    """Return the index of a device; None is the current device. Raises AcceleratorError if it does not exist."""
    index = _get_device_index(device, optional=True)
    if not 0 <= index < _C._get_device_count():
        _C._throw_no_such_device(str(index))
    return index
