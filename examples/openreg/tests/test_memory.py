"""The allocator seen from Python: statistics, limits, pinned memory. Sizes are in bytes."""

import gc
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
from busy import needs_queues, occupy

MiB = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def _no_garbage() -> None:
    gc.collect()  # what earlier tests left in cycles, which would be freed in the middle of a test


@pytest.fixture(autouse=True)
def _empty_cache(device_module: ModuleType) -> Iterator[None]:
    device_module.empty_cache()
    yield
    device_module.empty_cache()


def test_allocated_follows_the_tensors(device: str, device_module: ModuleType) -> None:
    before = device_module.memory_allocated()
    x = torch.empty(4 * MiB, dtype=torch.uint8, device=device)
    assert 4 * MiB <= device_module.memory_allocated() - before < 5 * MiB
    view = x[1:].view(torch.uint8)
    assert device_module.memory_allocated() - before < 5 * MiB
    del x
    assert device_module.memory_allocated() - before >= 4 * MiB
    del view
    assert device_module.memory_allocated() == before


def test_empty_tensors_take_no_memory(device: str, device_module: ModuleType) -> None:
    before = device_module.memory_allocated()
    x = torch.empty(0, device=device)
    y = torch.empty(3, 0, 2, device=device)
    assert device_module.memory_allocated() == before
    assert x.data_ptr() == y.data_ptr() == 0


def test_freed_memory_is_kept_until_the_cache_is_emptied(device: str, device_module: ModuleType) -> None:
    before = device_module.memory_reserved()
    free_before, _ = device_module.mem_get_info()
    torch.empty(64 * MiB, dtype=torch.uint8, device=device)
    assert device_module.memory_reserved() - before >= 64 * MiB
    assert free_before - device_module.mem_get_info()[0] >= 64 * MiB
    device_module.empty_cache()
    assert device_module.memory_reserved() == before
    assert device_module.mem_get_info()[0] == free_before


def test_cached_memory_is_used_again(device: str) -> None:
    x = torch.empty(8 * MiB, dtype=torch.uint8, device=device)
    address = x.data_ptr()
    del x
    assert torch.empty(8 * MiB, dtype=torch.uint8, device=device).data_ptr() == address


def test_tensors_do_not_overlap(device: str) -> None:
    tensors = [torch.full((size,), float(size), device=device) for size in (1, 7, 100, 1000, 100_000, 3)]
    spans = sorted((t.data_ptr(), t.data_ptr() + t.nbytes) for t in tensors)
    assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:], strict=False))
    for t in tensors:
        assert torch.equal(t.cpu(), torch.full_like(t, float(t.numel()), device="cpu"))


def test_peak_statistics_keep_the_maximum_until_they_are_reset(device: str, device_module: ModuleType) -> None:
    device_module.reset_peak_memory_stats()
    before = device_module.memory_allocated()
    assert device_module.max_memory_allocated() == before
    torch.empty(16 * MiB, dtype=torch.uint8, device=device)
    assert device_module.memory_allocated() == before
    assert device_module.max_memory_allocated() - before >= 16 * MiB
    assert device_module.max_memory_reserved() >= device_module.memory_reserved() >= 16 * MiB
    device_module.reset_peak_memory_stats(device)
    assert device_module.max_memory_allocated() == before


def test_accumulated_statistics_grow_until_they_are_reset(device: str, device_module: ModuleType) -> None:
    device_module.reset_accumulated_memory_stats()
    torch.empty(MiB, dtype=torch.uint8, device=device)
    stats = device_module.memory_stats()
    assert stats["allocated_bytes.all.allocated"] >= MiB
    assert stats["allocated_bytes.all.freed"] >= MiB
    device_module.reset_accumulated_memory_stats()
    assert device_module.memory_stats()["allocated_bytes.all.allocated"] == 0


def test_nested_statistics_are_the_flat_ones(device: str, device_module: ModuleType) -> None:
    x = torch.ones(10, device=device)
    flat = device_module.memory_stats()
    nested = device_module.memory_stats_as_nested_dict()
    for key, value in flat.items():
        found = nested
        for part in key.split("."):
            found = found[part]
        assert found == value
    assert flat["allocation.all.current"] >= 1
    assert flat["allocated_bytes.all.current"] == device_module.memory_allocated() >= x.nbytes
    assert flat == torch.accelerator.memory_stats()


