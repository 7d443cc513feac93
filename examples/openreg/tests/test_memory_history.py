"""Snapshots of the allocator and the history of what it did, in the format of PyTorch's memory visualizer."""

import collections
import gc
import itertools
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.cuda import _memory_viz

MiB = 1 << 20


@pytest.fixture(autouse=True)
def _no_history(device: str, device_module: ModuleType) -> Iterator[None]:
    gc.collect()
    torch.empty(1, device=device)
    device_module.empty_cache()
    yield
    device_module.memory._record_memory_history(None)
    device_module.memory._record_memory_history("state", clear_history=True)
    device_module.memory._record_memory_history(None)


def bytes_on(device: str, size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device=device)


def actions(snapshot: dict[str, Any], device: int = 0) -> list[str]:
    return [entry["action"] for entry in snapshot["device_traces"][device]]


def test_segments_are_what_is_reserved(device: str, device_module: ModuleType) -> None:
    tensors = [bytes_on(device, size) for size in (100, 1000, MiB, 3 * MiB, 30 * MiB)]
    del tensors[1]
    segments = device_module.memory_snapshot()
    stats = device_module.memory_stats()
    here = [s for s in segments if s["device"] == 0]
    assert sum(s["total_size"] for s in here) == stats["reserved_bytes.all.current"]
    assert sum(s["allocated_size"] for s in here) == stats["allocated_bytes.all.current"]
    assert sum(s["active_size"] for s in here) == stats["active_bytes.all.current"]
    assert sum(s["requested_size"] for s in here) == stats["requested_bytes.all.current"]
    assert len(here) == stats["segment.all.current"]
    assert sum(s["segment_type"] == "small" for s in here) == stats["segment.small_pool.current"]
    live = {b["address"]: b for s in here for b in s["blocks"] if b["state"] == "active_allocated"}
    for t in tensors:
        assert live[t.data_ptr()]["requested_size"] == t.nbytes
    for s in here:
        addresses = [b["address"] for b in s["blocks"]] + [s["address"] + s["total_size"]]
        assert [b["size"] for b in s["blocks"]] == [y - x for x, y in itertools.pairwise(addresses)]
    assert device_module.memory_snapshot((7, 7)) == []


def test_actions_in_their_order(device: str, device_module: ModuleType) -> None:
    device_module.memory._record_memory_history()
    x = bytes_on(device, 30 * MiB)
    address = x.data_ptr()
    del x
    device_module.empty_cache()
    snapshot = device_module.memory._snapshot()
    expected = ["segment_alloc", "alloc", "free_requested", "free_completed", "segment_free", "snapshot"]
    assert actions(snapshot) == expected
    for entry in snapshot["device_traces"][0][:-1]:
        assert (entry["addr"], entry["size"], entry["stream"], entry["pool_id"]) == (address, 30 * MiB, 0, (0, 0))
    times = [entry["time_us"] for entry in snapshot["device_traces"][0]]
    assert times == sorted(times)
    device_module.memory._record_memory_history(None)
    bytes_on(device, 100)
    assert actions(device_module.memory._snapshot()) == expected


def test_frames_name_the_caller(device: str, device_module: ModuleType) -> None:
    device_module.memory._record_memory_history(stacks="python")
    x = bytes_on(device, 30 * MiB)
    snapshot = device_module.memory._snapshot()
    segment = next(s for s in snapshot["segments"] if s["address"] == x.data_ptr())
    for frames in (segment["frames"], segment["blocks"][0]["frames"], snapshot["device_traces"][0][1]["frames"]):
        assert [f["name"] for f in frames[:2]] == ["bytes_on", "test_frames_name_the_caller"]
        assert frames[0]["filename"] == __file__
        assert frames[0]["line"] == bytes_on.__code__.co_firstlineno + 1


