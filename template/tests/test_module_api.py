"""The device module: the names that users and PyTorch look for, its types, and the methods of tensors and modules."""

import ast
import importlib
import inspect
from pathlib import Path
from types import ModuleType

import pytest
import torch
from conftest import PACKAGE
from torch import nn

# What both torch.cuda and torch.xpu offer is what generic code may expect of any device.
EXPECTED = set(torch.cuda.__all__) & set(torch.xpu.__all__)
SENSOR = "the device library is asked for no such sensor"
GRAPHS = "torch.accelerator.Graph captures on this device, and owns the memory of its captures"
COMPILED = "kernels are compiled with this package, for one kind of device"
LEFT_OUT = {
    "MemPool": GRAPHS,
    "change_current_allocator": "the allocator is this package's",
    "clock_rate": SENSOR,
    "device_memory_used": SENSOR,
    "get_arch_list": COMPILED,
    "get_gencode_flags": COMPILED,
    "graph": GRAPHS,
    "graph_pool_handle": GRAPHS,
    "is_current_stream_capturing": GRAPHS,
    "is_tf32_supported": "a matrix product in TensorFloat-32 is a setting of CUDA's and XPU's",
    "make_graphed_callables": GRAPHS,
    "memory_usage": SENSOR,
    "power_draw": SENSOR,
    "temperature": SENSOR,
    "use_mem_pool": GRAPHS,
    "utilization": SENSOR,
}


def test_what_devices_of_pytorch_have_in_common_is_here_or_left_out_for_a_reason(device_module: ModuleType) -> None:
    missing = EXPECTED - set(device_module.__all__)
    assert missing == set(LEFT_OUT), "write it, or say above why this device is without"
    assert not [name for name in LEFT_OUT if hasattr(device_module, name)]


@pytest.mark.parametrize("name", sorted(EXPECTED - set(LEFT_OUT)))
def test_functions_take_what_those_of_other_devices_take(name: str, device_module: ModuleType) -> None:
    ours, cuda, xpu = (getattr(module, name) for module in (device_module, torch.cuda, torch.xpu))
    assert callable(ours) == callable(cuda)
    assert isinstance(ours, ModuleType) == isinstance(cuda, ModuleType)
    if name in ("Event", "Stream"):
        assert issubclass(ours, getattr(torch, name))
    elif callable(ours):
        parameters = inspect.signature(ours).parameters
        theirs = [inspect.signature(function).parameters for function in (cuda, xpu)]
        shared = [parameter for parameter in theirs[1] if parameter in theirs[0]]
        assert list(parameters)[: len(shared)] == shared
        for parameter in shared:
            optional = any(p[parameter].default is not inspect.Parameter.empty for p in theirs)
            assert not optional or parameters[parameter].default is not inspect.Parameter.empty, parameter


def test_all_names_exist_and_are_documented(device_module: ModuleType) -> None:
    assert device_module.__all__ == sorted(device_module.__all__)
    for name in device_module.__all__:
        value = getattr(device_module, name)
        assert getattr(importlib.import_module(f"torch.{torch._C._get_privateuse1_backend_name()}"), name) is value
        if callable(value) and getattr(value, "__module__", "").startswith(PACKAGE):
            summary = (inspect.getdoc(value) or "").partition("\n\n")[0]
            assert len(summary.split()) > 2 and summary.endswith("."), f"{name}: {summary!r} is not a sentence"


def test_a_name_that_does_not_exist_is_an_attribute_error(device_module: ModuleType) -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        device_module.no_such_name  # noqa: B018


def test_torch_finds_the_module_by_every_name(device: str, device_module: ModuleType) -> None:
    assert getattr(torch, device) is device_module
    assert torch.get_device_module(f"{device}:0") is device_module
    assert torch.get_device_module(torch.device(device)) is device_module
    for name in device_module.SUBMODULES:
        assert importlib.import_module(f"torch.{device}.{name}") is getattr(device_module, name)


def test_the_package_has_a_version_and_types(device: str) -> None:
    package = importlib.import_module(PACKAGE)
    assert package.__version__[0].isdigit()
    assert (Path(package.__file__).parent / "py.typed").exists()
    with pytest.raises(AttributeError, match="no_such_name"):
        package.no_such_name  # noqa: B018


def test_stub_of_the_extension_is_complete() -> None:
    extension = importlib.import_module(f"{PACKAGE}._C")
    folder = next(folder for p in importlib.import_module(PACKAGE).__path__ if (folder := Path(p) / "_C").is_dir())
    submodules = {name for name, value in vars(extension).items() if isinstance(value, ModuleType)}
    assert {path.stem for path in folder.iterdir()} == {"__init__"} | submodules
    for stub in folder.iterdir():
        module = extension if stub.stem == "__init__" else getattr(extension, stub.stem)
        declared = {
            node.name: [member.name for member in node.body] if isinstance(node, ast.ClassDef) else []
            for node in ast.parse(stub.read_text()).body
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
        }
        assert set(declared) == {name for name in vars(module) if not name.startswith("__")} - submodules
        for name, members in declared.items():
            if members:
                assert set(members) == {m for m in vars(getattr(module, name)) if not m.startswith("_")}


