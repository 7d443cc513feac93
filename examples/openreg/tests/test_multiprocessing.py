"""Tensors that are sent to another process share memory: each process sees the other's writes."""

import gc
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import ModuleType
from typing import Any

import peer
import pytest
import torch
import torch.multiprocessing as mp
from conftest import PACKAGE, PROJECT, memory_in_use

pytestmark = pytest.mark.needs("sharing")

SPAWN = mp.get_context("spawn")


class Peer:
    """A process that runs functions of peer.py."""

    def __init__(self) -> None:
        self.connection, other = SPAWN.Pipe()
        self.process = SPAWN.Process(target=peer.serve, args=(PACKAGE, other), daemon=True)
        self.process.start()
        other.close()

    def send(self, function: Callable[..., Any], *args: Any) -> None:
        self.connection.send((function.__name__, args))

    def receive(self) -> Any:
        assert self.connection.poll(60), "the other process does not answer"
        answer = self.connection.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def __call__(self, function: Callable[..., Any], *args: Any) -> Any:
        self.send(function, *args)
        return self.receive()

    def end(self) -> None:
        self.connection.send(None)
        self.process.join(30)
        assert self.process.exitcode == 0


@pytest.fixture(scope="module")
def other() -> Iterator[Peer]:
    gc.collect()  # what earlier tests left in cycles, which would be freed in the middle of a test
    process = Peer()
    yield process
    process.end()


@pytest.fixture(autouse=True)
def nothing_is_left(device: str, device_module: ModuleType, other: Peer) -> Iterator[None]:
    def allocated() -> tuple[int, int]:
        for _ in range(2):  # what goes there and back has two senders
            device_module.ipc_collect()
            other(peer.collect, device)
        return device_module.memory_allocated(), other(peer.allocated, device)

    before = allocated()
    yield
    if allocated() != before:
        gc.collect()  # an exception of the other process holds the frames through which it came, and their tensors
    assert allocated() == before


def test_each_process_sees_the_writes_of_the_other(device: str, other: Peer) -> None:
    x = torch.arange(10, device=device)
    other(peer.keep, "x", x)
    assert other(peer.values, "x") == list(range(10))
    other(peer.fill, "x", 7)
    assert x.tolist() == [7] * 10
    x.add_(1)
    torch.accelerator.synchronize()
    assert other(peer.values, "x") == [8] * 10
    other(peer.drop, "x")


def test_a_tensor_of_the_other_process_is_shared(device: str, other: Peer) -> None:
    x = other(peer.make, "x", [1.0, 2.0, 3.0], device)
    assert x.device == torch.device(device, 0)
    assert (x * 2).tolist() == [2.0, 4.0, 6.0]
    x.zero_()
    torch.accelerator.synchronize()
    assert other(peer.values, "x") == [0.0, 0.0, 0.0]
    other(peer.drop, "x")
    assert x.tolist() == [0.0, 0.0, 0.0], "what was received outlives the sender's own tensor"


def test_received_memory_does_not_count_as_allocated(device: str, device_module: ModuleType, other: Peer) -> None:
    before = memory_in_use(), device_module.mem_get_info()
    x = other(peer.make, "x", [1.0] * 1000, device)
    assert (device_module.memory_allocated(), device_module.mem_get_info()) == before
    del x
    other(peer.drop, "x")


@pytest.mark.parametrize("dtype", [torch.float16, torch.int64, torch.bool, torch.complex64], ids=str)
def test_a_received_view_has_values_and_strides(dtype: torch.dtype, device: str, other: Peer) -> None:
    x = torch.arange(60, device=device).reshape(3, 4, 5).to(dtype)
    view = x[1:, ::2].transpose(0, 2)
    other(peer.keep, "view", view)
    assert other(peer.values, "view") == view.tolist()
    about = other(peer.describe, "view")
    assert (about["shape"], about["stride"], about["offset"]) == (view.shape, view.stride(), view.storage_offset())
    assert (about["dtype"], about["device"]) == (dtype, str(view.device))
    assert about["nbytes"] == x.untyped_storage().nbytes()
    other(peer.fill, "view", 1)
    assert view.tolist() == torch.ones_like(view).tolist()
    other(peer.drop, "view")


def test_small_blocks_of_one_segment_are_shared_one_by_one(device: str, other: Peer) -> None:
    tensors = [torch.full((3,), float(i), device=device) for i in range(20)]
    other(peer.keep, "list", tensors)
    del tensors[::2]
    received = other(peer.give, "list")
    assert [x.tolist() for x in received] == [[float(i)] * 3 for i in range(20)]
    other(peer.drop, "list")
    assert [x.tolist() for x in tensors] == [[float(i)] * 3 for i in range(1, 20, 2)]


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3)])
def test_a_tensor_without_elements_can_be_sent(shape: tuple[int, ...], device: str, other: Peer) -> None:
    other(peer.keep, "x", torch.empty(shape, device=device))
    about = other(peer.describe, "x")
    assert (about["shape"], about["device"], about["nbytes"]) == (shape, f"{device}:0", 0)
    other(peer.drop, "x")