def test_stacks_hold_frames_of_all_languages(device: str, device_module: ModuleType) -> None:
    device_module.memory._record_memory_history(stacks="all", context="alloc")
    x = bytes_on(device, 30 * MiB)
    address = x.data_ptr()
    del x
    trace = device_module.memory._snapshot()["device_traces"][0]
    names = [f["name"] for f in trace[1]["frames"]]
    assert trace[1]["addr"] == address
    assert "bytes_on" in names
    assert len(names) > 5
    assert trace[2]["frames"] == []


@pytest.mark.parametrize(
    ("context", "live", "traced"), [(None, False, False), ("state", True, False), ("alloc", True, True)]
)
def test_contexts_that_are_kept(context: Any, live: bool, traced: bool, device: str, device_module: ModuleType) -> None:
    device_module.memory._record_memory_history(context=context, stacks="python")
    x = bytes_on(device, 30 * MiB)
    snapshot = device_module.memory._snapshot()
    blocks = [b for s in snapshot["segments"] for b in s["blocks"] if b["address"] == x.data_ptr()]
    assert [bool(b["frames"]) for b in blocks] == [live]
    assert [bool(e["frames"]) for e in snapshot["device_traces"][0][:2]] == [traced, traced]


def test_state_alone_records_no_actions(device: str, device_module: ModuleType) -> None:
    device_module.memory._record_memory_history("state", stacks="python")
    x = bytes_on(device, 30 * MiB)
    snapshot = device_module.memory._snapshot()
    assert all(trace == [] for trace in snapshot["device_traces"])
    frames = next(b["frames"] for s in snapshot["segments"] for b in s["blocks"] if b["address"] == x.data_ptr())
    assert frames[0]["name"] == "bytes_on"