def test_core_finds_what_it_looks_for(device: str, device_module: ModuleType) -> None:
    from torch import _utils

    assert _utils._get_available_device_type() == device
    assert _utils._get_all_device_indices() == list(range(device_module.device_count()))
    assert _utils._get_current_device_index() == 0
    assert _utils._get_devices_properties([0])[0].name == device_module.get_device_name()
    assert _utils._get_device_index(device, optional=True) == 0
    assert device_module._utils._get_device_index(f"{device}:1") == 1
    assert device_module._utils._get_device_index(device, optional=True) == 0
    with pytest.raises(ValueError, match="index"):
        device_module._utils._get_device_index(device)


def test_fsdp_finds_its_device_functions(device: str) -> None:
    common = pytest.importorskip("torch.distributed.fsdp._common_utils", reason="torch is built without distributed")
    handle = common._FSDPDeviceHandle.from_device(torch.device(device))
    names = [
        "Event",
        "Stream",
        "current_device",
        "current_stream",
        "device_count",
        "empty_cache",
        "get_rng_state",
        "is_available",
        "is_initialized",
        "memory_allocated",
        "memory_reserved",
        "memory_stats",
        "memory_summary",
        "set_device",
        "set_rng_state",
        "stream",
        "synchronize",
    ]
    for name in names:
        assert callable(getattr(handle, name)), name


def test_tensors_have_the_methods_of_the_device(device: str) -> None:
    x = torch.arange(4.0)
    there = getattr(x, device)()
    assert there.device == torch.device(device, 0)
    assert getattr(there, f"is_{device}")
    assert not getattr(x, f"is_{device}")
    assert getattr(there, device)(0) is there
    assert torch.equal(there.cpu(), x)
    assert there.type() == f"torch.{device}.FloatTensor"


def test_modules_have_the_methods_of_the_device(device: str) -> None:
    model = getattr(nn.Linear(2, 2), device)()
    assert {p.device.type for p in model.parameters()} == {device}
    assert {p.device.type for p in model.cpu().parameters()} == {"cpu"}


def test_storages_have_the_methods_of_the_device(device: str) -> None:
    storage = torch.arange(4.0).untyped_storage()
    there = getattr(storage, device)()
    assert there.device == torch.device(device, 0)
    assert getattr(there, f"is_{device}")
    assert list(there.cpu()) == list(storage)


def test_packed_sequences_have_the_methods_of_the_device(device: str) -> None:
    packed = nn.utils.rnn.pack_sequence([torch.arange(3.0), torch.arange(2.0)])
    there = getattr(packed, device)()
    assert getattr(there, f"is_{device}")
    assert torch.equal(there.data.cpu(), packed.data)


def test_dlpack_gives_the_device_and_shares_memory(device: str, second_device: torch.device) -> None:
    from torch.utils.dlpack import DLDeviceType

    x = torch.arange(6.0, device=device).view(2, 3)
    assert x.__dlpack_device__() == (DLDeviceType.kDLExtDev, 0)
    assert torch.ones(1, device=second_device).__dlpack_device__() == (DLDeviceType.kDLExtDev, 1)
    assert torch.ones(1).__dlpack_device__() == (DLDeviceType.kDLCPU, 0)
    for tensor in (x, x.T, x[:, 1:]):
        shared = torch.from_dlpack(tensor)
        assert shared.device == tensor.device
        assert shared.stride() == tensor.stride()
        assert shared.data_ptr() == tensor.data_ptr()
        assert torch.equal(shared.cpu(), tensor.cpu())
    torch.from_dlpack(x).fill_(1)
    assert torch.equal(x.cpu(), torch.ones(2, 3))


def test_dlpack_goes_through_torch_function_of_subclasses(device: str) -> None:
    seen = []

    class Watching(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2, device=device).as_subclass(Watching)
    x.__dlpack_device__()
    assert torch.Tensor.__dlpack_device__ in seen


def test_repr_names_the_device(device: str) -> None:
    text = repr(torch.arange(3, device=device))
    assert text == f"tensor([0, 1, 2], device='{device}:0')"
    for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.bool):
        assert device in repr(torch.ones(2, device=device, dtype=dtype))


def test_a_policy_context_restores_the_policy(device: str, device_module: ModuleType) -> None:
    operators = device_module.operators
    before = operators.get_fallback_policy()
    for policy in (before, "cpu", "error"):
        with operators.fallback_policy(policy):
            assert operators.get_fallback_policy() == policy
        assert operators.get_fallback_policy() == before
    with pytest.raises(ZeroDivisionError), operators.fallback_policy("error"):
        raise ZeroDivisionError
    assert operators.get_fallback_policy() == before
    with pytest.raises(ValueError, match="emulate"):
        operators.set_fallback_policy("no such policy")


def test_operator_names_are_checked(device_module: ModuleType) -> None:
    for wrong in ("aten::no_such_operator", "add", "no_such_library::add"):
        with pytest.raises(ValueError, match="no operator"):
            device_module.operators.set_operator_policy(wrong, "cpu")
    for right in ("aten::add.Tensor", "add.Tensor", torch.ops.aten.add.Tensor):
        device_module.operators.set_operator_policy(right, "cpu")
        device_module.operators.set_operator_policy(right, None)


def test_counts_name_operators_with_their_library(device: str, device_module: ModuleType) -> None:
    operators = device_module.operators
    operators.reset_fallback_counts()
    assert operators.fallback_counts() == {}
    x = torch.eye(3, device=device)
    torch.linalg.slogdet(x)
    counts = operators.fallback_counts()
    assert counts
    assert all("::" in name and count > 0 for name, count in counts.items())
    assert list(counts.values()) == sorted(counts.values(), reverse=True)
    operators.reset_fallback_counts()
    assert operators.fallback_counts() == {}