def test_a_tensor_arrives_on_its_device(second_device: torch.device, other: Peer) -> None:
    x = torch.arange(5, device=second_device)
    other(peer.keep, "x", x)
    assert other(peer.describe, "x")["device"] == str(second_device)
    other(peer.fill, "x", 3)
    assert x.tolist() == [3] * 5
    other(peer.drop, "x")


def test_tensors_of_one_storage_keep_sharing_it(device: str, other: Peer) -> None:
    x = torch.zeros(10, device=device)
    other(peer.keep, "together", [x, x[2:4]])
    first, second = other(peer.give, "together")
    assert first.untyped_storage()._cdata == second.untyped_storage()._cdata
    del first, second
    other(peer.keep, "later", x[5:])
    storages = {other(peer.describe, name)["storage"] for name in ("later",)}
    other(peer.keep, "again", x)
    storages.add(other(peer.describe, "again")["storage"])
    assert len(storages) == 1
    other(peer.fill, "later", 1)
    assert other(peer.values, "again") == [0.0] * 5 + [1.0] * 5
    other(peer.drop, "together", "later", "again")


def test_parameters_arrive_as_parameters(device: str, other: Peer) -> None:
    module = torch.nn.Linear(2, 2, device=device)
    leaf = torch.zeros(3, device=device, requires_grad=True)
    for name, x in [("weight", module.weight), ("leaf", leaf), ("detached", leaf.detach())]:
        other(peer.keep, name, x)
    about = {name: other(peer.describe, name) for name in ("weight", "leaf", "detached")}
    assert [about[name]["type"] for name in about] == ["Parameter", "Tensor", "Tensor"]
    assert [about[name]["requires_grad"] for name in about] == [True, True, False]
    other(peer.fill, "weight", 1)
    assert module.weight.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(RuntimeError, match="non-leaf"):
        other.send(peer.keep, "x", leaf * 2)
    other(peer.drop, *about)


def test_module_shares_its_parameters(device: str, other: Peer) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 1, bias=False, device=device), torch.nn.ReLU())
    other(peer.keep, "module", module)
    received = other(peer.give, "module")
    with torch.no_grad():
        received[0].weight.fill_(3)
    assert module[0].weight.tolist() == [[3.0, 3.0]]
    other(peer.drop, "module")


def test_storages_can_be_sent(device: str, other: Peer) -> None:
    x = torch.zeros(4, device=device)
    other(peer.keep, "storages", [x.untyped_storage(), x._typed_storage()])
    untyped, typed = other(peer.give, "storages")
    assert (typed.dtype, typed._untyped_storage._cdata) == (torch.float32, untyped._cdata)
    torch.empty(0, device=device).set_(untyped).fill_(2)
    assert x.tolist() == [2.0] * 4
    other(peer.drop, "storages")


def test_a_sent_tensor_lives_after_its_sender_frees_it(device: str, device_module: ModuleType, other: Peer) -> None:
    before = memory_in_use()
    x = torch.arange(1000, device=device)
    other(peer.keep, "x", x)
    del x
    device_module.ipc_collect()
    assert device_module.memory_allocated() > before
    scratch = torch.full((1000,), -1, device=device)
    assert other(peer.values, "x") == list(range(1000))
    del scratch
    other(peer.drop, "x")
    device_module.ipc_collect()
    assert device_module.memory_allocated() == before


def test_memory_is_kept_until_each_message_is_dropped(device: str, device_module: ModuleType, other: Peer) -> None:
    before = memory_in_use()
    x = torch.zeros(1000, device=device)
    for name in "abc":
        other(peer.keep, name, x)
    del x
    for name in "abc":
        device_module.ipc_collect()
        assert device_module.memory_allocated() > before
        other(peer.drop, name)
    device_module.ipc_collect()
    assert device_module.memory_allocated() == before


def test_sending_frees_what_receivers_have_dropped(device: str, device_module: ModuleType, other: Peer) -> None:
    before = memory_in_use()
    for _ in range(20):
        other(peer.keep, "x", torch.zeros(1000, device=device))
    assert device_module.memory_allocated() <= before + 4 * 4096
    other(peer.drop, "x")


def test_memory_that_both_freed_returns_to_the_device(device: str, device_module: ModuleType, other: Peer) -> None:
    free = device_module.mem_get_info()[0]
    x = torch.zeros(30 << 20, dtype=torch.uint8, device=device)
    other(peer.keep, "x", x)
    del x
    other(peer.drop, "x")
    device_module.ipc_collect()
    device_module.empty_cache()
    assert device_module.mem_get_info()[0] >= free


