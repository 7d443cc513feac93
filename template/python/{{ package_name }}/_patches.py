"""The only assignments into torch beyond its registration functions: one."""

from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function_unary

from ._build_info import DEVICE_NAME


def apply() -> None:
    _patch_dlpack_device()


def _patch_dlpack_device() -> None:
    """Let ``Tensor.__dlpack_device__`` answer for this device, as ``torch.from_dlpack(tensor)`` needs it.

    REASON: core compares the device type with the literal "privateuse1", which no backend that has a name equals.
    CAN REMOVE when the minimum torch compares with `torch._C._get_privateuse1_backend_name()` there.
    """
    original = torch.Tensor.__dlpack_device__

    def __dlpack_device__(self: torch.Tensor) -> tuple[Any, int]:
        if has_torch_function_unary(self):
            return handle_torch_function(torch.Tensor.__dlpack_device__, (self,), self)
        if self.device.type != DEVICE_NAME:
            return original(self)
        from torch.utils.dlpack import DLDeviceType

        return DLDeviceType.kDLExtDev, self.get_device()

    setattr(torch.Tensor, "__dlpack_device__", __dlpack_device__)  # noqa: B010
