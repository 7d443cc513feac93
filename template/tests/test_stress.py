"""Many threads with streams, events and short-lived tensors at once. The tests check every value, and that no memory leaks.

Seeds determine the actions of each thread, but not their order, so it may take several runs to repeat a failure.
"""

import gc
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from conftest import DEVICE, MODULE
from torch import Tensor

THREADS = 8
ROUNDS = 1000
DEADLINE = 12.0  # seconds after which the threads stop, however far they are
SIZES = (1, 7, 130, 1000, 20_000, 300_000)


class Worker(threading.Thread):
    """A thread with its own streams and tensors. All elements of a tensor hold the same number."""

    def __init__(self, seed: int, shared: list[torch.Stream], until: float) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.until = until
        self.streams = [
            torch.Stream(s.device, priority=-self.random.randrange(3)) for s in shared for _ in range(2)
        ] + shared
        self.tensors: list[tuple[Tensor, float, torch.Stream]] = []
        self.failure: BaseException | None = None
        self.rounds = 0
        self.checked = 0

    def run(self) -> None:
        actions = [self.create, self.upload, self.native, self.emulated, self.move, self.drop, self.check, self.events]
        actions = actions * 20 + [torch.accelerator.empty_cache]
        try:
            for _ in range(ROUNDS):
                if time.monotonic() > self.until:
                    break
                self.random.choice(actions)()
                self.rounds += 1
            while self.tensors:
                self.check()
                self.tensors.pop(0)
        except BaseException as error:
            self.failure = error

    def add(self, tensor: Tensor, value: float, stream: torch.Stream) -> None:
        self.tensors.append((tensor, value, stream))
        if len(self.tensors) > 12:
            self.drop()

    def take(self) -> tuple[Tensor, float, torch.Stream]:
        """Remove a tensor from the list, and choose a stream of its device for the next operator."""
        if not self.tensors:
            self.create()
        tensor, value, last = self.tensors.pop(self.random.randrange(len(self.tensors)))
        stream = self.random.choice([s for s in self.streams if s.device == tensor.device])
        if stream != last:
            stream.wait_stream(last)
            tensor.record_stream(stream)
        return tensor, value, stream

    def create(self) -> None:
        value, stream = float(self.random.randrange(1, 1000)), self.random.choice(self.streams)
        with stream:
            self.add(torch.full((self.random.choice(SIZES),), value, device=stream.device), value, stream)

    def upload(self) -> None:
        value, stream = float(self.random.randrange(1, 1000)), self.random.choice(self.streams)
        source = torch.full((self.random.choice(SIZES),), value)
        with stream:
            pinned = source.pin_memory() if self.random.random() < 0.7 else source
            self.add(pinned.to(stream.device, non_blocking=True), value, stream)

    def native(self) -> None:
        tensor, value, stream = self.take()
        with stream:
            torch.nn.functional.leaky_relu_(tensor.abs_(), 0.5)
            other = tensor.abs()
        self.add(tensor, value, stream)
        self.add(other, value, stream)

    def emulated(self) -> None:
        tensor, value, stream = self.take()
        with stream:
            tensor.neg_().add_(2 * value + 1)
        self.add(tensor, value + 1, stream)

    def move(self) -> None:
        tensor, value, stream = self.take()
        target = self.random.choice(self.streams)
        if target.device == tensor.device:
            target.wait_stream(stream)
            tensor.record_stream(target)
            stream = target
        with stream, target:
            self.add(tensor.to(target.device, copy=True, non_blocking=True), value, target)
        self.add(tensor, value, stream)

    def drop(self) -> None:
        if self.tensors:
            self.tensors.pop(self.random.randrange(len(self.tensors)))

    def check(self) -> None:
        tensor, value, stream = self.take()
        with stream:
            back = torch.empty(tensor.shape, pin_memory=self.random.random() < 0.5)
            back.copy_(tensor, non_blocking=True)
            stream.synchronize()
        assert torch.all(back == value), f"expected {value} everywhere, found {back.unique()[:5]}"
        self.checked += 1
        self.add(tensor, value, stream)

    def events(self) -> None:
        tensor, value, stream = self.take()
        event = torch.Event(DEVICE, enable_timing=self.random.random() < 0.5)
        event.record(stream)
        others = self.random.sample(self.streams, 2)
        for other in others:
            other.wait_event(event)
        if self.random.random() < 0.3:
            event.synchronize()
            assert event.query()
        self.add(tensor, value, stream)


