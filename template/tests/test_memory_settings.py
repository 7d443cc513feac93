"""Limits and settings of the allocator: memory fraction, and what PYTORCH_ALLOC_CONF says. Each script is a process."""

import gc
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
from conftest import RunPython, emulator_variable

MiB = 1 << 20

PRELUDE = """
import importlib, torch
importlib.import_module(package)
module = torch.get_device_module(device)
MiB = 1 << 20
set_ = torch._C._accelerator_setAllocatorSettings
def of(size): return torch.empty(int(size), dtype=torch.uint8, device=device)
def stat(name): return module.memory_stats()[name]
"""


@pytest.fixture
def fraction_is_reset(device_module: ModuleType) -> Iterator[None]:
    gc.collect()
    device_module.empty_cache()
    yield
    for index in range(device_module.device_count()):
        device_module.set_per_process_memory_fraction(1, index)


def passes(run_python: RunPython, code: str, settings: str | None = None) -> str:
    """Run `code` in a new process and return its standard error output."""
    env = {} if settings is None else {"PYTORCH_ALLOC_CONF": settings}
    result = run_python(PRELUDE + code, env=env)
    assert result.returncode == 0, result.stderr
    return result.stderr


@pytest.mark.usefixtures("fraction_is_reset")
def test_the_memory_fraction_limits_one_device(
    device: str, device_module: ModuleType, second_device: torch.device
) -> None:
    _, total = device_module.mem_get_info()
    assert device_module.get_per_process_memory_fraction() == 1
    device_module.set_per_process_memory_fraction(0.25)
    assert device_module.get_per_process_memory_fraction() == 0.25
    assert device_module.get_per_process_memory_fraction(second_device) == 1
    torch.empty(total // 5, dtype=torch.uint8, device=device)
    with pytest.raises(torch.OutOfMemoryError, match=r"may reserve .*set_per_process_memory_fraction"):
        torch.empty(total // 3, dtype=torch.uint8, device=device)
    torch.empty(total // 3, dtype=torch.uint8, device=second_device)
    # The cache counts, and is given up for another size.
    x = torch.empty(total // 9, dtype=torch.uint8, device=device)
    y = torch.empty(total // 9, dtype=torch.uint8, device=device)
    assert device_module.memory_reserved() <= total // 4
    del x, y
    device_module.set_per_process_memory_fraction(1.0)
    torch.empty(total // 3, dtype=torch.uint8, device=device)


@pytest.mark.usefixtures("fraction_is_reset")
def test_memory_fraction_is_checked(device_module: ModuleType) -> None:
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="from 0 to 1"):
            device_module.set_per_process_memory_fraction(wrong)
    with pytest.raises(torch.AcceleratorError):
        device_module.set_per_process_memory_fraction(0.5, 100)
    with pytest.raises(TypeError):
        device_module.set_per_process_memory_fraction("half")


@pytest.mark.parametrize("by_environment", [True, False])
def test_large_segments_have_the_size_of_the_setting(by_environment: bool, run_python: RunPython) -> None:
    setting = "large_segment_size_mb:32"
    code = "" if by_environment else f"set_({setting!r})\n"
    code += """
x = of(2 * MiB)
assert stat("reserved_bytes.all.current") == 32 * MiB
y = of(12 * MiB)
assert stat("segment.all.current") == 1
"""
    passes(run_python, code, setting if by_environment else None)


def test_sizes_are_rounded_up_as_set(run_python: RunPython) -> None:
    code = """
def allocated(size):
    x = of(size)
    return stat("allocated_bytes.all.current")
assert allocated(1200) == 1536
assert allocated(5 * MiB + 1) == 6 * MiB
assert allocated(8 * MiB) == 8 * MiB
assert allocated(9 * MiB) == 10 * MiB
set_("roundup_power2_divisions:[4:2,8:8,>:1]")
assert allocated(4 * MiB + 512) == 6 * MiB
assert allocated(9 * MiB) == 9 * MiB
assert allocated(100 * MiB + 512) == 100 * MiB + 512
"""
    passes(run_python, code, "roundup_power2_divisions:4")


def test_larger_blocks_than_the_setting_are_not_split(run_python: RunPython) -> None:
    code = """
address = of(100 * MiB).data_ptr()
assert stat("oversize_allocations.allocated") == stat("oversize_segments.allocated") == 1
assert stat("oversize_allocations.current") == 0 and stat("oversize_segments.current") == 1
# A small request does not take the large block, a larger one that leaves less than max_non_split_rounding does, whole.
x = of(30 * MiB)
assert x.data_ptr() != address
assert of(70 * MiB).data_ptr() != address
y = of(90 * MiB)
assert y.data_ptr() == address
assert stat("inactive_split.large_pool.current") == 0
assert stat("allocated_bytes.all.current") == 130 * MiB
del x, y
module.empty_cache()
assert stat("oversize_segments.current") == 0
# Out of memory gives up the largest of these blocks first, and only as many as it takes.
total = module.mem_get_info()[1]
for size in (total // 4, total // 3, total // 6):
    keep = of(30 * MiB)
    of(size)
retries = stat("num_alloc_retries")
before = stat("num_device_free")
x = of(total // 7 * 2)
assert stat("num_alloc_retries") == retries + 1
assert stat("num_device_free") == before + 1
"""
    passes(run_python, code, "max_split_size_mb:64,max_non_split_rounding_mb:25")


def test_garbage_collection_frees_the_oldest_blocks(run_python: RunPython) -> None:
    code = """
total = module.mem_get_info()[1]
part = total // 16 // (2 * MiB) * 2 * MiB
blocks = [of(part + i * 4 * MiB) for i in range(6)]
addresses = [b.data_ptr() for b in blocks]
for i in (3, 0, 1, 2):
    blocks[i] = None
freed = stat("num_device_free")
x = of(part * 2)
assert stat("num_device_free") == freed
y = of(part * 2)
# Above half of the memory: the two that were free for the longest time go, the others stay.
assert stat("num_device_free") == freed + 2, stat("num_device_free")
assert stat("num_alloc_retries") == 0
kept = {s["address"] for s in module.memory_snapshot()}
assert [a in kept for a in addresses] == [False, True, True, False, True, True]
"""
    passes(run_python, code, "garbage_collection_threshold:0.4")


def test_garbage_collection_begins_at_a_part_of_the_memory_fraction(run_python: RunPython) -> None:
    code = """
total = module.mem_get_info()[1]
module.set_per_process_memory_fraction(0.25)
of(total // 8)
freed = stat("num_device_free")
of(total // 6)
assert stat("num_device_free") == freed + 1
assert stat("num_alloc_retries") == 0
"""
    passes(run_python, code, "garbage_collection_threshold:0.4")


def test_settings_without_effect_say_so(run_python: RunPython) -> None:
    assert "expandable_segments has no effect" in passes(run_python, "of(1)", "expandable_segments:True")
    assert "no effect" not in passes(run_python, "of(1)", "max_split_size_mb:64")


def test_wrong_settings_are_errors(run_python: RunPython) -> None:
    code = """
for wrong in ("max_split_size_mb:1", "garbage_collection_threshold:1.5", "roundup_power2_divisions:3"):
    try:
        set_(wrong)
    except (ValueError, RuntimeError):
        continue
    raise AssertionError(wrong)
"""
    passes(run_python, code)


@pytest.mark.needs("emulator")
@pytest.mark.parametrize("policy", ["emulate", "cpu"])
def test_a_device_smaller_than_a_segment_can_be_filled(policy: str, run_python: RunPython) -> None:
    code = """
import torch
module = torch.get_device_module(device)
module.operators.set_fallback_policy(POLICY)
total = module.mem_get_info()[1]
assert total == 1 << 20
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
x = torch.randn(4, 8)
expected = net(x)
torch.testing.assert_close(net.to(device)(x.to(device)).cpu(), expected)
net(x.to(device)).sum().backward()
assert module.memory_stats()["num_alloc_retries"] == 0

held = []
try:
    while True:
        held.append(torch.full((1000,), float(len(held)), device=device))
except torch.OutOfMemoryError:
    pass
assert len(held) > 200 and module.memory_reserved() > total - 8192, (len(held), module.memory_reserved())
assert [x[-1].item() for x in held[::20]] == list(range(0, len(held), 20))
held.clear()
assert torch.ones(200000, device=device).sum().item() == 200000  # room for this one, if all that is cached goes back
"""
    env = {str(emulator_variable("DEVICE_MEMORY")): "1M"}
    done = run_python(code.replace("POLICY", repr(policy)), env=env)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_the_last_bytes_of_a_device_can_be_used(run_python: RunPython) -> None:
    code = """
rest = of(module.mem_get_info()[0] - 2 * MiB)
assert module.mem_get_info()[0] == 2 * MiB
sizes = {"large": 300_000, "small": 1000}  # for both there are segments of 2 MiB or more
held = {}
for pool, size in sizes.items():
    left = module.mem_get_info()[0]
    held[pool] = [torch.full((size,), 5.0, device=device)]
    assert 0 <= left - module.mem_get_info()[0] - 4 * size < 4096, pool
for pool, size in sizes.items():
    try:
        while True:
            held[pool].append(torch.full((size,), 5.0 + len(held[pool]), device=device))
    except torch.OutOfMemoryError as error:
        assert "Tried to allocate" in str(error)
assert module.mem_get_info()[0] < 4096 and len(held["small"]) > 50
for tensors in held.values():
    assert [(x[0].item(), x[-1].item()) for x in tensors] == [(5 + i, 5 + i) for i in range(len(tensors))]
del rest, held, tensors
module.empty_cache()
x = of(100)
assert module.memory_reserved() == 2 * MiB  # there is room for usual segments again
"""
    passes(run_python, code)


def test_a_fraction_smaller_than_a_segment_can_be_used(run_python: RunPython) -> None:
    code = """
module.set_per_process_memory_fraction(MiB / module.mem_get_info()[1])
x = of(100_000)
assert module.memory_reserved() < MiB
try:
    of(MiB)
except torch.OutOfMemoryError:
    pass
else:
    raise AssertionError("more than the fraction")
"""
    passes(run_python, code)
