"""Shares device memory between processes: ``torch.multiprocessing`` sends tensors without a copy."""

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

from .. import _patches
from .._build_info import DEVICE_NAME
from .._C import _sharing

__all__ = ["ipc_collect"]


def ipc_collect() -> None:
    """Free the memory that this process has sent and that its receivers have freed. Sending does the same."""
    _sharing.collect()


def install() -> None:
    """Register reducers for events and storages of this device, and thereby for everything that uses storages."""
    _patches.send_storages_by(_reduce_storage)
    ForkingPickler.register(torch.Event, _reduce_event)


def _reduce_storage(storage: torch.UntypedStorage) -> _patches.Reduced:
    # PyTorch decomposes tensors, parameters and typed storages into untyped storages.
    if storage.nbytes() == 0:
        return _rebuild_empty_storage, (storage.device.index,)
    return _rebuild_storage, _sharing.share_storage(storage)


def _rebuild_storage(*shared: Any) -> torch.UntypedStorage:
    _, nbytes, memory, offset, *_ = shared
    key = (memory, offset, nbytes)
    storage: torch.UntypedStorage | None = reductions.storage_from_cache(torch.UntypedStorage, key)
    if storage is not None:
        _sharing.decline_storage(shared)
        return storage
    storage = _sharing.open_storage(shared)
    reductions.shared_cache[key] = reductions.StorageWeakRef(storage)
    return storage


def _rebuild_empty_storage(index: int) -> torch.UntypedStorage:
    return torch.UntypedStorage(0, device=torch.device(DEVICE_NAME, index))


def _reduce_event(event: torch.Event) -> _patches.Reduced:
    if event.device.type != DEVICE_NAME:
        raise TypeError(f"events of device '{event.device}' cannot be sent to another process")
    handle = _sharing.share_event(event)
    return _rebuild_event, (event.device.index, handle)


def _rebuild_event(index: int, handle: bytes) -> torch.Event:
    event = torch.Event(torch.device(DEVICE_NAME, index))
    _sharing.open_event(event, index, handle)
    return event
