"""The functions that the second process of a test runs. This file must not import conftest, which needs the backend."""

import os
import signal
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

import torch

_kept: dict[str, Any] = {}


def serve(package: str, connection: Connection) -> None:
    """Answer requests until None arrives. A request names a function of this file and gives its arguments."""
    import_module(package)
    while (request := connection.recv()) is not None:
        name, args = request
        try:
            answer = globals()[name](*args)
        except Exception as error:
            answer = error
        connection.send(answer)


def keep(name: str, value: Any) -> None:
    _kept[name] = value


def receive(device: str, message: tuple[Any, ...]) -> int:
    """Open a storage that another process has described, and return its size."""
    rebuild = torch.get_device_module(device).multiprocessing._rebuild_storage
    size: int = rebuild(*message).nbytes()
    return size


def give(name: str) -> Any:
    return _kept[name]


def drop(*names: str) -> None:
    for name in names:
        del _kept[name]


def make(name: str, value: Any, device: str) -> Any:
    """Return a new tensor, and keep it."""
    _kept[name] = torch.tensor(value, device=device)
    return _kept[name]


def values(name: str) -> Any:
    return _kept[name].tolist()


def fill(name: str, value: float) -> None:
    _kept[name].detach().fill_(value)
    torch.accelerator.synchronize()


def describe(name: str) -> dict[str, Any]:
    x = _kept[name]
    return {
        "type": type(x).__name__,
        "device": str(x.device),
        "dtype": x.dtype,
        "shape": tuple(x.shape),
        "stride": x.stride(),
        "offset": x.storage_offset(),
        "requires_grad": x.requires_grad,
        "storage": x.untyped_storage()._cdata,
        "nbytes": x.untyped_storage().nbytes(),
        "resizable": x.untyped_storage().resizable(),
    }


def make_event(name: str, device: torch.device) -> torch.Event:
    """Return a new event, and keep it."""
    with torch.accelerator.device_index(device.index):
        _kept[name] = torch.Event(device)
        _kept[name].record()
    return _kept[name]


def record(name: str, tensor: str, value: float) -> None:
    """Fill the tensor, and record the event behind that."""
    stream = torch.Stream(_kept[tensor].device)
    with stream:
        _kept[tensor].fill_(value)
        _kept[name].record()


def wait_and_read(name: str, tensor: str) -> Any:
    """Wait for the event on a stream, and return the tensor's values on that stream."""
    stream = torch.Stream(_kept[tensor].device)
    _kept[name].wait(stream)
    with stream:
        return _kept[tensor].tolist()


def query(name: str) -> bool:
    return _kept[name].query()


def synchronize(name: str) -> None:
    _kept[name].synchronize()


def allocated(device: str) -> int:
    return torch.get_device_module(device).memory_allocated()


def collect(device: str) -> None:
    torch.get_device_module(device).ipc_collect()


def double(queue: Any, results: Any) -> None:
    """The target of a new process: take a tensor from a queue, double it in place, and answer."""
    x = queue.get()
    x.mul_(2)
    results.put(x.cpu().tolist())


def double_each(*tensors: torch.Tensor) -> None:
    """The target of a new process: double tensors in place."""
    for x in tensors:
        x.detach().mul_(2)
    torch.accelerator.synchronize()


def die() -> None:
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
