"""Memory of the devices and pinned memory of the host. All sizes are in bytes."""

import os
import pickle
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch.accelerator import empty_cache, empty_host_cache

from .. import _C
from ._utils import DeviceLike, existing_index

__all__ = [
    "empty_cache",
    "empty_host_cache",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]


def memory_allocated(device: DeviceLike = None) -> int:
    """Return how much memory tensors on `device` occupy."""
    return torch.accelerator.memory_allocated(existing_index(device))


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Return the peak of `memory_allocated` since the start or the last `reset_peak_memory_stats`."""
    return torch.accelerator.max_memory_allocated(existing_index(device))


def memory_reserved(device: DeviceLike = None) -> int:
    """Return how much memory the allocator has reserved on `device`, used by tensors or not."""
    return torch.accelerator.memory_reserved(existing_index(device))


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Return the peak of `memory_reserved` since the start or the last `reset_peak_memory_stats`."""
    return torch.accelerator.max_memory_reserved(existing_index(device))


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """Return the allocator's statistics of `device`, with the keys of ``torch.accelerator.memory_stats``."""
    return torch.accelerator.memory_stats(existing_index(device))


def memory_stats_as_nested_dict(device: DeviceLike = None) -> dict[str, Any]:
    """Return `memory_stats` as nested dictionaries, one level for each part of a key."""
    return _nested(memory_stats(device))


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Reset the peaks in `memory_stats` to the current values."""
    torch.accelerator.reset_peak_memory_stats(existing_index(device))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Reset the totals in `memory_stats`, ``allocated`` and ``freed``, to zero."""
    torch.accelerator.reset_accumulated_memory_stats(existing_index(device))


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Return the free and the total memory of `device`; the device counts cached memory as used."""
    return torch.accelerator.get_memory_info(existing_index(device))


def set_per_process_memory_fraction(fraction: float, device: DeviceLike = None) -> None:
    """Limit this process to `fraction`, from 0 to 1, of the total memory of `device`.

    Beyond that it is out of memory, as if the device had no more. What is reserved already stays.
    """
    _C._set_memory_fraction(fraction, existing_index(device))


def get_per_process_memory_fraction(device: DeviceLike = None) -> float:
    """Return the part of the memory of `device` that this process may reserve. 1 unless it was set."""
    return _C._get_memory_fraction(existing_index(device))


def host_memory_stats() -> dict[str, int]:
    """Return the statistics of pinned memory, with the keys of ``torch.cuda.host_memory_stats``. Times are in us."""
    return _C._host_memory_stats()


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Return `host_memory_stats` as nested dictionaries, one level for each part of a key."""
    return _nested(host_memory_stats())


def reset_peak_host_memory_stats() -> None:
    """Reset the peaks in `host_memory_stats` to the current values."""
    _C._reset_peak_host_memory_stats()


def reset_accumulated_host_memory_stats() -> None:
    """Reset the totals in `host_memory_stats` to zero."""
    _C._reset_accumulated_host_memory_stats()


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """Return the statistics of `device` as a table. `abbreviated` omits the rows of single memory pools."""
    index = existing_index(device)
    stats = memory_stats(index)
    columns = ("current", "peak", "allocated", "freed")
    free, total = mem_get_info(index)
    lines = [
        f"Memory of device {index}: {_size(total - free)} of {_size(total)} in use",
        f"{'':<36}" + "".join(f"{column:>14}" for column in columns),
    ]
    for row in dict.fromkeys(key.rpartition(".")[0] for key in stats if key.count(".") == 2):
        if abbreviated and not row.endswith(".all"):
            continue
        show = _size if "bytes" in row else str
        lines.append(f"{row:<36}" + "".join(f"{show(stats[f'{row}.{column}']):>14}" for column in columns))
    lines += [f"{key:<36}{value:>14}" for key, value in stats.items() if key.startswith("num_")]
    return "\n".join(lines)


def _record_memory_history(
    enabled: Literal["state", "all"] | None = "all",
    context: Literal["state", "alloc", "all"] | None = "all",
    stacks: Literal["python", "all"] = "all",
    max_entries: int = sys.maxsize,
    clear_history: bool = False,
    skip_actions: Sequence[str] = (),
) -> None:
    """Start recording the history of the memory of all devices, for `_snapshot`; ``enabled=None`` stops it.

    Args:
        enabled: ``"state"`` records the origin of each live block, ``"all"`` also every action in order.
        context: Which call stacks to keep: of live blocks, also of finished allocations, also of frees.
        stacks: ``"python"`` for Python and TorchScript frames, ``"all"`` for C++ frames as well.
        max_entries: Number of actions kept for each device. New actions replace the oldest.
        clear_history: Remove earlier entries.
        skip_actions: Actions not to record, by their names in a snapshot.
    """
    if enabled is None:
        _C._stop_memory_history()
        return
    if enabled not in ("state", "all"):
        raise ValueError(f"enabled must be 'state', 'all' or None, but is {enabled!r}")
    entries = max_entries if enabled == "all" else 0
    _C._start_memory_history(context, stacks, entries, clear_history, list(skip_actions))


def _snapshot() -> dict[str, Any]:
    """Return the state of the allocator and its history, like ``torch.cuda.memory._snapshot``.

    ``segments`` lists the segments and their blocks, ``device_traces`` has a list of actions for each device.
    """
    return _C._memory_snapshot()


def _dump_snapshot(filename: str | os.PathLike[str] = "dump_snapshot.pickle") -> None:
    """Save `_snapshot` to a file that https://pytorch.org/memory_viz and ``torch.cuda._memory_viz`` read."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def memory_snapshot(mempool_id: tuple[int, int] | None = None) -> list[dict[str, Any]]:
    """Return the segments and blocks of all devices, or only those of the given memory pool."""
    segments = _snapshot()["segments"]
    return [s for s in segments if mempool_id is None or s["segment_pool_id"] == tuple(mempool_id)]


def _size(count: int) -> str:
    """Return `count` bytes in the largest unit in which the number is at least one."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in flat.items():
        *parents, last = key.split(".")
        level = result
        for parent in parents:
            level = level.setdefault(parent, {})
        level[last] = value
    return result
