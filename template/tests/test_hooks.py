"""The interfaces by which PyTorch calls a device: each function is implemented, or omitted for a reason, and works.

The headers of the installed torch give the virtual functions, and the headers of this project give the overridden ones.
This file lists the functions that keep torch's own body, with the reason.
"""

import re
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
import torch
from conftest import PROJECT, memory_in_use

TORCH_HEADERS = Path(torch.__file__).parent / "include"

VIRTUAL = re.compile(r"\bvirtual\s+(?:[\w:<>,&*\s]+?[\s&*])(\w+)\s*\(")
OVERRIDE = re.compile(r"[\s&*](\w+)\s*\((?:[^(){};]|\([^()]*\))*\)\s*(?:const\s*)?(?:noexcept\s*)?override\b")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


class Interface(NamedTuple):
    name: str
    theirs: dict[str, str]  # header of torch: the struct in it
    ours: str  # header of this project, below csrc
    defaults: dict[str, str]  # function that is left to torch's body: why


INTERFACES = [
    Interface(
        "hooks",
        {
            "ATen/detail/PrivateUse1HooksInterface.h": "PrivateUse1HooksInterface",
            "ATen/detail/AcceleratorHooksInterface.h": "AcceleratorHooksInterface",
        },
        "runtime/Hooks.h",
        {},
    ),
    Interface(
        "guard",
        {"c10/core/impl/DeviceGuardImplInterface.h": "DeviceGuardImplInterface"},
        "runtime/Guard.h",
        {},
    ),
    Interface(
        "allocator",
        {"c10/core/CachingDeviceAllocator.h": "DeviceAllocator", "c10/core/Allocator.h": "Allocator"},
        "runtime/memory/CachingAllocator.h",
        {
            "is_simple_data_ptr": "torch compares the context with the address; here the context is the block, so its no is right"
        },
    ),
    Interface(
        "generator",
        {"c10/core/GeneratorImpl.h": "GeneratorImpl"},
        "runtime/Generator.h",
        {
            "graphsafe_set_state": "raises; the engine is the host's, whose draws a graph cannot record",
            "graphsafe_get_state": "raises; as graphsafe_set_state",
        },
    ),
]
IDS = [interface.name for interface in INTERFACES]


def body_of(struct: str, header: Path) -> str:
    """Return the text between the braces of a struct or class, without comments."""
    text = COMMENT.sub("", header.read_text())
    start = re.search(rf"\b(?:struct|class)\s+(?:\w+\s+)?{struct}\b" + r"[^;{]*[{]", text)
    assert start, f"{header} has no {struct} any more"
    depth, end = 1, start.end()
    while depth:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    return text[start.end() : end]


def declared(interface: Interface) -> set[str]:
    """Return the names of all virtual functions of an interface, bases included."""
    names = set()
    for header, struct in interface.theirs.items():
        body = body_of(struct, TORCH_HEADERS / header)
        names |= set(VIRTUAL.findall(body)) | set(OVERRIDE.findall(body))
    return {name for name in names if name[0] != "~" and name not in interface.theirs.values()}


def implemented(interface: Interface) -> set[str]:
    """Return the names of the functions that this project's class overrides."""
    header = PROJECT / "csrc" / interface.ours
    if not header.exists():
        pytest.skip("the sources of the project are not beside these tests")
    return set(OVERRIDE.findall(COMMENT.sub("", header.read_text())))


@pytest.mark.parametrize("interface", INTERFACES, ids=IDS)
def test_every_virtual_function_is_implemented_or_left_out_for_a_reason(interface: Interface) -> None:
    missing = declared(interface) - implemented(interface)
    assert missing == set(interface.defaults), "implement it, or say here why torch's own body is right"


@pytest.mark.parametrize(
    ("interface", "some"),
    [
        (
            "hooks",
            {"isBuilt", "hasPrimaryContext", "getPinnedMemoryAllocator", "resizePrivateUse1Bytes", "deviceCount"},
        ),
        ("guard", {"type", "uncheckedSetDevice", "getStreamNativeHandle", "elapsedTime", "destroyEvent", "record"}),
        ("allocator", {"allocate", "raw_deleter", "copy_data", "emptyCache", "getMemoryInfo", "getDeviceStats"}),
        ("generator", {"set_state", "clone_impl", "graphsafe_get_state", "seed"}),
    ],
)
def test_the_parser_finds_functions_of_each_interface(interface: str, some: set[str]) -> None:
    assert some <= declared(INTERFACES[IDS.index(interface)])


def test_availability_does_not_need_the_device(device: str) -> None:
    assert torch.accelerator.is_available()
    assert torch._C._get_accelerator() == torch.device(device)
    assert torch.accelerator.device_count() > 0


