"""The three changes of torch that do not use its registration functions: two for DLPack, one for storages that are sent."""

from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeAlias

import torch
from torch.overrides import handle_torch_function, has_torch_function_unary

from . import _C
from ._build_info import DEVICE_NAME

Reduced: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]


def apply() -> None:
    _patch_dlpack_device()
    _patch_dlpack_stream()
    _patch_storage_reducer()


def _patch_dlpack_device() -> None:
    """Make ``Tensor.__dlpack_device__`` support this device. ``torch.from_dlpack(tensor)`` needs it.

    REASON: core compares the device type with the literal "privateuse1", and a named backend has another type.
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
    """Make ``Tensor.__dlpack__(stream=handle)`` order the consumer's stream after the current stream.

    `handle` is the native handle of a stream, from ``torch.Stream.native_handle``. -1 and None order nothing.

    REASON: core orders streams only for CUDA; for other devices it accepts any number and does nothing.
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


def send_storages_by(reducer: Callable[[torch.UntypedStorage], Reduced]) -> None:
    """Have `reducer` describe storages of this device to other processes."""
    global _reduce_storage
    _reduce_storage = reducer


_reduce_storage: Callable[[torch.UntypedStorage], Reduced] | None = None


def _patch_storage_reducer() -> None:
    """Let ``torch.multiprocessing`` send storages of this device, and all that is built on storages.

    REASON: a pickler finds reducers by type, and the storages of all devices have one type. For this device core's reducer raises
    that it takes storages of the CPU only, and makes an empty storage one of the CPU without a word.
    CAN REMOVE when the minimum torch asks each device how its storages are sent.
    """
    original = ForkingPickler._extra_reducers[torch.UntypedStorage]  # type: ignore[attr-defined]

    def reduce_storage(storage: torch.UntypedStorage) -> Reduced:
        if storage.device.type != DEVICE_NAME:
            reduced: Reduced = original(storage)
            return reduced
        # A port may decline what the project has, and an empty storage would be sent without a call of the port.
        if (missing := _C._capabilities()["sharing"]) or _reduce_storage is None:
            raise NotImplementedError(f"{missing}. Send a copy in host memory: tensor.cpu()")
        return _reduce_storage(storage)

    ForkingPickler.register(torch.UntypedStorage, reduce_storage)