def test_statistics_are_per_device(device: str, device_module: ModuleType, second_device: torch.device) -> None:
    before = device_module.memory_allocated(0), device_module.memory_allocated(1)
    x = torch.empty(MiB, dtype=torch.uint8, device=second_device)
    assert device_module.memory_allocated(0) == before[0]
    assert device_module.memory_allocated(second_device) - before[1] >= x.nbytes
    with device_module.device(1):
        assert device_module.memory_allocated() == device_module.memory_allocated(1)


def test_free_and_total_memory(device: str, device_module: ModuleType) -> None:
    free, total = device_module.mem_get_info(device)
    assert 0 < free <= total == device_module.get_device_properties().total_memory
    assert (free, total) == torch.accelerator.get_memory_info()


def test_the_summary_shows_the_statistics(device: str, device_module: ModuleType) -> None:
    x = torch.ones(10, device=device)
    full = device_module.memory_summary()
    assert "allocated_bytes.all" in full
    assert f"{device_module.memory_stats()['num_device_alloc']}" in full
    short = device_module.memory_summary(x.device, abbreviated=True)
    assert "small_pool" not in short
    assert len(short) < len(full)


def test_running_out_of_memory_is_counted_and_leaves_the_device_usable(device: str, device_module: ModuleType) -> None:
    before = device_module.memory_allocated()
    ooms = device_module.memory_stats()["num_ooms"]
    _, total = device_module.mem_get_info()
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(2 * total, dtype=torch.uint8, device=device)
    assert f"{device}:0" in str(caught.value) or "device 0" in str(caught.value).lower()
    assert device_module.memory_stats()["num_ooms"] == ooms + 1
    assert device_module.memory_allocated() == before
    assert torch.ones(3, device=device).sum().item() == 3


def test_cache_is_given_up_before_running_out(device: str, device_module: ModuleType) -> None:
    _, total = device_module.mem_get_info()
    size = total // 5 * 3
    torch.empty(size, dtype=torch.uint8, device=device)
    assert device_module.memory_reserved() >= size
    torch.empty(size + 64 * MiB, dtype=torch.uint8, device=device)


def test_impossible_sizes_are_errors(device: str) -> None:
    with pytest.raises(RuntimeError):
        torch.empty(1 << 62, device=device)
    with pytest.raises(RuntimeError):
        torch.empty(-1, device=device)


def test_storage_can_be_resized(device: str, device_module: ModuleType) -> None:
    x = torch.arange(8.0, device=device)
    storage = x.untyped_storage()
    storage.resize_(64)
    assert storage.nbytes() == 64
    assert torch.equal(x.cpu(), torch.arange(8.0))
    before = device_module.memory_allocated()
    storage.resize_(0)
    assert storage.nbytes() == 0
    assert device_module.memory_allocated() < before
    storage.resize_(32)
    x.fill_(2)
    assert torch.equal(x.cpu(), torch.full((8,), 2.0))


@needs_queues
def test_record_stream_keeps_the_memory_until_the_stream_is_done(device: str, device_module: ModuleType) -> None:
    side = torch.Stream(device)
    x = torch.full((MiB,), 3.0, device=device)
    address, size = x.data_ptr(), x.nbytes
    landing = torch.zeros(MiB).pin_memory()
    device_module.synchronize()
    occupy(side)
    with side:
        landing.copy_(x, non_blocking=True)
    x.record_stream(side)
    active, allocated = (device_module.memory_stats()[f"{name}_bytes.all.current"] for name in ("active", "allocated"))
    del x
    y = torch.zeros(MiB, device=device)
    stats = device_module.memory_stats()
    assert not side.query(), "the stream was not busy for long enough"
    assert y.data_ptr() != address
    assert stats["active_bytes.all.current"] - active == size
    assert stats["allocated_bytes.all.current"] == allocated
    side.synchronize()
    assert (landing == 3).all(), "the memory was written before the copy on the other stream had read it"
    z = torch.zeros(MiB, device=device)
    assert z.data_ptr() == address, "the memory was not freed once the stream was done"


