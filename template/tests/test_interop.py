"""Memory that is shared with other libraries, and tensors that become something else: DLPack, external memory, NumPy, files."""

import copy
import ctypes
import gc
import io
import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from busy import needs_queues, occupy
from conftest import RunPython, memory_in_use
from torch.utils.dlpack import DLDeviceType, to_dlpack

np = pytest.importorskip("numpy")

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("way", ["tensor", "capsule", "versioned capsule", "old function"])
def test_dlpack_shares_memory(way: str, dtype: torch.dtype, device: str) -> None:
    x = torch.testing.make_tensor((3, 4), dtype=dtype, device="cpu").to(device)
    for tensor in (x, x.t(), x[1:, ::2], x[0, 0], x[:0]):
        source: Any = {
            "tensor": lambda t: t,
            "capsule": lambda t: t.__dlpack__(),
            "versioned capsule": lambda t: t.__dlpack__(max_version=(1, 0)),
            "old function": to_dlpack,
        }[way](tensor)
        shared = torch.from_dlpack(source)
        assert (shared.device, shared.dtype, shared.shape, shared.stride()) == (
            x.device,
            dtype,
            tensor.shape,
            tensor.stride(),
        )
        assert shared.data_ptr() == tensor.data_ptr()
        assert torch.equal(shared.cpu(), tensor.cpu())


def test_dlpack_keeps_memory_alive(device: str, device_module: ModuleType) -> None:
    before = memory_in_use()
    x = torch.full((1000,), 7.0, device=device)
    shared = torch.from_dlpack(x)
    address = x.data_ptr()
    del x
    gc.collect()
    others = [torch.zeros(1000, device=device) for _ in range(5)]
    assert address not in {t.data_ptr() for t in others}
    assert torch.equal(shared.cpu(), torch.full((1000,), 7.0))
    del shared, others
    assert device_module.memory_allocated() == before


def test_dlpack_names_the_device(device: str, second_device: torch.device) -> None:
    for index in (0, 1):
        x = torch.ones(2, device=torch.device(device, index))
        assert x.__dlpack_device__() == (DLDeviceType.kDLExtDev, index)
        assert torch.from_dlpack(x).device == x.device


def test_dlpack_copies_to_another_device_unless_forbidden(device: str, second_device: torch.device) -> None:
    x = torch.arange(6.0, device=device)
    for where in (torch.device("cpu"), second_device):
        moved = torch.from_dlpack(x, device=where)
        assert moved.device == where
        assert torch.equal(moved.cpu(), x.cpu())
        with pytest.raises((ValueError, BufferError, RuntimeError), match="copy"):
            torch.from_dlpack(x, device=where, copy=False)
    assert torch.from_dlpack(torch.arange(6.0), device=device).device == x.device
    copied = torch.from_dlpack(x, copy=True)
    assert copied.data_ptr() != x.data_ptr()
    assert torch.equal(copied.cpu(), x.cpu())


def test_dlpack_refuses_what_it_cannot_express(device: str) -> None:
    x = torch.ones(2, device=device)
    with pytest.raises(BufferError, match="gradient"):
        x.clone().requires_grad_().__dlpack__()
    with pytest.raises(BufferError, match="conjugate"):
        x.to(torch.complex64).conj().__dlpack__()
    capsule = x.__dlpack__()
    torch.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="once"):
        torch.from_dlpack(capsule)


@needs_queues
def test_dlpack_orders_the_consumers_stream(device: str) -> None:
    producer, consumer = torch.Stream(device), torch.Stream(device)
    with producer:
        x = torch.zeros(1000, device=device)
        source = torch.arange(1000.0).pin_memory()
        producer.synchronize()
        occupy(producer)
        x.copy_(source, non_blocking=True)
        for nothing in (-1, None):
            x.__dlpack__(stream=nothing)
            assert consumer.query()
        shared = torch.from_dlpack(x.__dlpack__(stream=consumer.native_handle))
    assert not consumer.query()
    with consumer:
        assert torch.equal(shared.cpu(), source)
    assert producer.query()


def test_dlpack_refuses_a_stream_that_does_not_exist(device: str) -> None:
    x = torch.ones(2, device=device)
    own = torch.accelerator.current_stream()
    assert torch.equal(torch.from_dlpack(x.__dlpack__(stream=own.native_handle)).cpu(), torch.ones(2))
    for wrong in (0, 1, 12345):
        with pytest.raises((ValueError, RuntimeError), match="stream"):
            x.__dlpack__(stream=wrong)
    for wrong_type in ("1", own, 1.0):
        with pytest.raises(TypeError, match="stream"):
            x.__dlpack__(stream=wrong_type)