def test_the_newest_actions_are_kept(device: str, device_module: ModuleType) -> None:
    device_module.memory._record_memory_history(max_entries=5, context=None, skip_actions=["snapshot"])
    for size in range(1, 8):
        bytes_on(device, size * 512)
    trace = device_module.memory._snapshot()["device_traces"][0]
    assert [(e["action"], e["size"] // 512) for e in trace] == [
        ("free_requested", 6),
        ("free_completed", 6),
        ("alloc", 7),
        ("free_requested", 7),
        ("free_completed", 7),
    ]
    device_module.memory._record_memory_history(max_entries=2)
    assert [e["size"] // 512 for e in device_module.memory._snapshot()["device_traces"][0][:1]] == [7]
    device_module.memory._record_memory_history(clear_history=True)
    assert actions(device_module.memory._snapshot()) == ["snapshot"]


def test_skipped_actions_are_not_recorded(device: str, device_module: ModuleType) -> None:
    device_module.memory._record_memory_history(skip_actions=["free_requested", "segment_alloc", "snapshot"])
    bytes_on(device, 30 * MiB)
    assert actions(device_module.memory._snapshot()) == ["alloc", "free_completed"]
    with pytest.raises(RuntimeError, match="nonsense"):
        device_module.memory._record_memory_history(skip_actions=["nonsense"])
    for wrong in ({"enabled": "no"}, {"context": "no"}, {"stacks": "no"}):
        with pytest.raises(ValueError, match="no"):
            device_module.memory._record_memory_history(**wrong)


def test_a_block_that_another_stream_uses_awaits_its_free(device: str, device_module: ModuleType) -> None:
    device_module.memory._record_memory_history(context=None)
    stream = torch.Stream(device)
    x = bytes_on(device, 30 * MiB)
    address = x.data_ptr()
    x.record_stream(stream)
    del x
    snapshot = device_module.memory._snapshot()
    assert actions(snapshot) == ["segment_alloc", "alloc", "free_requested", "snapshot"]
    states = [b["state"] for s in snapshot["segments"] for b in s["blocks"] if b["address"] == address]
    assert states == ["active_awaiting_free"]
    device_module.synchronize()
    device_module.empty_cache()
    assert actions(device_module.memory._snapshot())[4:] == ["free_completed", "segment_free", "snapshot"]


def test_running_out_of_memory_is_an_action(device: str, device_module: ModuleType) -> None:
    device_module.memory._record_memory_history()
    free, total = device_module.mem_get_info()
    with pytest.raises(torch.OutOfMemoryError):
        bytes_on(device, 2 * total)
    entry = device_module.memory._snapshot()["device_traces"][0][0]
    assert (entry["action"], entry["size"], entry["device_free"]) == ("oom", 2 * total, free)
    assert "bytes_on" in [f["name"] for f in entry["frames"]]
    assert "addr" not in entry


def test_streams_and_devices_are_told_apart(
    device: str, device_module: ModuleType, second_device: torch.device
) -> None:
    device_module.memory._record_memory_history(context=None, skip_actions=["snapshot"])
    with torch.Stream(device) as stream:
        x = bytes_on(device, 30 * MiB)
        assert device_module.current_stream() == stream
    y = torch.empty(30 * MiB, dtype=torch.uint8, device=second_device)
    here, there = device_module.memory._snapshot()["device_traces"][:2]
    assert [(e["addr"], e["stream"] != 0) for e in here] == [(x.data_ptr(), True)] * 2
    assert [(e["addr"], e["stream"]) for e in there] == [(y.data_ptr(), 0)] * 2


def test_threads_record_together(device: str, device_module: ModuleType) -> None:
    """Stacks need the GIL, which other threads hold while they free tensors and take snapshots."""
    device_module.memory._record_memory_history(stacks="python", max_entries=10_000, skip_actions=["snapshot"])

    def work() -> None:
        for step in range(100):
            x = torch.full((step + 1,), 1.0, device=device)
            y = x + x
            del x
            if step % 20 == 0:
                device_module.memory._snapshot()
            del y

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    device_module.empty_cache()  # completes what was freed while a kernel of another thread ran
    trace = device_module.memory._snapshot()["device_traces"][0]
    counts = collections.Counter(entry["action"] for entry in trace)
    assert counts["alloc"] == counts["free_requested"] == counts["free_completed"] >= 1600
    assert all("work" in [f["name"] for f in e["frames"]] for e in trace if e["action"] == "alloc")
    live: set[int] = set()
    for entry in trace:
        if entry["action"] == "alloc":
            assert entry["addr"] not in live
            live.add(entry["addr"])
        elif entry["action"] == "free_completed":
            live.remove(entry["addr"])


def test_the_visualizer_reads_it(device: str, device_module: ModuleType, tmp_path: Path) -> None:
    device_module.memory._record_memory_history()
    layer = torch.nn.Linear(100, 100, device=device)
    layer(torch.ones(3, 100, device=device)).sum().backward()
    with pytest.raises(torch.OutOfMemoryError):
        bytes_on(device, 1 << 50)
    big = bytes_on(device, 30 * MiB)
    file = tmp_path / "snapshot.pickle"
    device_module.memory._dump_snapshot(file)
    snapshot = pickle.loads(file.read_bytes())

    def lines(text: str) -> list[str]:
        return text.splitlines()

    flames = _memory_viz.segments(snapshot, format_flamegraph=lines)
    assert any(f"seg_{big.data_ptr()};active_allocated;" in line and "bytes_on" in line for line in flames)
    assert len(_memory_viz.memory(snapshot, format_flamegraph=lines)) == len(flames)
    assert f"segments: {len(snapshot['segments'])}\n" in _memory_viz.segsum(snapshot)
    trace = _memory_viz.trace(snapshot)
    assert "raise OutOfMemoryError" in trace
    assert f"cudaMalloc({big.data_ptr()}, 30.0MiB)" in trace
    for html in (_memory_viz.trace_plot(snapshot), _memory_viz.segment_plot(snapshot)):
        assert "add_local_files" in html
    kept = _memory_viz.trace_plot(snapshot, filter_freed=True)
    assert kept and "free_requested" not in actions(snapshot)


def test_settings_are_part_of_it(device_module: ModuleType) -> None:
    settings = device_module.memory._snapshot()["allocator_settings"]
    assert settings["PYTORCH_ALLOC_CONF"] == torch._C._accelerator_getAllocatorSettings()
    assert settings["garbage_collection_threshold"] == 0
