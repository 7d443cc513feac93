"""Private memory pools, which captured graphs allocate from, by the functions that a graph calls."""

import contextlib
import gc
import importlib
import itertools
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
from conftest import PACKAGE

_C = importlib.import_module(f"{PACKAGE}._C")
MiB = 1 << 20
Pool = tuple[int, int]
_ids = itertools.count(1 << 40)


@pytest.fixture
def pool(device_module: ModuleType) -> Iterator[Pool]:
    """The id of a new pool. After the test it has no users, and nothing of it is left."""
    gc.collect()
    device_module.empty_cache()
    reserved = device_module.memory_reserved()
    id = (0, next(_ids))
    yield id
    gc.collect()
    device_module.empty_cache()
    assert device_module.memory_reserved() == reserved


@contextlib.contextmanager
def allocating_to(pool: Pool, device: int = 0) -> Iterator[None]:
    _C._begin_allocate_current_stream_to_pool(device, pool)
    try:
        yield
    finally:
        _C._end_allocate_to_pool(device, pool)


def bytes_on(device: str, size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device=device)


@pytest.mark.parametrize("size", [512, 3 * MiB, 40 * MiB])
def test_memory_of_a_pool_is_for_its_users_alone(size: int, device: str, device_module: ModuleType, pool: Pool) -> None:
    outside = bytes_on(device, size).data_ptr()
    with allocating_to(pool):
        x = bytes_on(device, size)
        inside = x.data_ptr()
        assert inside != outside
        del x
        assert bytes_on(device, size).data_ptr() == inside
    assert all(t.data_ptr() != inside for t in [bytes_on(device, size) for _ in range(5)])
    with allocating_to(pool):
        assert bytes_on(device, size).data_ptr() == inside
    for _ in range(2):
        _C._release_pool(0, pool)


def test_other_streams_do_not_allocate_to_it(device: str, device_module: ModuleType, pool: Pool) -> None:
    with allocating_to(pool):
        reserved = device_module.memory_stats()["reserved_bytes.all.current"]
        x = bytes_on(device, 2 * MiB)
        of_pool = device_module.memory_stats()["reserved_bytes.all.current"] - reserved
        del x
        with torch.Stream(device):
            other = bytes_on(device, 2 * MiB)
    assert device_module.memory_reserved() == reserved + 2 * of_pool
    _C._release_pool(0, pool)
    device_module.empty_cache()
    assert device_module.memory_reserved() == reserved + of_pool
    assert other.zero_().sum().item() == 0


def test_a_pool_lives_as_long_as_its_users_and_tensors(device: str, device_module: ModuleType, pool: Pool) -> None:
    start = device_module.memory_reserved()
    with allocating_to(pool):
        x = torch.full((MiB,), 3.0, device=device)
        bytes_on(device, 50 * MiB)
    with allocating_to(pool):
        pass
    reserved = device_module.memory_reserved()
    for _ in range(2):
        device_module.empty_cache()
        assert device_module.memory_reserved() == reserved
        with pytest.raises(RuntimeError, match=r"cannot be emptied.*graphs"):
            _C._empty_pool(pool)
        _C._release_pool(0, pool)
    _C._empty_pool((0, 1 << 50))
    assert device_module.memory_reserved() == reserved
    _C._empty_pool(pool)
    assert start < device_module.memory_reserved() <= reserved - 50 * MiB
    assert (x == 3).all().item()
    del x
    device_module.empty_cache()
    assert device_module.memory_reserved() == start


def test_a_released_pool_can_be_begun_again(device: str, device_module: ModuleType, pool: Pool) -> None:
    with allocating_to(pool):
        x = bytes_on(device, 30 * MiB)
    _C._release_pool(0, pool)
    address = x.data_ptr()
    del x
    with allocating_to(pool):
        assert bytes_on(device, 30 * MiB).data_ptr() == address
    reserved = device_module.memory_reserved()
    device_module.empty_cache()
    assert device_module.memory_reserved() == reserved
    _C._release_pool(0, pool)


def test_the_cache_is_not_given_up_meanwhile(device: str, device_module: ModuleType, pool: Pool) -> None:
    total = device_module.mem_get_info()[1]
    bytes_on(device, total // 5 * 3)
    retries = device_module.memory_stats()["num_alloc_retries"]
    with allocating_to(pool):
        with pytest.raises(RuntimeError, match="while a graph is captured"):
            device_module.empty_cache()
        with pytest.raises(torch.OutOfMemoryError, match="before the capture"):
            bytes_on(device, total // 5 * 3)
    assert device_module.memory_stats()["num_alloc_retries"] == retries
    bytes_on(device, total // 5 * 4)
    _C._release_pool(0, pool)


def test_events_of_other_streams_wait_for_the_end(device: str, device_module: ModuleType, pool: Pool) -> None:
    side = torch.Stream(device)
    with allocating_to(pool):
        x = bytes_on(device, 30 * MiB)
        address = x.data_ptr()
        x.record_stream(side)
        del x
        assert bytes_on(device, 30 * MiB).data_ptr() != address
        assert device_module.memory_stats()["active_bytes.all.current"] >= 30 * MiB
    device_module.synchronize()
    with allocating_to(pool):
        pass
    for _ in range(2):  # the first allocation records the events, the second one finds them reached
        bytes_on(device, 512)
        device_module.synchronize()
    with allocating_to(pool):
        assert address in [t.data_ptr() for t in [bytes_on(device, 30 * MiB) for _ in range(2)]]
    for _ in range(3):
        _C._release_pool(0, pool)


def test_wrong_order_is_an_error(device: str, pool: Pool) -> None:
    with pytest.raises(ValueError, match="shared memory"):
        _C._begin_allocate_current_stream_to_pool(0, (0, 0))
    with pytest.raises(RuntimeError, match="cannot end allocations"):
        _C._end_allocate_to_pool(0, pool)
    with pytest.raises(RuntimeError, match="no users"):
        _C._release_pool(0, pool)
    with allocating_to(pool), pytest.raises(RuntimeError, match="already"):
        _C._begin_allocate_current_stream_to_pool(0, pool)
    _C._release_pool(0, pool)
    with pytest.raises(RuntimeError, match="no users"):
        _C._release_pool(0, pool)
    with pytest.raises(torch.AcceleratorError):
        _C._release_pool(100, pool)
