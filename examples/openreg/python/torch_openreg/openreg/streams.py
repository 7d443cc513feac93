"""Streams and events: PyTorch's classes, and functions that return streams of this device."""

import torch

from .. import _C
from .._build_info import DEVICE_NAME
from ._utils import DeviceLike, existing_index

# With this backend loaded, their default device is its current device.
Stream = torch.Stream
Event = torch.Event


def _wrap(parts: tuple[int, int, int]) -> torch.Stream:
    stream_id, device_index, device_type = parts
    return torch.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type)


def current_stream(device: DeviceLike = None) -> torch.Stream:
    """Return the stream that receives this thread's work on `device`."""
    return torch.accelerator.current_stream(existing_index(device))


def default_stream(device: DeviceLike = None) -> torch.Stream:
    """Return the default stream of `device`, which is current until another stream is set."""
    return _wrap(_C._get_default_stream(existing_index(device)))


def get_stream_from_external(data_ptr: int, device: DeviceLike = None) -> torch.Stream:
    """Return the stream of a handle of the device's SDK, an integer. The stream's owner must keep it alive."""
    return _wrap(_C._get_external_stream(data_ptr, existing_index(device)))


def set_stream(stream: torch.Stream) -> None:
    """Make `stream`, and its device, current for this thread. Prefer ``with stream``, which restores them."""
    torch.accelerator.set_stream(_of_this_device(stream))


class StreamContext:
    """Context manager that makes `stream`, and its device, current. None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = None if stream is None else _of_this_device(stream)

    def __enter__(self) -> None:
        if self.stream is not None:
            self._device_before = torch.accelerator.current_device_index()
            self._stream_before = torch.accelerator.current_stream(self.stream.device_index)
            torch.accelerator.set_stream(self.stream)

    def __exit__(self, *exc_info: object) -> None:
        if self.stream is not None:
            torch.accelerator.set_stream(self._stream_before)
            torch.accelerator.set_device_index(self._device_before)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Return a context manager that makes `stream`, and its device, current. None changes nothing."""
    return StreamContext(stream)


def _of_this_device(stream: torch.Stream) -> torch.Stream:
    if not isinstance(stream, torch.Stream):
        raise TypeError(f"expected a torch.Stream, but got {stream!r}")
    if stream.device.type != DEVICE_NAME:
        raise ValueError(f"expected a stream of device type '{DEVICE_NAME}', but got a stream of '{stream.device}'")
    return stream
