"""Operators whose only kernel is a Python function for the CPU: the kernel may keep operands, make tensors and wait."""

import gc
import warnings
from types import ModuleType

import pytest
import torch
from abilities import EMULATE
from conftest import Define, RunPython, memory_in_use
from torch import Tensor, nn

POLICIES = pytest.mark.parametrize("policy", [EMULATE, "cpu"])


def overwrite_free_memory(device: str, numel: int) -> None:
    """Allocate the free blocks of about this size, and overwrite them."""
    taken = [torch.full((numel,), -1.0, device=device) for _ in range(64)]
    torch.accelerator.synchronize()
    del taken


# What a kernel keeps


@POLICIES
def test_a_kept_operand_keeps_its_values(policy: str, define: Define, device: str, device_module: ModuleType) -> None:
    kept: list[Tensor] = []

    def kernel(x: Tensor) -> Tensor:
        kept.extend([x, x[1:3]])
        return x + 1

    keep = define("keep(Tensor x) -> Tensor", kernel)
    before = memory_in_use()
    with device_module.operators.fallback_policy(policy):
        x = torch.arange(5.0, device=device)
        y = keep(x)
    del x
    overwrite_free_memory(device, 5)
    assert y.tolist() == [1, 2, 3, 4, 5]
    assert kept[0].tolist() == [0, 1, 2, 3, 4]
    assert kept[1].tolist() == [1, 2]
    kept.clear()
    del y
    gc.collect()
    assert device_module.memory_allocated() == before


@pytest.mark.needs("emulation")
def test_a_kept_operand_shares_the_memory(define: Define, device: str) -> None:
    kept: list[Tensor] = []
    keep = define("keep(Tensor x) -> ()", kept.append)
    x = torch.zeros(3, device=device)
    keep(x)
    x.fill_(2)
    torch.accelerator.synchronize()
    assert kept[0].tolist() == [2, 2, 2]


@POLICIES
def test_a_kept_operand_stays_when_its_storage_is_resized(
    policy: str, define: Define, device: str, device_module: ModuleType
) -> None:
    kept: list[Tensor] = []
    keep = define("keep(Tensor x) -> ()", kept.append)
    with device_module.operators.fallback_policy(policy):
        x = torch.arange(4.0, device=device)
        keep(x)
    x.resize_(1 << 20).fill_(7)
    overwrite_free_memory(device, 4)
    assert kept[0].tolist() == [0, 1, 2, 3]


@POLICIES
def test_a_kept_operand_survives_a_resize_by_the_kernel(
    policy: str, define: Define, device: str, device_module: ModuleType
) -> None:
    kept: list[Tensor] = []

    def kernel(x: Tensor) -> Tensor:
        kept.append(x)
        return x.resize_(6).fill_(3)

    grow = define("grow_(Tensor(a!) x) -> Tensor(a!)", kernel)
    with device_module.operators.fallback_policy(policy):
        x = torch.zeros(2, device=device)
        grow(x)
    assert x.tolist() == [3] * 6
    assert kept[0].tolist() == [3] * 6


@POLICIES
def test_a_kernel_may_return_a_tensor_that_it_kept(
    policy: str, define: Define, device: str, device_module: ModuleType
) -> None:
    tables: list[Tensor] = []

    def kernel(x: Tensor) -> Tensor:
        if not tables:
            tables.append(x)
        return tables[0]

    first = define("first(Tensor x) -> Tensor", kernel)
    with device_module.operators.fallback_policy(policy):
        assert first(torch.ones(2, device=device)).tolist() == [1, 1]
        second = first(torch.zeros(2, device=device))
    assert second.tolist() == [1, 1]
    assert second.device.type == device