def test_device_is_chosen_and_exchanged(device_module: ModuleType, second_device: torch.device) -> None:
    accelerator = torch.accelerator
    with accelerator.device_index(second_device.index):
        assert accelerator.current_device_index() == second_device.index
        with accelerator.device_index(0):
            assert accelerator.current_device_index() == 0
        with accelerator.device_index(None):
            assert accelerator.current_device_index() == second_device.index
    assert accelerator.current_device_index() == 0
    assert torch._C._accelerator_exchangeDevice(1) == 0
    for index, expected in ((-1, 1), (0, 0), (-1, 0)):  # -1 changes nothing
        torch._C._accelerator_maybeExchangeDevice(index)  # test_extension.py looks at what ours returns
        assert accelerator.current_device_index() == expected
    with pytest.raises(torch.AcceleratorError, match="out of range"):
        accelerator.set_device_index(accelerator.device_count())


def test_current_stream_is_exchanged(device: str, device_module: ModuleType) -> None:
    before = torch.accelerator.current_stream()
    stream = torch.Stream(device)
    torch.accelerator.set_stream(stream)
    assert torch.accelerator.current_stream() == stream == device_module.current_stream()
    torch.accelerator.set_stream(before)
    assert torch.accelerator.current_stream(0) == before


def test_streams_have_a_native_handle(device: str) -> None:
    streams = [torch.Stream(device) for _ in range(3)]
    handles = {stream.native_handle for stream in streams}
    assert len(handles) == 3
    assert all(isinstance(handle, int) and handle != 0 for handle in handles)
    assert torch.accelerator.current_stream().native_handle not in handles


DTYPES = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
QUANTIZED = {torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4}


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_capability_names_dtypes_that_work(device: str, device_module: ModuleType) -> None:
    data = torch.arange(48, dtype=torch.uint8) % 2
    for index in range(device_module.device_count()):
        dtypes = torch.accelerator.get_device_capability(index)["supported_dtypes"]
        assert {torch.float32, torch.int64, torch.bool} <= dtypes <= DTYPES
        for dtype in dtypes - QUANTIZED:
            there = data.view(dtype).to(f"{device}:{index}")
            assert there.dtype == dtype
            assert torch.equal(there.cpu().view(torch.uint8), data), dtype


def test_a_missing_device_has_no_capability(device_module: ModuleType) -> None:
    with pytest.raises(torch.AcceleratorError, match="out of range"):
        torch.accelerator.get_device_capability(device_module.device_count())


def test_memory_functions_of_the_accelerator_count_this_device(device: str) -> None:
    accelerator = torch.accelerator
    before = memory_in_use()
    x = torch.empty(1 << 20, dtype=torch.uint8, device=device)
    assert accelerator.memory_allocated() - before >= x.nbytes
    assert accelerator.max_memory_allocated() >= accelerator.memory_allocated()
    assert accelerator.memory_reserved() >= accelerator.memory_allocated()
    free, total = accelerator.get_memory_info(0)
    assert 0 < free < total
    del x
    assert accelerator.memory_allocated() == before
    assert accelerator.max_memory_allocated() > before
    accelerator.reset_peak_memory_stats()
    assert accelerator.max_memory_allocated() == before
    assert accelerator.memory_stats()["allocated_bytes.all.allocated"] > 0
    accelerator.reset_accumulated_memory_stats()
    assert accelerator.memory_stats()["allocated_bytes.all.allocated"] == 0
    reserved = accelerator.memory_reserved()
    assert reserved > before
    accelerator.empty_cache()
    assert accelerator.memory_reserved() < reserved


@pytest.mark.needs("pinned_memory")
def test_pinned_memory_is_the_devices(device: str) -> None:
    pinned = torch.empty(1000, pin_memory=True)
    assert pinned.is_pinned()
    assert pinned[10:].is_pinned()
    assert torch.ones(5).pin_memory().is_pinned()
    assert not torch.ones(5).is_pinned()
    assert not torch.ones(5, device=device).is_pinned()
    with pytest.raises(RuntimeError, match="pin"):
        torch.ones(5, device=device).pin_memory()


def test_storage_grows_and_shrinks(device: str) -> None:
    x = torch.arange(8.0, device=device)
    storage = x.untyped_storage()
    storage.resize_(64)
    assert storage.nbytes() == 64
    assert torch.equal(x.cpu(), torch.arange(8.0))
    used = memory_in_use()
    storage.resize_(0)
    assert storage.nbytes() == 0
    assert memory_in_use() < used
    storage.resize_(32)
    x.copy_(torch.ones(8))
    assert torch.equal(x.cpu(), torch.ones(8))


def test_memory_is_not_kept_for_a_stream_of_another_device_type(device: str) -> None:
    x = torch.ones(1000, device=device)
    with pytest.raises(RuntimeError, match="got one of cpu"):
        x.record_stream(torch.Stream(torch.device("cpu")))


def test_generators_without_an_offset_say_so(device: str) -> None:
    generator = torch.Generator(device)
    for action in (generator.get_offset, lambda: generator.set_offset(8), generator.graphsafe_get_state):
        with pytest.raises(RuntimeError, match=r"state|offset|graph"):
            action()