def test_dlpack_checks_the_streams_device(device: str, second_device: torch.device) -> None:
    with pytest.raises(ValueError, match="device"):
        torch.ones(2, device=device).__dlpack__(stream=torch.Stream(second_device).native_handle)


# ---- memory of another library ---------------------------------------------------------------------------------------


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class DLManagedTensor(ctypes.Structure):
    pass


DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(DLManagedTensor))
DLManagedTensor._fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class ForeignArray:
    """An array of another library: floats in device memory, exported by DLPack."""

    def __init__(self, address: int, index: int, count: int, on_delete: Callable[[], None]) -> None:
        self._shape = (ctypes.c_int64 * 1)(count)
        self._deleter = DELETER(lambda _: on_delete())
        tensor = DLTensor(address, int(DLDeviceType.kDLExtDev), index, 1, 2, 32, 1, self._shape, None, 0)
        self._managed = DLManagedTensor(tensor, None, self._deleter)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._managed.tensor.device_type, self._managed.tensor.device_id

    def __dlpack__(self, **options: object) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self._managed), b"dltensor", None)


def test_memory_of_another_library_is_shared_and_freed_once(device: str, second_device: torch.device) -> None:
    for index in (0, 1):
        memory = torch.arange(10.0, device=torch.device(device, index))
        freed: list[bool] = []
        foreign = ForeignArray(memory.data_ptr() + 8, index, 5, lambda freed=freed: freed.append(True))
        x = torch.from_dlpack(foreign)
        assert (x.device, x.shape, x.data_ptr()) == (memory.device, (5,), memory.data_ptr() + 8)
        assert torch.equal((x + 1).cpu(), torch.arange(3.0, 8.0))
        x.neg_()
        assert torch.equal(memory.cpu()[2:7], -torch.arange(2.0, 7.0))
        view = x[1:]
        del x
        assert not freed
        del view
        assert freed == [True]


def test_a_storage_can_wrap_a_device_address(device: str) -> None:
    memory = torch.arange(10.0, device=device)
    storage = torch._C._construct_storage_from_data_pointer(memory.data_ptr(), memory.device, memory.nbytes)
    x = torch.empty(0, device=device).set_(storage, 0, (10,))
    assert x.data_ptr() == memory.data_ptr()
    x.mul_(2)
    assert torch.equal(memory.cpu(), 2 * torch.arange(10.0))
    y = torch.zeros_like(x).copy_(x)
    assert torch.equal(y.cpu(), memory.cpu())


def test_asarray_shares_memory_of_the_same_device(device: str) -> None:
    x = torch.arange(4.0, device=device)
    assert torch.asarray(x).data_ptr() == x.data_ptr()
    assert torch.asarray(x, copy=True).data_ptr() != x.data_ptr()
    assert torch.equal(torch.asarray(x, device="cpu"), torch.arange(4.0))
    assert torch.equal(torch.asarray(np.arange(4.0), device=device).cpu(), torch.arange(4.0, dtype=torch.float64))


# ---- NumPy -----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_numpy_refuses_tensors_of_the_device(device: str) -> None:
    x = torch.arange(3.0, device=device)
    for action in (x.numpy, lambda: np.asarray(x), lambda: np.array(x), lambda: x.requires_grad_().numpy()):
        with pytest.raises(TypeError, match=r"\.cpu\(\)"):
            action()
    assert np.array_equal(x.detach().numpy(force=True), np.arange(3.0))
    assert np.array_equal(x.detach().cpu().numpy(), np.arange(3.0))
    with pytest.raises((RuntimeError, BufferError), match="device"):
        np.from_dlpack(x.detach())


# ---- files -----------------------------------------------------------------------------------------------------------


def through_a_file(obj: object, **options: Any) -> Any:
    file = io.BytesIO()
    torch.save(obj, file)
    file.seek(0)
    return torch.load(file, **options)