@POLICIES
def test_quantized_modules_keep_their_half_precision_weights(
    policy: str, device: str, device_module: ModuleType
) -> None:
    """The packed weight keeps the tensor from which it was made."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    x = torch.randn(5, 8)
    with warnings.catch_warnings(), device_module.operators.fallback_policy(policy):
        warnings.simplefilter("ignore")
        expected = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.float16)(x)
        quantized = torch.ao.quantization.quantize_dynamic(model.to(device), {nn.Linear}, dtype=torch.float16)
        for size in (4, 16, 64, 128):
            overwrite_free_memory(device, size)
        torch.testing.assert_close(quantized(x.to(device)).cpu(), expected)


# What a kernel makes


def test_tensors_that_a_kernel_makes_are_in_host_memory(define: Define, device: str, device_module: ModuleType) -> None:
    tables: list[Tensor] = []

    def kernel(x: Tensor) -> Tensor:
        if not tables:
            tables.append(torch.arange(1000.0))
        return x + tables[0][: len(x)]

    lookup = define("lookup(Tensor x) -> Tensor", kernel)
    before = memory_in_use()
    y = lookup(torch.zeros(3, device=device))
    assert y.tolist() == [0, 1, 2]
    del y
    assert tables[0].device.type == "cpu"
    assert device_module.memory_allocated() == before


def test_a_forked_child_reads_tensors_that_a_kernel_made(run_python: RunPython) -> None:
    done = run_python(
        """
import os, torch
library = torch.library.Library("python_kernels", "FRAGMENT")
library.define("lookup(Tensor x) -> Tensor")
tables = []
def lookup(x):
    tables.append(torch.arange(1000.0))
    return x + tables[0][:3]