@pytest.mark.needs("pinned_memory")
def test_pinning_copies_a_tensor_once(device: str) -> None:
    x = torch.arange(1000.0)
    assert not x.is_pinned()
    pinned = x.pin_memory()
    assert pinned.is_pinned()
    assert pinned.pin_memory() is pinned
    assert pinned[3:].is_pinned()
    assert pinned.untyped_storage().is_pinned()
    assert torch.equal(pinned, x)
    assert not pinned.clone().is_pinned()
    assert torch.empty(3, pin_memory=True).is_pinned()
    assert not x.to(device).is_pinned()


@pytest.mark.needs("pinned_memory")
def test_asynchronous_copies_arrive(device: str, device_module: ModuleType) -> None:
    source = torch.randn(100_000).pin_memory()
    there = source.to(device, non_blocking=True)
    back = torch.empty_like(source, pin_memory=True)
    back.copy_(there * 2, non_blocking=True)
    device_module.synchronize()
    assert torch.equal(back, source * 2)


@pytest.mark.needs("pinned_memory")
def test_pinned_memory_outlives_the_copy_from_it(device: str) -> None:
    expected = torch.randn(1 * MiB)
    there = expected.pin_memory().to(device, non_blocking=True)
    for _ in range(3):
        torch.zeros(1 * MiB).pin_memory()
    assert torch.equal(there.cpu(), expected)


@pytest.mark.needs("pinned_memory")
def test_host_memory_statistics_count_pinned_memory(device_module: ModuleType) -> None:
    device_module.empty_host_cache()
    before = device_module.host_memory_stats()
    x = torch.empty(MiB, dtype=torch.uint8, pin_memory=True)
    now = device_module.host_memory_stats()
    assert now["active_bytes.current"] - before["active_bytes.current"] == x.nbytes
    assert now["allocated_bytes.current"] >= x.nbytes
    assert now["num_host_alloc"] == before["num_host_alloc"] + 1
    assert device_module.host_memory_stats_as_nested_dict()["active_bytes"]["current"] == now["active_bytes.current"]
    del x
    device_module.reset_peak_host_memory_stats()
    device_module.reset_accumulated_host_memory_stats()
    assert device_module.host_memory_stats()["active_bytes.current"] == before["active_bytes.current"]
    assert device_module.host_memory_stats()["num_host_alloc"] == 0


@pytest.mark.needs("pinned_memory")
def test_the_data_loader_pins_its_batches(device: str) -> None:
    data = torch.utils.data.TensorDataset(torch.arange(10.0), torch.arange(10))
    batches = list(torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True))
    assert all(x.is_pinned() and y.is_pinned() for x, y in batches)
    there = torch.cat([x.to(device, non_blocking=True) for x, _ in batches])
    assert torch.equal(there.cpu(), torch.arange(10.0))


@pytest.mark.parametrize("shape", [(), (1,), (5, 7), (2, 0, 3), (3, 4, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64], ids=str)
def test_copies_keep_values(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> None:
    x = torch.testing.make_tensor(shape, dtype=dtype, device="cpu")
    there = x.to(device)
    assert (there.device.type, there.dtype, there.shape) == (device, dtype, x.shape)
    assert torch.equal(there.cpu(), x)
    assert torch.equal(there.clone().cpu(), x)
    assert torch.equal(there.mT.cpu() if x.dim() > 1 else there.cpu(), x.mT if x.dim() > 1 else x)


def test_copies_between_devices(device: str, second_device: torch.device) -> None:
    x = torch.randn(100, 10)
    there = x.to(device).to(second_device)
    assert there.device == second_device
    assert torch.equal(there.cpu(), x)
    there.copy_(torch.zeros(10, device=device), non_blocking=True)
    assert not there.any().item()


def test_lazy_bits_are_resolved_by_copies(device: str) -> None:
    x = torch.randn(4, dtype=torch.complex64)
    assert torch.equal(x.to(device).conj().cpu(), x.conj())
    assert torch.equal(torch._neg_view(x.to(device)).cpu(), -x)
    assert torch.equal(x.conj().to(device).cpu(), x.conj())
