"""Saving, loading, pickling and copying of device tensors and modules."""

import copy
import io
import pickle
from types import ModuleType

import pytest
import torch
from torch import nn


def through_a_file(obj: object, **options: object) -> object:
    file = io.BytesIO()
    torch.save(obj, file)
    file.seek(0)
    return torch.load(file, **options)


DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (3, 5), (0, 2)], ids=str)
def test_tensors_come_back_where_they_were(dtype: torch.dtype, shape: tuple[int, ...], device: str) -> None:
    x = torch.testing.make_tensor(shape, dtype=dtype, device="cpu")
    back = through_a_file(x.to(device))
    assert (back.device, back.dtype, back.shape) == (torch.device(device, 0), dtype, x.shape)
    assert torch.equal(back.cpu(), x)


def test_a_file_remembers_the_second_device(second_device: torch.device) -> None:
    x = torch.arange(5.0)
    back = through_a_file(x.to(second_device))
    assert back.device == second_device
    assert torch.equal(back.cpu(), x)


@pytest.mark.parametrize("saved_on", ["device", "cpu"])
@pytest.mark.parametrize("form", ["str", "index", "torch.device", "dict", "function", "cpu"])
def test_every_form_of_map_location_is_taken(saved_on: str, form: str, device: str) -> None:
    x = torch.randn(4, 4)
    where = {
        "str": device,
        "index": f"{device}:0",
        "torch.device": torch.device(device),
        "dict": {f"{device}:0": f"{device}:0", "cpu": f"{device}:0"},
        "function": lambda storage, location: storage.to(device=torch.device(device, 0)),
        "cpu": "cpu",
    }[form]
    back = through_a_file(x.to(device if saved_on == "device" else "cpu"), map_location=where)
    assert back.device.type == ("cpu" if form == "cpu" else device)
    assert torch.equal(back.cpu(), x)


def test_map_location_loads_to_another_device(device: str, second_device: torch.device) -> None:
    x = torch.randn(4, device=device)
    assert through_a_file(x, map_location=str(second_device)).device == second_device
    assert through_a_file(x, map_location={f"{device}:0": str(second_device)}).device == second_device


def test_a_missing_device_is_an_error_that_names_map_location(device: str, device_module: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="map_location"):
        through_a_file(torch.ones(2), map_location=f"{device}:{device_module.device_count()}")


def test_file_is_readable_without_the_device(device: str) -> None:
    x = torch.randn(3, 3)
    assert torch.equal(through_a_file({"x": x.to(device)}, map_location="cpu", weights_only=True)["x"], x)


def test_views_keep_sharing(device: str) -> None:
    x = torch.arange(12.0, device=device)
    base, view, strided = through_a_file([x, x[4:8], x.view(3, 4).T])
    base.fill_(7)
    assert torch.equal(view.cpu(), torch.full((4,), 7.0))
    assert strided.stride() == (1, 4)
    assert strided.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()


@pytest.mark.parametrize("mmap", [True, False])
def test_a_state_dict_on_disk_comes_back(mmap: bool, device: str, tmp_path: object) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)).to(device)
    path = f"{tmp_path}/model.pt"
    torch.save(model.state_dict(), path)
    state = torch.load(path, mmap=mmap, map_location=device)
    other = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)).to(device)
    other.load_state_dict(state)
    for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        assert b.device.type == device
        assert torch.equal(a.cpu(), b.cpu())


def test_training_goes_on_from_a_checkpoint(device: str) -> None:
    def build() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = nn.Linear(4, 4).to(device)
        return model, torch.optim.AdamW(model.parameters(), lr=0.1)

    def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        model(torch.ones(2, 4, device=device)).square().sum().backward()
        optimizer.step()

    model, optimizer = build()
    step(model, optimizer)
    saved = through_a_file({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    step(model, optimizer)
    other, other_optimizer = build()
    other.load_state_dict(saved["model"])
    other_optimizer.load_state_dict(saved["optimizer"])
    step(other, other_optimizer)
    assert torch.equal(other.weight.cpu(), model.weight.cpu())


def test_a_parameter_comes_back_as_a_parameter(device: str) -> None:
    parameter = nn.Parameter(torch.ones(3, device=device))
    back = through_a_file(parameter, weights_only=False)
    assert isinstance(back, nn.Parameter)
    assert back.requires_grad
    assert back.device.type == device


def test_pickled_tensors_and_modules_come_back(device: str) -> None:
    x = torch.randn(5)
    back = pickle.loads(pickle.dumps(x.to(device)))
    assert back.device.type == device
    assert torch.equal(back.cpu(), x)
    module = pickle.loads(pickle.dumps(nn.Linear(2, 2).to(device)))
    assert module.weight.device.type == device


def test_deepcopy_keeps_sharing(device: str) -> None:
    x = torch.arange(6.0, device=device).requires_grad_()
    a, b = copy.deepcopy([x, x])
    assert a is b
    assert a.device == x.device
    assert a.requires_grad
    with torch.no_grad():
        a.zero_()
    assert torch.equal(x.detach().cpu(), torch.arange(6.0))
    model = nn.Linear(2, 2).to(device)
    assert torch.equal(copy.deepcopy(model).weight.cpu(), model.weight.cpu())
    assert torch.equal(copy.copy(x).detach().cpu(), x.detach().cpu())


def test_a_generator_state_in_a_checkpoint_repeats_the_numbers(device: str, device_module: ModuleType) -> None:
    saved = through_a_file({"rng": device_module.get_rng_state()})
    first = torch.randn(3, device=device).cpu()
    device_module.set_rng_state(saved["rng"])
    assert torch.equal(torch.randn(3, device=device).cpu(), first)


def test_values_reach_numpy_through_the_cpu(device: str) -> None:
    x = torch.randn(3, device=device)
    assert torch.equal(torch.from_numpy(x.cpu().numpy()), x.cpu())
    with pytest.raises(TypeError, match="cpu"):
        x.numpy()
    assert x.tolist() == x.cpu().tolist()
