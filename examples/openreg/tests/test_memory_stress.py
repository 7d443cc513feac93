"""Memory under load: many threads and streams, leaks, and what the system gets back. Sizes are in bytes."""

import gc
import os
import random
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest
import torch

MiB = 1 << 20


@pytest.fixture(autouse=True)
def _empty_cache(device_module: ModuleType) -> None:
    gc.collect()
    device_module.synchronize()
    device_module.empty_cache()


def bytes_on(device: str, size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device=device)


def keep_busy(stream: torch.Stream, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Submit copies to `stream` that take a while; skip the test if submissions are complete when they return."""
    source = torch.ones(64 * MiB, dtype=torch.uint8, pin_memory=True)
    target = torch.empty_like(source, device=device)
    torch.accelerator.synchronize()
    with stream:
        for _ in range(20):
            target.copy_(source, non_blocking=True)
    if stream.query():
        stream.synchronize()
        pytest.skip("this device's launches are complete when they return: no stream is ever busy")
    return source, target


def test_addresses_are_aligned(device: str, device_module: ModuleType) -> None:
    alignment = device_module.get_device_properties().allocation_alignment
    tensors = [bytes_on(device, size) for size in (1, 3, 511, 512, 513, 1025, 100_001, MiB + 1, 5 * MiB + 3)]
    assert alignment >= 512
    assert [t.data_ptr() % 512 for t in tensors] == [0] * len(tensors)
    big = bytes_on(device, 30 * MiB)
    assert big.data_ptr() % alignment == 0


def test_threads_do_not_share_blocks(device: str, device_module: ModuleType) -> None:
    """Each of 8 threads fills blocks of random sizes with its own number, and finds nothing else in them later."""
    failures: list[str] = []

    def work(number: int) -> None:
        rng = random.Random(number)
        stream = torch.Stream(device) if number % 2 else device_module.default_stream()
        live: list[tuple[torch.Tensor, int]] = []
        try:
            with stream:
                for step in range(150):
                    if len(live) > 12 or (live and rng.random() < 0.4):
                        block, value = live.pop(rng.randrange(len(live)))
                        if not (block == value).all().item():
                            failures.append(f"thread {number}, step {step}: {block.numel()} bytes changed")
                    size = rng.choice([rng.randrange(1, 5000), rng.randrange(1, MiB), rng.randrange(MiB, 4 * MiB)])
                    value = (number * 31 + step) % 251
                    live.append((torch.full((size,), value, dtype=torch.uint8, device=device), value))
                    if step % 50 == 49 and number == 0:
                        device_module.empty_cache()
                for block, value in live:
                    assert (block == value).all().item()
                stream.synchronize()
        except BaseException as error:
            failures.append(f"thread {number}: {error!r}")

    before = device_module.memory_allocated()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    gc.collect()
    assert device_module.memory_allocated() == before


def test_blocks_that_change_streams_keep_their_values(device: str, device_module: ModuleType) -> None:
    """Blocks are made on one stream, used on another and freed at once: `record_stream` keeps them apart."""
    rng = random.Random(0)
    streams = [torch.Stream(device) for _ in range(4)]
    results = []
    for step in range(200):
        producer, consumer = rng.sample(streams, 2)
        with producer:
            x = torch.full((rng.randrange(1, 200_000),), float(step), device=device)
        consumer.wait_stream(producer)
        with consumer:
            results.append((x.mean(), float(step)))
        x.record_stream(consumer)
        del x
    device_module.synchronize()
    assert [mean.item() for mean, _ in results] == pytest.approx([expected for _, expected in results])


@pytest.mark.needs("pinned_memory")
def test_a_block_is_not_used_before_other_streams_are_done(device: str, device_module: ModuleType) -> None:
    side = torch.Stream(device)
    busy = keep_busy(side, device)
    x = bytes_on(device, 30 * MiB)
    address = x.data_ptr()
    with side:
        x.copy_(torch.ones(30 * MiB, dtype=torch.uint8, pin_memory=True), non_blocking=True)
    x.record_stream(side)
    del x
    active = device_module.memory_stats()["active_bytes.all.current"]
    other = bytes_on(device, 30 * MiB)
    assert not side.query()
    assert other.data_ptr() != address
    assert active == device_module.memory_allocated()
    side.synchronize()
    assert bytes_on(device, 30 * MiB).data_ptr() == address
    assert device_module.memory_stats()["active_bytes.all.current"] == device_module.memory_allocated()
    assert busy[1].all().item()


@pytest.mark.needs("pinned_memory")
def test_a_copy_behind_a_busy_stream_returns_at_once(device: str, device_module: ModuleType) -> None:
    stream = torch.Stream(device)
    source = torch.full((64 * MiB,), 7, dtype=torch.uint8, pin_memory=True)
    there = torch.empty_like(source, device=device)
    back = torch.empty_like(source, pin_memory=True)
    busy = keep_busy(stream, device)
    start = time.perf_counter()
    with stream:
        there.copy_(source, non_blocking=True)
        back.copy_(there, non_blocking=True)
    submitted = time.perf_counter() - start
    assert not stream.query()
    stream.synchronize()
    total = time.perf_counter() - start
    assert (back == 7).all()
    assert submitted < total / 5
    assert busy[1].all().item()


def test_pageable_copies_are_synchronous(device: str) -> None:
    stream = torch.Stream(device)
    busy = keep_busy(stream, device)
    source = torch.full((4 * MiB,), 5, dtype=torch.uint8)
    with stream:
        there = source.to(device, non_blocking=True)
        source.fill_(0)
        back = torch.empty_like(source).copy_(there, non_blocking=True)
        assert torch.equal(back, torch.full_like(source, 5))
    assert busy[1].all().item()


@pytest.mark.needs("pinned_memory")
def test_pinned_blocks_wait_for_their_copies(device: str, device_module: ModuleType) -> None:
    stream = torch.Stream(device)
    busy = keep_busy(stream, device)
    source = torch.full((8 * MiB,), 9, dtype=torch.uint8, pin_memory=True)
    address = source.data_ptr()
    with stream:
        there = source.to(device, non_blocking=True)
    del source
    again = torch.zeros(8 * MiB, dtype=torch.uint8, pin_memory=True)
    if not stream.query():
        assert again.data_ptr() != address
    stream.synchronize()
    assert (there == 9).all().item()
    assert busy[1].all().item()
    stats = device_module.host_memory_stats()
    assert stats["active_bytes.current"] >= again.nbytes


def test_a_training_step_leaks_nothing(device: str, device_module: ModuleType) -> None:
    def step() -> None:
        model = torch.nn.Sequential(torch.nn.Linear(200, 300), torch.nn.ReLU(), torch.nn.Linear(300, 10)).to(device)
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(3):
            loss = model(torch.randn(50, 200, device=device)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        loss.item()

    def state() -> tuple[int, ...]:
        gc.collect()
        device_module.synchronize()
        device_module.empty_cache()
        stats = device_module.memory_stats()
        names = (
            "allocated_bytes",
            "active_bytes",
            "requested_bytes",
            "reserved_bytes",
            "inactive_split_bytes",
            "segment",
        )
        return (device_module.mem_get_info()[0], *(stats[f"{name}.all.current"] for name in names))

    step()
    before = state()
    for _ in range(3):
        step()
    assert state() == before


def test_every_statistic_returns_to_its_start(device: str, device_module: ModuleType) -> None:
    device_module.reset_accumulated_memory_stats()
    device_module.reset_peak_memory_stats()
    before = device_module.memory_stats()
    rng = random.Random(1)
    live: list[torch.Tensor] = []
    for _ in range(400):
        if live and rng.random() < 0.5:
            live.pop(rng.randrange(len(live)))
        live.append(bytes_on(device, rng.choice([rng.randrange(1, 4000), rng.randrange(1, 3 * MiB), 20 * MiB])))
    during = device_module.memory_stats()
    assert during["allocation.all.current"] - before["allocation.all.current"] == len(live)
    requested = sum(t.nbytes for t in live)
    assert during["requested_bytes.all.current"] - before["requested_bytes.all.current"] == requested
    live.clear()
    device_module.empty_cache()
    after = device_module.memory_stats()
    for key, value in after.items():
        if key.endswith(".current"):
            assert value == before[key], key
        if key.endswith(".allocated") and ".all." in key:
            stem = key.removesuffix("allocated")
            assert value - after[stem + "freed"] == after[stem + "current"] - before[stem + "current"], key
        if key.endswith(".peak"):
            assert value >= after[key.removesuffix("peak") + "current"], key
    assert after["allocation.all.allocated"] == 400
    assert after["num_device_alloc"] == after["num_device_free"] == after["segment.all.allocated"] > 0
    assert after["num_sync_all_streams"] >= 1
    for parts in (("small_pool", "large_pool"),):
        for name in ("allocation", "allocated_bytes", "active", "segment", "reserved_bytes", "inactive_split"):
            assert sum(after[f"{name}.{part}.allocated"] for part in parts) == after[f"{name}.all.allocated"]
    device_module.reset_peak_memory_stats()
    device_module.reset_accumulated_memory_stats()
    reset = device_module.memory_stats()
    assert all(reset[k] == reset[k.removesuffix("peak") + "current"] for k in reset if k.endswith(".peak"))
    assert all(v == 0 for k, v in reset.items() if k.endswith((".allocated", ".freed")) or k.startswith("num_"))


def test_running_out_of_memory_tries_again_first(device: str, device_module: ModuleType) -> None:
    device_module.reset_accumulated_memory_stats()
    _, total = device_module.mem_get_info()
    for _ in range(2):
        torch.empty(total // 5 * 3, dtype=torch.uint8, device=device)
        torch.empty(total // 10 * 7, dtype=torch.uint8, device=device)
        device_module.empty_cache()
    stats = device_module.memory_stats()
    assert (stats["num_alloc_retries"], stats["num_ooms"]) == (2, 0)
    kept = torch.full((MiB,), 3.0, device=device)
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate"):
        torch.empty(total, dtype=torch.uint8, device=device)
    stats = device_module.memory_stats()
    assert (stats["num_alloc_retries"], stats["num_ooms"]) == (3, 1)
    assert (kept == 3).all().item()


@pytest.mark.needs("emulation")  # on copies, an operator may hold a result twice for a moment
def test_threads_give_up_their_cache_to_each_other(device: str, device_module: ModuleType) -> None:
    """What 4 threads need fits; what they have cached in other sizes and on other streams as well does not."""
    failures: list[str] = []
    limit = device_module.memory_reserved() + 400 * MiB  # what other tests hold stays
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        rng = random.Random(number)
        try:
            with torch.Stream(device):
                barrier.wait(60)
                for step in range(25):
                    x = torch.full((rng.randrange(60, 90) * MiB,), step, dtype=torch.uint8, device=device)
                    assert x[-1].item() == step
                    del x
        except BaseException as error:
            failures.append(f"thread {number}: {error!r}")

    device_module.set_per_process_memory_fraction(limit / device_module.mem_get_info()[1])
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert device_module.memory_reserved() <= limit
    finally:
        device_module.set_per_process_memory_fraction(1)
    assert failures == []


@pytest.mark.needs("emulation")  # copies in host memory count as the process's too
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system has no /proc/self/statm to read")
def test_the_system_gets_its_memory_back(device: str, device_module: ModuleType) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    size = 256 * MiB
    start = resident()
    x = torch.ones(size, dtype=torch.uint8, device=device)
    device_module.synchronize()
    if resident() - start < size // 2:
        pytest.skip("this device's memory is not the process's")
    del x
    assert resident() - start > size // 2
    device_module.empty_cache()
    assert resident() - start < size // 8


def test_a_storage_grows_and_shrinks(device: str, device_module: ModuleType) -> None:
    storage = torch.arange(1000, dtype=torch.int64, device=device).untyped_storage()
    before = device_module.memory_allocated()
    storage.resize_(8 * MiB)
    assert device_module.memory_allocated() - before >= 7 * MiB
    x = torch.empty(0, dtype=torch.int64, device=device).set_(storage)
    assert torch.equal(x[:1000].cpu(), torch.arange(1000))
    x[1000:] = 1
    storage.resize_(8 * 1000)
    assert torch.equal(x[:1000].cpu(), torch.arange(1000))
    assert device_module.memory_allocated() <= before
