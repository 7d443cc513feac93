"""Which block an allocation gets: splitting, merging, blocks that other streams use, and what is counted. Sizes are in bytes."""

import gc
import importlib
import itertools
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from busy import needs_queues, occupy
from conftest import PACKAGE

_C = importlib.import_module(f"{PACKAGE}._C")
MiB = 1 << 20


@pytest.fixture(autouse=True)
def _empty_cache(device: str, device_module: ModuleType) -> Iterator[None]:
    gc.collect()
    torch.empty(1, device=device)  # there are no statistics before the first allocation
    device_module.empty_cache()
    yield
    gc.collect()
    device_module.synchronize()
    device_module.empty_cache()


@pytest.fixture
def stream(device: str) -> Iterator[torch.Stream]:
    """A current stream on which nothing is cached: blocks of different streams never mix."""
    with torch.Stream(device) as new:
        yield new


def bytes_on(device: str, size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device=device)


def blocks_around(address: int, module: ModuleType) -> list[tuple[int, bool]]:
    """Return the sizes of the blocks of the segment that holds `address`, and whether each is allocated."""
    for segment in module.memory_snapshot():
        if segment["address"] <= address < segment["address"] + segment["total_size"]:
            return [(block["size"], block["state"] == "active_allocated") for block in segment["blocks"]]
    return []


def stat(name: str, module: ModuleType) -> int:
    return int(module.memory_stats()[name])


@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize(("size", "segment"), [(512, 2 * MiB), (3 * MiB, 20 * MiB)])
def test_neighbours_are_merged_whichever_is_freed_first(
    size: int, segment: int, order: tuple[int, ...], device: str, device_module: ModuleType
) -> None:
    reserved = device_module.memory_reserved()
    split = stat("inactive_split.all.current", device_module)
    tensors = {i: bytes_on(device, size) for i in range(3)}
    last = bytes_on(device, size)
    rest = segment - 4 * size
    addresses = [tensors[i].data_ptr() for i in range(3)]
    assert [*addresses, last.data_ptr()] == [addresses[0] + i * size for i in range(4)]
    for freed in order:
        del tensors[freed]
        device_module.empty_cache()  # merges what was freed a moment ago, and keeps the segment, which is in use
        expected: list[tuple[int, bool]] = []
        for i in range(3):
            if i not in tensors and expected and not expected[-1][1]:
                expected[-1] = (expected[-1][0] + size, False)
            else:
                expected.append((size, i in tensors))
        assert blocks_around(addresses[0], device_module) == [*expected, (size, True), (rest, False)]
        free = sum(not used for _, used in expected) + 1
        assert stat("inactive_split.all.current", device_module) == split + free
    whole = bytes_on(device, 3 * size)
    assert whole.data_ptr() == addresses[0]
    del whole, last
    device_module.empty_cache()
    assert device_module.memory_reserved() == reserved, "the parts of the segment were not merged into one block"


@pytest.mark.usefixtures("stream")
def test_a_small_block_is_split_if_the_least_block_is_left(device: str, device_module: ModuleType) -> None:
    x, last = bytes_on(device, 1024), bytes_on(device, 512)
    address = x.data_ptr()
    del x
    device_module.empty_cache()  # puts the block into the pool, where it may be split
    first = bytes_on(device, 512)
    assert blocks_around(address, device_module)[:3] == [(512, True), (512, False), (512, True)]
    second = bytes_on(device, 512)
    assert (first.data_ptr(), second.data_ptr(), last.data_ptr()) == (address, address + 512, address + 1024)


@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize(("rest", "split"), [(MiB, False), (MiB + 512, True)])
def test_a_large_block_is_split_if_more_than_a_small_one_is_left(
    rest: int, split: bool, device: str, device_module: ModuleType
) -> None:
    address = bytes_on(device, 12 * MiB).data_ptr()
    x = bytes_on(device, 12 * MiB - rest)
    assert x.data_ptr() == address
    expected = [(12 * MiB - rest, True), (rest, False)] if split else [(12 * MiB, True)]
    assert blocks_around(address, device_module) == expected


@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize(("size", "kind"), [(1, "small"), (MiB, "small"), (MiB + 1, "large")])
def test_small_and_large_blocks_have_segments_of_their_own(
    size: int, kind: str, device: str, device_module: ModuleType
) -> None:
    other = bytes_on(device, 2 * MiB if kind == "small" else 512)
    before = {name: stat(f"allocation.{name}_pool.current", device_module) for name in ("small", "large")}
    x = bytes_on(device, size)
    after = {name: stat(f"allocation.{name}_pool.current", device_module) for name in ("small", "large")}
    assert after == before | {kind: before[kind] + 1}
    block = (size + 511) // 512 * 512
    total = 2 * MiB if kind == "small" else 20 * MiB
    assert blocks_around(x.data_ptr(), device_module) == [(block, True), (total - block, False)]
    assert blocks_around(other.data_ptr(), device_module) != blocks_around(x.data_ptr(), device_module)


@pytest.mark.usefixtures("stream")
def test_the_smallest_block_that_fits_is_taken(device: str, device_module: ModuleType) -> None:
    tensors = [bytes_on(device, size) for size in (8192, 512, 2048, 512, 4096, 512)]
    addresses = [t.data_ptr() for t in tensors]
    for i in (4, 2, 0):
        del tensors[i]
    device_module.empty_cache()  # puts the blocks into the pool
    x = bytes_on(device, 1536)
    y = bytes_on(device, 3072)
    assert (x.data_ptr(), y.data_ptr()) == (addresses[2], addresses[4])


