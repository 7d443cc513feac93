"""The only assignments into torch beyond its registration functions: two, for DLPack."""

from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function_unary

from ._build_info import DEVICE_NAME


def apply() -> None:
    _patch_dlpack_device()
    _patch_dlpack_stream()


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


def _patch_dlpack_stream() -> None:
    """Let ``Tensor.__dlpack__(stream=handle)`` make the consumer's stream wait for the current one.

    `handle` is the native handle of a stream, as ``torch.Stream.native_handle`` gives it. -1 and None order nothing.

    REASON: core orders streams for CUDA alone; for other devices it takes any number and does nothing.
    CAN REMOVE when the minimum torch orders the streams of every accelerator there.
    """
    original = torch.Tensor.__dlpack__

    def __dlpack__(self: torch.Tensor, *, stream: Any = -1, **options: Any) -> Any:
        ordered = type(stream) is int and stream != -1
        if ordered and not has_torch_function_unary(self) and self.device.type == DEVICE_NAME:
            module = torch.get_device_module(DEVICE_NAME)
            consumer = module.get_stream_from_external(stream, self.device)
            consumer.wait_stream(module.current_stream(self.device))
        return original(self, stream=stream, **options)

    setattr(torch.Tensor, "__dlpack__", __dlpack__)  # noqa: B010
