"""Choosing devices, their properties, processes that fork, and the isolation of device memory."""

import os
import re
import threading
from types import ModuleType

import pytest
import torch
from abilities import EMULATE
from conftest import RunPython


def test_the_first_device_is_current_at_the_start(device: str, device_module: ModuleType) -> None:
    assert device_module.is_available()
    assert device_module.device_count() == torch.accelerator.device_count() >= 1
    assert torch.accelerator.current_accelerator() == torch.device(device)
    assert device_module.current_device() == torch.accelerator.current_device_index() == 0


@pytest.mark.parametrize("form", [int, str, torch.device])
def test_set_device_takes_every_form(form: type, device: str, device_module: ModuleType) -> None:
    last = device_module.device_count() - 1
    value = {int: last, str: f"{device}:{last}", torch.device: torch.device(device, last)}[form]
    try:
        device_module.set_device(value)
        assert device_module.current_device() == last
        assert torch.ones(1, device=device).device == torch.device(device, last)
    finally:
        device_module.set_device(0)


@pytest.mark.parametrize(
    ("nonsense", "error"),
    [
        (-1, torch.AcceleratorError),
        (1000, torch.AcceleratorError),
        (10**30, torch.AcceleratorError),
        (1.5, TypeError),
        (True, TypeError),
        ([0], TypeError),
        ("cpu", ValueError),
        (torch.device("cpu", 0), ValueError),
        ("no such device", RuntimeError),
    ],
    ids=repr,
)
def test_what_is_no_device_is_refused(nonsense: object, error: type[Exception], device_module: ModuleType) -> None:
    for function in (
        device_module.set_device,
        device_module.device,
        device_module.synchronize,
        device_module.current_stream,
        device_module.default_stream,
        device_module.get_device_properties,
        device_module.get_rng_state,
        device_module.memory_allocated,
        device_module.mem_get_info,
    ):
        with pytest.raises(error):
            function(nonsense)
    assert device_module.current_device() == 0


def test_index_out_of_range_is_an_error_everywhere(device: str, device_module: ModuleType) -> None:
    missing = f"{device}:{device_module.device_count()}"
    for action in (
        lambda: torch.ones(1, device=missing),
        lambda: torch.empty(1, device=missing),
        lambda: torch.ones(1).to(missing),
        lambda: torch.randn(2, device=missing),
        lambda: torch.Stream(missing),
        lambda: torch.accelerator.set_device_index(device_module.device_count()),
        lambda: torch.Generator(missing),
        lambda: torch.UntypedStorage(1, device=missing),
        lambda: torch.accelerator.synchronize(device_module.device_count()),
        lambda: device_module.set_device(-5),
        lambda: device_module.synchronize(missing),
    ):
        with pytest.raises(torch.AcceleratorError, match="out of range") as caught:
            action()
        assert isinstance(caught.value, RuntimeError)
        assert caught.value.error_code != 0
        last = device_module.device_count() - 1
        there_is = "only .* has the index 0" if last == 0 else f"have the indices 0 to {last}$"
        assert re.search(there_is, str(caught.value).splitlines()[0]), caught.value
        del caught  # which keeps this frame


def test_a_stream_of_a_missing_device_is_refused(device: str, device_module: ModuleType) -> None:
    real = torch.Stream(device)
    stream = torch.Stream(
        stream_id=real.stream_id, device_index=device_module.device_count(), device_type=real.device_type
    )
    for action in (stream.synchronize, stream.query, lambda: torch.accelerator.set_stream(stream)):
        with pytest.raises(torch.AcceleratorError, match="out of range"):
            action()


def test_a_context_restores_the_device(device: str, device_module: ModuleType, second_device: torch.device) -> None:
    with device_module.device(second_device):
        assert torch.ones(1, device=device).device == second_device
        with device_module.device(0):
            assert device_module.current_device() == 0
        with device_module.device(None):
            assert device_module.current_device() == 1
        assert device_module.current_device() == 1
    with pytest.raises(ZeroDivisionError), device_module.device(second_device):
        raise ZeroDivisionError
    assert device_module.current_device() == 0