@needs_queues
@pytest.mark.parametrize("idle_first", [True, False])
def test_a_block_waits_for_all_streams_that_use_it(idle_first: bool, device: str, device_module: ModuleType) -> None:
    """One of the two streams is done; no request gets the block nevertheless."""
    idle, busy = torch.Stream(device), torch.Stream(device)
    x = bytes_on(device, 30 * MiB)
    address = x.data_ptr()
    device_module.synchronize()
    occupy(busy)
    for used in (idle, busy) if idle_first else (busy, idle):
        x.record_stream(used)
    del x
    y = bytes_on(device, 30 * MiB)
    half = bytes_on(device, 15 * MiB)
    pending = stat("active_bytes.all.current", device_module) - device_module.memory_allocated()
    assert not busy.query(), "the stream was not busy for long enough"
    assert pending == 30 * MiB
    assert address not in (y.data_ptr(), half.data_ptr())
    busy.synchronize()
    z = bytes_on(device, 30 * MiB)
    assert z.data_ptr() == address
    assert stat("active_bytes.all.current", device_module) == device_module.memory_allocated()


@needs_queues
def test_emptying_the_cache_waits_for_other_streams(device: str, device_module: ModuleType) -> None:
    busy = torch.Stream(device)
    x = bytes_on(device, 30 * MiB)
    device_module.synchronize()
    reserved = device_module.memory_reserved()
    syncs = stat("num_sync_all_streams", device_module)
    occupy(busy)
    x.record_stream(busy)
    del x
    early = busy.query()
    device_module.empty_cache()
    assert not early, "the stream was not busy for long enough"
    assert busy.query()
    assert device_module.memory_reserved() == reserved - 30 * MiB
    assert stat("num_sync_all_streams", device_module) == syncs + 1


def test_a_use_on_the_blocks_own_stream_needs_no_wait(device: str, device_module: ModuleType) -> None:
    x = bytes_on(device, 30 * MiB)
    address = x.data_ptr()
    x.record_stream(device_module.current_stream())
    del x
    assert stat("active_bytes.all.current", device_module) == device_module.memory_allocated()
    assert bytes_on(device, 30 * MiB).data_ptr() == address


def test_the_memory_fraction_is_a_limit_of_all_that_is_reserved(device: str, device_module: ModuleType) -> None:
    _, total = device_module.mem_get_info()
    reserved = device_module.memory_reserved()
    limit = next(
        bytes
        for bytes in range(reserved + 60 * MiB, reserved + 400 * MiB, 2 * MiB)
        if int(bytes / total * total) == bytes  # no rounding: the last byte counts
    )
    device_module.set_per_process_memory_fraction(limit / total)
    try:
        x = bytes_on(device, 30 * MiB)
        y = bytes_on(device, limit - device_module.memory_reserved())
        assert device_module.memory_reserved() == limit
        with pytest.raises(torch.OutOfMemoryError, match="This process may reserve"):
            bytes_on(device, 30 * MiB)
        assert device_module.memory_reserved() == limit
        address = x.data_ptr()
        del x
        z = bytes_on(device, 30 * MiB)  # from the cache, which the limit has counted already
        assert z.data_ptr() == address
        del y, z
    finally:
        device_module.set_per_process_memory_fraction(1)


@pytest.mark.usefixtures("stream")
def test_a_segment_that_goes_back_is_counted(device: str, device_module: ModuleType) -> None:
    names = ("segment", "reserved_bytes")
    pools = ("all", "small_pool", "large_pool")

    def counts() -> dict[str, Any]:
        stats = device_module.memory_stats()
        return {f"{name}.{pool}": stats[f"{name}.{pool}.current"] for name in names for pool in pools}

    before = counts()
    freed = stat("num_device_free", device_module)
    free, _ = device_module.mem_get_info()
    bytes_on(device, 512)
    bytes_on(device, 30 * MiB)
    added = {key: value - before[key] for key, value in counts().items()}
    assert added == {
        "segment.all": 2,
        "segment.small_pool": 1,
        "segment.large_pool": 1,
        "reserved_bytes.all": 32 * MiB,
        "reserved_bytes.small_pool": 2 * MiB,
        "reserved_bytes.large_pool": 30 * MiB,
    }
    device_module.empty_cache()
    assert counts() == before
    assert stat("num_device_free", device_module) == freed + 2
    assert device_module.mem_get_info()[0] == free


def test_a_segment_of_a_private_pool_that_goes_back_is_counted(device: str, device_module: ModuleType) -> None:
    """The pool is forgotten with its last segment: its id may be used for a new one, which has a user again."""
    pool = (0, 1 << 45)
    before, freed = device_module.memory_reserved(), stat("num_device_free", device_module)
    _C._begin_allocate_current_stream_to_pool(0, pool)
    try:
        x = bytes_on(device, 30 * MiB)
    finally:
        _C._end_allocate_to_pool(0, pool)
        _C._release_pool(0, pool)
    assert [tuple(s["segment_pool_id"]) for s in device_module.memory_snapshot(pool)] == [pool]
    del x
    device_module.empty_cache()
    assert device_module.memory_snapshot(pool) == []
    assert device_module.memory_reserved() == before
    assert stat("num_device_free", device_module) == freed + 1