@pytest.mark.parametrize("form", ["str", "torch.device", "dict", "callable"])
def test_map_location_to_a_missing_device_is_refused(form: str, device: str, device_module: ModuleType) -> None:
    missing = f"{device}:{device_module.device_count()}"
    where: Any = {
        "str": missing,
        "torch.device": torch.device(missing),
        "dict": {f"{device}:0": missing},
        "callable": lambda storage, location: torch.serialization.default_restore_location(storage, missing),
    }[form]
    with pytest.raises(RuntimeError, match="map_location"):
        through_a_file(torch.ones(2, device=device), map_location=where)


def test_map_location_is_asked_for_each_storage(device: str, second_device: torch.device) -> None:
    asked = []

    def where(storage: torch.UntypedStorage, location: str) -> torch.UntypedStorage | None:
        asked.append((storage.device.type, location))
        if location == f"{device}:0":
            return storage  # stays on the host
        return None  # as saved

    a, b = through_a_file([torch.ones(2, device=device), torch.ones(2, device=second_device)], map_location=where)
    assert asked == [("cpu", f"{device}:0"), ("cpu", str(second_device))]
    assert (a.device.type, b.device) == ("cpu", second_device)
    for nowhere in (None, {"cpu": device}):
        assert through_a_file(torch.ones(2, device=second_device), map_location=nowhere).device == second_device


def test_current_device_takes_what_names_no_index(
    device: str, device_module: ModuleType, second_device: torch.device
) -> None:
    with device_module.device(second_device):
        assert through_a_file(torch.ones(2), map_location=device).device == second_device


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("where", ["device", "cpu", None])
def test_every_option_of_load_gives_the_values(
    where: str | None, mmap: bool, weights_only: bool, device: str, tmp_path: Any
) -> None:
    x = torch.randn(1000)
    there = x.to(device)
    torch.save({"a": there, "b": there[10:20]}, tmp_path / "file")
    location = device if where == "device" else where
    back = torch.load(tmp_path / "file", map_location=location, mmap=mmap, weights_only=weights_only)
    assert back["a"].device.type == ("cpu" if where == "cpu" else device)
    assert torch.equal(back["a"].cpu(), x)
    back["a"].zero_()
    assert torch.equal(back["b"].cpu(), torch.zeros(10))


def test_lazy_views_survive_files_pickle_and_deepcopy(device: str) -> None:
    x = torch.complex(torch.ones(3), torch.arange(3.0))
    for view in (x.to(device).conj(), x.to(device).conj().imag, torch._neg_view(x.to(device))):
        for back in (through_a_file(view), pickle.loads(pickle.dumps(view)), copy.deepcopy(view)):
            assert back.device == view.device
            assert torch.equal(back.cpu().resolve_conj().resolve_neg(), view.cpu().resolve_conj().resolve_neg())
    assert through_a_file(x.to(device).conj()).is_conj()


def test_flags_of_the_backend_are_saved(device: str) -> None:
    get, put = torch._utils.get_tensor_metadata, torch._utils.set_tensor_metadata
    x = torch.complex(torch.ones(2), torch.ones(2)).to(device).conj()
    assert get(x) == {"conj": True}
    put(x, {"private_layout": True, "checked": False})
    flags = {"private_layout": True, "checked": False, "conj": True}
    assert get(x) == flags
    assert get(x.detach()) == flags
    assert get(x + 1) == {}
    for back in (through_a_file(x), pickle.loads(pickle.dumps(x))):
        assert get(back) == flags
        assert torch.equal(back.cpu().resolve_conj(), x.cpu().resolve_conj())
    put(back, {})
    assert get(back) == {"conj": True}
    assert get(x) == flags
    assert get(through_a_file(x, map_location="cpu")) == {"conj": True}


def test_file_of_the_device_is_readable_where_it_is_unknown(device: str, run_python: RunPython, tmp_path: Any) -> None:
    x = torch.randn(5, 5)
    torch.save(x.to(device), tmp_path / "file")
    code = "import torch; print(torch.load('file', map_location='cpu').sum().item())"
    done = run_python(code, cwd=tmp_path, env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == x.sum().item()


def test_copies_of_modules_and_storages(device: str) -> None:
    model = torch.nn.Linear(3, 3).to(device)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other.weight.cpu(), model.weight.cpu())
        assert other.weight.data_ptr() != model.weight.data_ptr()
    storage = torch.arange(4.0, device=device).untyped_storage()
    for twin in (copy.deepcopy(storage), storage.clone()):
        assert twin.device == storage.device
        assert twin.data_ptr() != storage.data_ptr()
        assert twin.tolist() == storage.tolist()