def test_torch_device_is_a_default_device_context(device: str, second_device: torch.device) -> None:
    with second_device:
        assert torch.zeros(2).device == second_device
    assert torch.zeros(2).device.type == "cpu"


def test_device_of_selects_the_device_of_a_tensor(device_module: ModuleType, second_device: torch.device) -> None:
    there = torch.ones(1, device=second_device)
    for obj, expected in ((there, 1), (there.untyped_storage(), 1), (torch.ones(1), 0)):
        with device_module.device_of(obj):
            assert device_module.current_device() == expected


def test_current_device_belongs_to_the_thread(device_module: ModuleType, second_device: torch.device) -> None:
    seen = []

    def work() -> None:
        seen.append(device_module.current_device())
        device_module.set_device(second_device)
        seen.append(device_module.current_device())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [0, 1]
    assert device_module.current_device() == 0


def test_operators_run_where_their_operands_are(device_module: ModuleType, second_device: torch.device) -> None:
    x = torch.arange(4.0, device=second_device)
    assert (x + 1).device == second_device
    assert (x @ x).item() == 14
    assert device_module.current_device() == 0


def test_operands_on_two_devices_are_an_error(device: str, second_device: torch.device) -> None:
    here = torch.ones(2, device=f"{device}:0")
    with pytest.raises(RuntimeError, match="same device"):
        here + torch.ones(2, device=second_device)
    with pytest.raises(RuntimeError, match="same device"):
        here + torch.ones(2)
    assert torch.equal((here + torch.tensor(2.0)).cpu(), torch.full((2,), 3.0))


def test_properties_are_consistent(device: str, device_module: ModuleType) -> None:
    properties = device_module.get_device_properties()
    assert properties.name == device_module.get_device_name(f"{device}:0")
    assert properties.total_memory == device_module.mem_get_info()[1] > 0
    assert properties.multi_processor_count > 0
    assert properties.allocation_alignment & (properties.allocation_alignment - 1) == 0
    assert (properties.major, properties.minor) == device_module.get_device_capability(0)
    assert properties.name in repr(properties)
    with pytest.raises(AttributeError):
        properties.total_memory = 0


def test_bfloat16_is_supported(device: str, device_module: ModuleType) -> None:
    assert device_module.is_bf16_supported()
    assert torch.ones(3, device=device, dtype=torch.bfloat16).sum().item() == 3


def test_peer_access_is_answered_for_devices_that_exist(device_module: ModuleType, second_device: torch.device) -> None:
    assert isinstance(device_module.can_device_access_peer(0, second_device), bool)
    with pytest.raises(torch.AcceleratorError):
        device_module.can_device_access_peer(0, 1000)


def test_synchronize_takes_every_form_of_a_device(device: str, device_module: ModuleType) -> None:
    x = torch.ones(1000, device=device)
    for target in (None, 0, device, f"{device}:0", torch.device(device)):
        x += 1
        device_module.synchronize(target)
        assert device_module.current_stream(0).query()
    device_module.synchronize(device_module.device_count() - 1)
    assert torch.equal(x.cpu(), torch.full((1000,), 6.0))


def test_asking_for_devices_does_not_initialise(run_python: RunPython) -> None:
    done = run_python("""
import torch
module = torch.get_device_module(device)
torch.manual_seed(0)
assert module.is_available() and module.device_count() > 0
assert not module.is_initialized() and not module._initialized
module.init()
module.init()
assert module.is_initialized() and module._initialized
""")
    assert done.returncode == 0, done.stderr


def test_the_first_tensor_initialises(run_python: RunPython) -> None:
    done = run_python("""
import torch
torch.ones(1, device=device)
assert torch.get_device_module(device).is_initialized()
""")
    assert done.returncode == 0, done.stderr