def test_memory_that_receivers_dropped_is_reused_before_memory_runs_out(
    device: str, device_module: ModuleType, other: Peer
) -> None:
    device_module.empty_cache()
    total = device_module.mem_get_info()[1]
    size = 60 << 20
    device_module.set_per_process_memory_fraction((device_module.memory_reserved() + size + (size >> 1)) / total)
    try:
        x = torch.zeros(size, dtype=torch.uint8, device=device)
        other(peer.keep, "x", x)
        del x
        with pytest.raises(torch.OutOfMemoryError):
            torch.zeros(size, dtype=torch.uint8, device=device)
        other(peer.drop, "x")
        assert torch.zeros(size, dtype=torch.uint8, device=device)[-1].item() == 0
    finally:
        device_module.set_per_process_memory_fraction(1)


def test_a_received_tensor_can_be_sent_on(device: str, other: Peer) -> None:
    # There and back: the memory is its own again.
    x = torch.arange(4, device=device)
    other(peer.keep, "x", x[1:])
    mine = other(peer.give, "x")
    other(peer.drop, "x")
    assert mine.data_ptr() == x.data_ptr() + x.element_size()
    mine.fill_(9)
    assert x.tolist() == [0, 9, 9, 9]
    # And what it made itself.
    made = other(peer.make, "made", [1, 2], device)
    other(peer.keep, "echo", made)
    made.fill_(5)
    torch.accelerator.synchronize()
    del made
    assert other(peer.values, "made") == other(peer.values, "echo") == [5, 5]
    other(peer.drop, "made", "echo")


def test_a_process_can_receive_its_own_tensor(device: str) -> None:
    x = torch.zeros(3, device=device)
    message = ForkingPickler.dumps(x)
    y = pickle.loads(message)
    y.fill_(2)
    assert x.tolist() == [2.0] * 3


def test_message_can_be_received_once(device: str) -> None:
    message = bytes(ForkingPickler.dumps(torch.ones(3, device=device)))
    x = pickle.loads(message)
    assert x.tolist() == [1.0] * 3
    del x
    with pytest.raises(RuntimeError, match="received before"):
        pickle.loads(message)


def bindings() -> Any:
    return import_module(f"{PACKAGE}._C")._sharing


ALTERED: dict[str, tuple[int, Any]] = {
    "device": (0, 1),
    "device that is not there": (0, 100),
    "negative device": (0, -1),
    "device beyond an int8": (0, 256),
    "size": (1, 1 << 40),
    "size that overflows with the offset": (1, 2**64 - 1),
    "negative size": (1, -4),
    "handle": (2, b"nonsense"),
    "offset": (3, 1 << 40),
    "offset that overflows": (3, 2**64 - 512),
    "text for an offset": (3, "0"),
    "handle of the ticket": (4, b""),
    "index of the ticket": (5, 5000),
    "negative index": (5, -1),
    "index that overflows": (5, 2**60),
    "index that overflows the message": (5, 2**70),
    "serial of the ticket": (6, 2**40),
}


@pytest.mark.parametrize(("part", "value"), ALTERED.values(), ids=ALTERED)
def test_altered_message_is_refused(part: int, value: Any, device: str, device_module: ModuleType, other: Peer) -> None:
    if device_module.device_count() < 2 and value == 1:
        pytest.skip("this needs two devices")
    x = torch.ones(1000, device=device)
    for receive in (peer.receive, lambda *message: other(peer.receive, *message)):
        message = bindings().share_storage(x.untyped_storage())
        altered = message[:part] + (value,) + message[part + 1 :]
        with pytest.raises((ValueError, RuntimeError)) as caught:
            receive(device, altered)
        assert re.match("(this|device|a) ", str(caught.value)), caught.value  # not a type that cannot be cast
        with suppress(RuntimeError):
            receive(device, message)  # gives the ticket back, if the message was refused before it was taken
    assert x.sum().item() == 1000


def test_message_of_wrong_length_is_refused(device: str) -> None:
    x = torch.ones(4, device=device)
    message = bindings().share_storage(x.untyped_storage())
    with pytest.raises(ValueError, match="6 parts"):
        bindings().open_storage(message[:-1])
    assert bindings().open_storage(message).nbytes() >= 16


def test_shared_storage_keeps_its_size(device: str, other: Peer) -> None:
    x = torch.zeros(4, device=device)
    other(peer.keep, "x", x)
    assert not other(peer.describe, "x")["resizable"]
    with pytest.raises(RuntimeError, match="not resizable"):
        x.untyped_storage().resize_(1000)
    other(peer.drop, "x")