library.impl("lookup", lookup, "CPU")
print(torch.ops.python_kernels.lookup(torch.zeros(3, device=device)).tolist(), flush=True)
child = os.fork()
if child == 0:
    print((tables[0] + 1)[:3].tolist(), flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[0.0, 1.0, 2.0]", "[1.0, 2.0, 3.0]", "0"]


@POLICIES
def test_a_kernel_reads_tensors_of_the_device(
    policy: str, define: Define, device: str, device_module: ModuleType
) -> None:
    scale = torch.tensor(3.0, device=device)
    scaled = define("scaled(Tensor x) -> Tensor", lambda x: x * scale.item() + scale.cpu())
    with device_module.operators.fallback_policy(policy):
        assert scaled(torch.ones(2, device=device)).tolist() == [6, 6]


# What a kernel waits for. A hang ends in a stack trace of each thread, and in a failure.

SETUP = """
import copy, faulthandler, io, pickle, sys, threading, time, torch
faulthandler.dump_traceback_later(100, exit=True)
module = torch.get_device_module(device)
library = torch.library.Library("python_kernels", "FRAGMENT")
library.define("triple(Tensor x) -> Tensor")
def triple(x):
    time.sleep(0.001)
    return x * 3
library.impl("triple", triple, "CPU")
library.impl("triple", torch.empty_like, "Meta")
triple = torch.ops.python_kernels.triple
y = torch.ones(3, device=device)

# Ways in which PyTorch waits for the device; in some of them it holds the GIL.
WAITS = {
    "read of a storage": lambda: y.untyped_storage()[0],
    "write to a storage": lambda: y.untyped_storage().__setitem__(0, 0),
    "fill of a storage": lambda: copy.deepcopy(y).untyped_storage().fill_(0),
    "copy of a storage": lambda: y.untyped_storage().cpu(),
    "clone of a storage": lambda: y.untyped_storage().clone(),
    "list of a storage": lambda: y.untyped_storage().tolist(),
    "typed storage": lambda: y.storage()[0],
    "save": lambda: torch.save(y, io.BytesIO()),
    "pickle": lambda: pickle.dumps(y),
    "deepcopy": lambda: copy.deepcopy(y),
    "item": lambda: y.sum().item(),
    "tolist": lambda: y.tolist(),
    "bool": lambda: bool(y[0] > 0),
    "to the host": lambda: y.cpu(),
    "to the device": lambda: y.copy_(torch.ones(3)),
    "synchronize": lambda: torch.accelerator.synchronize(),
    "stream": lambda: torch.accelerator.current_stream().synchronize(),
    "constructor": lambda: torch.tensor([y[0], y[1]]),
    "new": lambda: y.new([1, 2]),
    "in": lambda: 1.0 in y,
    "pinned memory": lambda: module.empty_host_cache(),
    "cache": lambda: module.empty_cache(),
}
"""


def check_finished(run_python: RunPython, code: str) -> None:
    done = run_python(SETUP + code + "\nprint('finished')")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "finished", done.stdout


@pytest.mark.parametrize("policy", [EMULATE, "cpu"])
def test_every_wait_for_a_python_kernel_releases_the_gil(policy: str, run_python: RunPython) -> None:
    check_finished(
        run_python,
        f"""
module.operators.set_fallback_policy({policy!r})
stop = False
def work():
    x = torch.ones(3, device=device)
    while not stop:
        assert triple(x).tolist() == [3, 3, 3]
thread = threading.Thread(target=work)
thread.start()
for name, wait in WAITS.items():
    print(name, file=sys.stderr, flush=True)
    for _ in range(20):
        wait()
stop = True
thread.join()
""",
    )


@pytest.mark.needs("graphs")
def test_every_wait_for_a_replay_releases_the_gil(run_python: RunPython) -> None:
    check_finished(
        run_python,
        """
x = torch.ones(3, device=device)
graph = torch.accelerator.Graph()
with torch.Stream(device), graph:
    result = triple(x) + 1
for name, wait in WAITS.items():
    print(name, file=sys.stderr, flush=True)
    for _ in range(3):
        graph.replay()
        wait()
assert result.tolist() == [4, 4, 4]
graph.replay()
del graph
""",
    )


def test_python_kernels_may_use_the_stream_of_each_other(run_python: RunPython) -> None:
    check_finished(
        run_python,
        """
streams = [torch.Stream(device), torch.Stream(device)]
both_run = threading.Barrier(2, timeout=60)
library.define("use(Tensor x, int other) -> Tensor")
def use(x, other):
    both_run.wait()
    with streams[other]:
        number = torch.full((), float(other), device=device).abs_().item()
    return x + number
library.impl("use", use, "CPU")
results = {}
def work(own):
    with streams[own]:
        x = torch.ones(2, device=device)
        results[own] = torch.ops.python_kernels.use(x, 1 - own).tolist()
threads = [threading.Thread(target=work, args=(own,)) for own in (0, 1)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert results == {0: [2, 2], 1: [1, 1]}, results
""",
    )


def test_python_stacks_of_the_memory_history_cause_no_deadlock(run_python: RunPython) -> None:
    check_finished(
        run_python,
        """
module.memory._record_memory_history(enabled="all", context="all", stacks="python")
x = torch.randn(20000, device=device)
stop = False
def work():
    while not stop:
        x.sort()
        (x + 1).cumsum(0)
thread = threading.Thread(target=work)
thread.start()
end = time.monotonic() + 3
while time.monotonic() < end:
    torch.save(y, io.BytesIO())
    y.untyped_storage()[0]
stop = True
thread.join()
""",
    )


# What autograd hears of a kernel


@pytest.mark.needs("emulation")
def test_a_write_that_a_kernel_reports_is_noticed_by_autograd(define: Define, device: str) -> None:
    """A kernel that writes past PyTorch, as by NumPy, reports it; its operand on the device is what has changed."""

    def kernel(x: Tensor) -> None:
        x.numpy()[:] = 5
        torch.autograd.graph.increment_version(x)

    write = define("write(Tensor(a!) x) -> ()", kernel)
    for _ in range(2):  # the second operand may get what the first one has used
        saved = torch.ones(3, device=device)
        result = (torch.ones(3, device=device, requires_grad=True) * saved).sum()
        write(saved)
        assert (saved.tolist(), saved._version) == ([5, 5, 5], 1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.backward()


@POLICIES
def test_a_write_by_an_operator_in_a_kernel_is_noticed_by_autograd(
    policy: str, define: Define, device: str, device_module: ModuleType
) -> None:
    """The kernel reports nothing: the operator that it calls counts the write, as it does for CPU tensors."""

    def add_one(x: Tensor) -> None:
        x.add_(1)

    operator = define("add_one(Tensor(a!) x) -> ()", add_one)
    with device_module.operators.fallback_policy(policy):
        for place in ("cpu", device):
            weight = torch.ones(3, device=place, requires_grad=True)
            saved = torch.full((3,), 4.0, device=place)
            product = (weight * saved).sum()
            operator(saved)
            assert (saved.tolist(), saved._version) == ([5, 5, 5], 1), place
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                product.backward()