FORK = """
import multiprocessing, os, torch
module = torch.get_device_module(device)
def child(send):
    try:
        result = torch.ones(2, device=device).sum().item()
    except RuntimeError as error:
        result = str(error)
    torch.manual_seed(1)
    cpu = torch.randn(2).shape
    send.send((result, module._is_in_bad_fork(), module.is_initialized(), tuple(cpu)))
def ask():
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(False)
    process = context.Process(target=child, args=(send,))
    process.start()
    answer = receive.recv()
    process.join()
    assert process.exitcode == 0
    return answer
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")
def test_a_forked_child_cannot_use_the_device(run_python: RunPython) -> None:
    done = run_python(
        FORK
        + """
torch.ones(1, device=device)
result, bad, initialized, shape = ask()
assert "fork" in result and "spawn" in result, result
assert (bad, initialized, shape) == (True, False, (2,))
assert torch.ones(2, device=device).sum().item() == 2 and not module._is_in_bad_fork()
"""
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")
def test_fork_before_the_first_use_is_fine(run_python: RunPython) -> None:
    done = run_python(
        FORK
        + """
torch.manual_seed(0)
assert module.device_count() > 0
assert ask() == (2.0, False, True, (2,))
"""
    )
    assert done.returncode == 0, done.stderr


def test_a_spawned_child_can_use_the_device(run_python: RunPython) -> None:
    done = run_python("""
import multiprocessing, torch
torch.ones(1, device=device)
with multiprocessing.get_context("spawn").Pool(1) as pool:
    assert pool.apply(eval, ("__import__('torch').ones(2, device=%r).sum().item()" % device,)) == 2
""")
    assert done.returncode == 0, done.stderr


@pytest.mark.needs("emulator")
def test_host_access_to_device_memory_faults(run_python: RunPython) -> None:
    done = run_python("""
import ctypes, torch
x = torch.ones(1000, device=f"{device}:0")
torch.get_device_module(device).synchronize()
print(hex(x.data_ptr() + 16), flush=True)
ctypes.string_at(x.data_ptr() + 16, 4)
print("read")
""")
    assert done.returncode != 0
    assert "read" not in done.stdout
    address = done.stdout.strip()
    assert address.removeprefix("0x") in done.stderr.lower(), done.stderr
    assert "device 0" in done.stderr.lower(), done.stderr


@pytest.mark.needs("pinned_memory")
def test_process_exits_cleanly_with_live_objects(run_python: RunPython) -> None:
    done = run_python("""
import threading, torch
module = torch.get_device_module(device)
keep = [torch.randn(1000, device=device), torch.Stream(device), torch.Event(device), torch.ones(10).pin_memory()]
with keep[1]:
    keep.append(keep[0] @ keep[0])
    keep[2].record()
""")
    assert (done.returncode, done.stderr) == (0, "")


def test_process_exits_cleanly_with_the_memory_full(run_python: RunPython) -> None:
    done = run_python("""
import torch
x = torch.ones(3, device=device, requires_grad=True)
x.view(3, 1).backward(torch.ones(3, 1, device=device))
held, size = [], 1 << 40
while size > 0:
    try:
        held.append(torch.empty(size, dtype=torch.uint8, device=device))
    except torch.OutOfMemoryError:
        size //= 2
""")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("policy", [EMULATE, "error"])
def test_process_exits_cleanly_after_backward(policy: str, run_python: RunPython) -> None:
    """Autograd's threads still hold Python objects when backward returns. This is a race, so the test runs several rounds."""
    for _ in range(4):
        done = run_python(f"""
import torch
module = torch.get_device_module(device)
x = torch.ones(3, device=device, requires_grad=True)
for _ in range(3):
    (x * x).sum().backward()
module.operators.set_fallback_policy("{policy}")
""")
        assert (done.returncode, done.stderr) == (0, "")
