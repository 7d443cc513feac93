"""Devices: their number, their properties, and the current device."""

from typing import Any

import torch

from .. import _C
from .._build_info import DEVICE_NAME
from ._utils import DeviceLike, existing_index


def init() -> None:
    """Initialize the devices now instead of at their first use. Raises RuntimeError in a forked child."""
    _C._init()


# PyTorch calls this name before it creates the first tensor on the device.
_lazy_init = init


def is_initialized() -> bool:
    """Return whether this process has used the devices."""
    return _C._is_initialized() and not _C._is_in_bad_fork()


def _is_in_bad_fork() -> bool:
    """Return whether this process was forked from a process that had used the devices, and so cannot use them."""
    return _C._is_in_bad_fork()


def is_available() -> bool:
    """Return whether there is a device, without initializing it."""
    return _C._get_device_count() > 0


def device_count() -> int:
    """Return the number of devices, without initializing them."""
    return _C._get_device_count()


def current_device() -> int:
    """Return the index of the current device of this thread."""
    return torch.accelerator.current_device_index()


def set_device(device: DeviceLike) -> None:
    """Make `device` the current device of this thread. Prefer ``with device(...)``, which restores the previous one."""
    torch.accelerator.set_device_index(existing_index(device))


def synchronize(device: DeviceLike = None) -> None:
    """Wait until all streams of `device` have finished their work. None means the current device."""
    torch.accelerator.synchronize(existing_index(device))


class device(torch.accelerator.device_index):
    """Context manager that makes `device` the current device. None changes nothing."""

    def __init__(self, device: DeviceLike) -> None:
        super().__init__(None if device is None else existing_index(device))


class device_of(device):
    """Context manager that makes the device of a tensor or storage current. Other objects change nothing."""

    def __init__(self, obj: torch.Tensor | torch.UntypedStorage | torch.TypedStorage) -> None:
        super().__init__(obj.device if obj.device.type == DEVICE_NAME else None)


def get_device_properties(device: DeviceLike = None) -> _C._DeviceProperties:
    """Return the name, the version and the sizes of `device`; memory in bytes."""
    return _C._get_device_properties(existing_index(device))


def get_device_name(device: DeviceLike = None) -> str:
    """Return the name of the product."""
    return get_device_properties(device).name


def get_device_capability(device: DeviceLike = None) -> tuple[int, int]:
    """Return the (major, minor) version of the hardware. Dtypes are in ``torch.accelerator.get_device_capability``."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Return whether `device` can read and write the memory of `peer_device`."""
    return _C._can_access_peer(existing_index(device), existing_index(peer_device))


def capabilities() -> dict[str, bool]:
    """Return for each optional capability, such as ``"graphs"``, whether the devices have it. Does not initialise them."""
    return {name: not missing for name, missing in _C._capabilities().items()}


def missing_capabilities() -> dict[str, str]:
    """Return the optional capabilities that the devices lack, each with the sentence that its errors give as the reason."""
    return {name: missing for name, missing in _C._capabilities().items() if missing}


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether the device supports tensors of dtype bfloat16."""
    capability: dict[str, Any] = torch.accelerator.get_device_capability(current_device())
    return torch.bfloat16 in capability["supported_dtypes"]