def run_workers(seed: int) -> list[Worker]:
    devices = [torch.device(DEVICE, i) for i in range(min(2, MODULE.device_count()))]
    shared = [torch.Stream(device) for device in devices]
    until = time.monotonic() + DEADLINE
    workers = [Worker(seed + i, shared, until) for i in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for device in devices:
        torch.accelerator.synchronize(device)
    for worker in workers:
        if worker.failure is not None:
            raise worker.failure
    return workers


@pytest.fixture
def nothing_stays(device_module: ModuleType) -> Iterator[None]:
    """After the test, all its memory must be free again."""

    def state() -> list[tuple[int, ...]]:
        gc.collect()
        devices = range(device_module.device_count())
        for i in devices:
            torch.accelerator.synchronize(i)
        device_module.empty_cache()
        names = ("allocation", "segment", "active", "allocated_bytes", "reserved_bytes")
        stats = [device_module.memory_stats(i) for i in devices]
        return [
            (device_module.mem_get_info(i)[0], *(stats[i][f"{name}.all.current"] for name in names)) for i in devices
        ]

    torch.ones(1, device=DEVICE)  # no statistics before the first allocation
    before = state()
    yield
    assert state() == before


@pytest.mark.parametrize("seed", [0, 1000])
def test_threads_with_streams_and_events_compute_right_values(seed: int, nothing_stays: None) -> None:
    workers = run_workers(seed)
    assert sum(worker.checked for worker in workers) > 100
    assert all(worker.rounds > 20 for worker in workers)


def test_tensors_that_change_threads_keep_their_values(device: str, nothing_stays: None) -> None:
    """One thread allocates memory and another frees it while work on it is still queued."""
    import queue

    handed: queue.SimpleQueue[Tensor | None] = queue.SimpleQueue()
    wrong: list[Tensor] = []

    def consume() -> None:
        while (x := handed.get()) is not None:
            back = x.abs().cpu()
            if not torch.all(back == back[0]):
                wrong.append(back)

    threads = [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(400):
        handed.put(torch.full((SIZES[i % len(SIZES)],), -float(i), device=device))
    for _ in threads:
        handed.put(None)
    for thread in threads:
        thread.join()
    assert not wrong


def resident_bytes() -> int:
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096


@pytest.mark.needs("timing", "pinned_memory")
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this platform does not report the resident size")
def test_nothing_leaks_on_the_host(device: str, nothing_stays: None) -> None:
    def use() -> None:
        for _ in range(500):
            stream, event = torch.Stream(device), torch.Event(device, enable_timing=True)
            with stream:
                x = torch.ones(100, pin_memory=True).to(device, non_blocking=True)
                y = (x.abs_() + 1).view(10, 10).t()
                event.record()
                torch.accelerator.current_stream().wait_event(event)
                y.record_stream(torch.accelerator.current_stream())
            event.query()
        torch.accelerator.synchronize()

    use()
    use()
    gc.collect()
    before = resident_bytes()
    for _ in range(6):
        use()
    gc.collect()
    grown = resident_bytes() - before
    assert grown < 4 << 20, f"{grown} bytes more after 3000 streams, events and tensors"


@pytest.mark.needs("pinned_memory")
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="this platform does not list the threads")
def test_streams_start_few_threads(device: str) -> None:
    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    source = torch.zeros(1 << 20).pin_memory()
    source.to(device)
    before = threads()
    for _ in range(100):
        with torch.Stream(device):
            source.to(device, non_blocking=True)
    torch.accelerator.synchronize()
    assert threads() - before <= 8
