"""Shares device memory between processes: ``torch.multiprocessing`` sends tensors without a copy."""

from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeAlias

import torch
from torch.multiprocessing import reductions

from .. import _C
from .._build_info import DEVICE_NAME

__all__ = ["ipc_collect"]

_Reduced: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]


def ipc_collect() -> None:
    """Free the memory that this process has sent and that its receivers have freed. Sending does the same."""
    _C._collect_shared_storages()


def install() -> None:
    """Register reducers for events and storages of this device, and thereby for everything that uses storages."""
    ForkingPickler.register(torch.UntypedStorage, _reduce_storage)
    ForkingPickler.register(torch.Event, _reduce_event)


def _reduce_storage(storage: torch.UntypedStorage) -> _Reduced:
    # PyTorch decomposes tensors, parameters and typed storages into untyped storages.
    if storage.device.type != DEVICE_NAME:
        by_core: _Reduced = reductions.reduce_storage(storage)
        return by_core
    if storage.nbytes() == 0:
        return _rebuild_empty_storage, (storage.device.index,)
    return _rebuild_storage, _C._share_storage(storage)


def _rebuild_storage(*shared: Any) -> torch.UntypedStorage:
    _, nbytes, memory, offset, *_ = shared
    key = (memory, offset, nbytes)
    storage: torch.UntypedStorage | None = reductions.storage_from_cache(torch.UntypedStorage, key)
    if storage is not None:
        _C._decline_storage(shared)
        return storage
    storage = _C._open_storage(shared)
    reductions.shared_cache[key] = reductions.StorageWeakRef(storage)
    return storage


def _rebuild_empty_storage(index: int) -> torch.UntypedStorage:
    return torch.UntypedStorage(0, device=torch.device(DEVICE_NAME, index))


def _reduce_event(event: torch.Event) -> _Reduced:
    if event.device.type != DEVICE_NAME:
        raise TypeError(f"events of device '{event.device}' cannot be sent to another process")
    handle = _C._share_event(event)
    return _rebuild_event, (event.device.index, handle)


def _rebuild_event(index: int, handle: bytes) -> torch.Event:
    event = torch.Event(torch.device(DEVICE_NAME, index))
    _C._open_event(event, index, handle)
    return event
