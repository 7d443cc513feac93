"""safetensors: tensors of the device are saved, and loaded onto it, bit by bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model

from .harness import DEVICE

TYPES = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.complex64,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.bool,
)


def values() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    tensors = {str(dtype): (torch.randn(3, 5) * 10).abs().to(dtype) for dtype in TYPES}
    return tensors | {"empty": torch.empty(0, 3), "scalar": torch.tensor(2.5)}


def same(found: dict[str, torch.Tensor], device: str) -> None:
    expected = values()
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        assert tensor.device.type == device, name
        assert tensor.dtype == expected[name].dtype
        assert tensor.shape == expected[name].shape
        assert torch.equal(octets(tensor.cpu()), octets(expected[name])), name


def octets(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().flatten().view(torch.uint8)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with tensors that were saved from the device."""
    path = tmp_path / "values.safetensors"
    save_file({name: tensor.to(DEVICE) for name, tensor in values().items()}, path)
    return path


def test_the_cpu_loads_what_the_device_saved(file: Path) -> None:
    same(load_file(file), "cpu")


@pytest.mark.parametrize("index", [0, 1])
def test_tensors_are_loaded_onto_the_device_of_an_index(file: Path, index: int) -> None:
    """The library takes a number as the index of the accelerator."""
    found = load_file(file, device=index)
    same(found, DEVICE)
    assert {tensor.get_device() for tensor in found.values()} == {index}


@pytest.mark.parametrize("device", [DEVICE, f"{DEVICE}:1"])
def test_the_name_of_the_device_is_refused(file: Path, device: str) -> None:
    with pytest.raises(SafetensorError, match=f"device {device} is invalid"):
        load_file(file, device=device)


def test_a_slice_is_loaded_onto_the_device(file: Path) -> None:
    with safe_open(file, framework="pt", device=0) as opened:
        part = opened.get_slice("torch.float32")[1:, :3]
        whole = opened.get_tensor("torch.float32")
    assert part.device.type == DEVICE
    assert torch.equal(part, whole[1:, :3])
    assert torch.equal(whole.cpu(), values()["torch.float32"])


def test_the_saved_bytes_are_the_cpus() -> None:
    data = save({name: tensor.to(DEVICE) for name, tensor in values().items()})
    assert data == save(values())
    same(load(data), "cpu")


def test_shared_memory_is_refused_as_on_the_cpu(tmp_path: Path) -> None:
    x = torch.ones(4, 4, device=DEVICE)
    with pytest.raises(RuntimeError, match="share memory"):
        save_file({"a": x, "b": x}, tmp_path / "shared.safetensors")
    with pytest.raises(RuntimeError, match="share memory"):
        save_file({"a": x, "b": x[1:]}, tmp_path / "shared.safetensors")
    with pytest.raises(ValueError, match="contiguous"):
        save_file({"a": x.t()[:, 1:]}, tmp_path / "strided.safetensors")


def test_tied_weights_are_saved_once_and_stay_tied(tmp_path: Path) -> None:
    """The library compares storages on the device to find names of one tensor."""

    class Tied(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.read = torch.nn.Embedding(5, 4)
            self.write = torch.nn.Linear(4, 5, bias=False)
            self.write.weight = self.read.weight

    torch.manual_seed(0)
    model, other = Tied().to(DEVICE), Tied().to(DEVICE)
    path = tmp_path / "model.safetensors"
    save_model(model, str(path))
    assert len(load_file(path)) == 1
    missing, unexpected = load_model(other, path, device=0)
    assert (list(missing), list(unexpected)) == ([], [])
    assert other.write.weight is other.read.weight
    assert torch.equal(other.write.weight, model.write.weight)