def test_other_devices_are_left_to_core(other: Peer) -> None:
    x = torch.arange(3)
    other(peer.keep, "x", [x, torch.empty(2, 3, device="meta")])
    received, meta = other(peer.give, "x")
    assert received.tolist() == [0, 1, 2]
    assert (meta.device.type, meta.shape) == ("meta", (2, 3))
    received.fill_(4)
    assert x.tolist() == [4, 4, 4]
    other(peer.drop, "x")


def test_tensors_are_sent_by_queues_and_as_arguments(device: str) -> None:
    x = torch.arange(5, device=device)
    queue, results = SPAWN.Queue(), SPAWN.Queue()
    process = SPAWN.Process(target=peer.double, args=(queue, results))
    process.start()
    queue.put(x)
    assert results.get(timeout=60) == [0, 2, 4, 6, 8]
    process.join(30)
    assert x.tolist() == [0, 2, 4, 6, 8]

    parameter = torch.nn.Parameter(torch.ones(2, device=device))
    process = SPAWN.Process(target=peer.double_each, args=(x, parameter))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert (x.tolist(), parameter.tolist()) == ([0, 4, 8, 12, 16], [2.0, 2.0])


@pytest.mark.parametrize("recorded", [False, True], ids=["new", "recorded"])
def test_a_sent_event_orders_work_of_both_processes(recorded: bool, device: str, other: Peer) -> None:
    event = torch.Event(device, interprocess=True)
    if recorded:
        event.record()
    x = torch.zeros(1000, device=device)
    for name, value in [("event", event), ("x", x)]:
        other(peer.keep, name, value)
    assert other(peer.query, "event")
    for i in range(5):
        stream = torch.Stream(device)
        with stream:
            x.fill_(i)
            event.record()
        assert other(peer.wait_and_read, "event", "x") == [float(i)] * 1000
        other(peer.record, "event", "x", i + 0.5)
        stream.wait_event(event)
        with stream:
            assert x.tolist() == [i + 0.5] * 1000
        event.synchronize()
        assert event.query()
    other(peer.drop, "event", "x")


def test_a_received_event_can_be_waited_for(second_device: torch.device, other: Peer) -> None:
    event = other(peer.make_event, "event", second_device)
    assert event.device == second_device
    assert event.query()
    x = other(peer.make, "x", [0.0] * 1000, str(second_device))
    other(peer.record, "event", "x", 5)
    event.synchronize()
    assert x.tolist() == [5.0] * 1000
    other(peer.drop, "event", "x")


def test_events_with_timing_or_without_interprocess_are_refused(device: str) -> None:
    with pytest.raises(ValueError, match="enable_timing=False"):
        ForkingPickler.dumps(torch.Event(device, enable_timing=True))
    message = bytes(ForkingPickler.dumps(torch.Event(device)))
    with pytest.raises(RuntimeError, match="made the handle itself"):
        pickle.loads(message)


def test_memory_is_freed_when_the_other_process_dies(device: str, device_module: ModuleType) -> None:
    before = memory_in_use()
    dying = Peer()
    x = torch.zeros(1000, device=device)
    dying(peer.keep, "x", x)
    del x
    mine = dying(peer.make, "mine", [1, 2, 3], device)
    device_module.ipc_collect()
    assert device_module.memory_allocated() > before
    dying.send(peer.make, "late", [1], device)
    assert dying.connection.poll(60)
    late = dying.connection.recv_bytes()
    dying.send(peer.die)
    dying.process.join(30)

    device_module.ipc_collect()
    assert device_module.memory_allocated() == before, "what a dead process held is free again"
    assert mine.tolist() == [1, 2, 3], "what is open stays"
    del mine
    with pytest.raises(RuntimeError, match="has ended"):
        pickle.loads(late)


def test_the_example_runs_in_two_processes() -> None:
    script = PROJECT / "examples" / "two_processes.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "[0, 2, 4, 6, 8]" in done.stdout


@pytest.mark.parametrize(
    ("failure", "code", "told"),
    [
        ("raise ValueError('out of order')", 1, "ValueError: out of order"),
        ("sys.exit(3)", 3, ""),
        ("__import__('os').kill(__import__('os').getpid(), 9)", -9, ""),
    ],
    ids=["error", "exit", "killed"],
)
def test_example_ends_with_the_failure_of_its_child(failure: str, code: int, told: str, tmp_path: Path) -> None:
    text = (PROJECT / "examples" / "two_processes.py").read_text(encoding="utf-8")
    script = tmp_path / "two_processes.py"
    script.write_text(text.replace("        x.mul_(2)", f"        {failure}"), encoding="utf-8")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stdout == ""
    assert told in done.stderr
    assert f"the other process failed with exit code {code}\n" in done.stderr
