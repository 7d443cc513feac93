"""accelerate: its loops, told the device by an environment variable, and what it places and offloads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import accelerate
import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState
from accelerate.utils import find_executable_batch_size, get_max_memory, send_to_device
from safetensors import SafetensorError
from torch.utils.data import DataLoader, TensorDataset

from .harness import DEVICE, on_both


def forget() -> None:
    """Reset accelerate, which otherwise keeps its device for the life of a process."""
    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    forget()
    yield monkeypatch
    forget()


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 3))


def loop(accelerator: Accelerator, checkpoint: Path | None = None) -> Any:
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, eps=1e-5)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    data = TensorDataset(torch.randn(24, 6), torch.randint(0, 3, (24,)))
    loader = DataLoader(data, batch_size=4)
    net, optimizer, loader, schedule = accelerator.prepare(net, optimizer, loader, schedule)
    losses = []
    for x, y in loader:
        assert x.device.type == accelerator.device.type
        with accelerator.accumulate(net), accelerator.autocast():
            loss = torch.nn.functional.cross_entropy(net(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        losses.append(accelerator.gather_for_metrics(loss.detach()))
    if checkpoint:
        accelerator.save_state(str(checkpoint))
        kept = [p.detach().clone() for p in net.parameters()]
        with torch.no_grad():
            for p in net.parameters():
                p.zero_()
        accelerator.load_state(str(checkpoint))
        assert all(torch.equal(a, b) for a, b in zip(kept, net.parameters(), strict=True))
    return losses, list(accelerator.unwrap_model(net).parameters())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gradient_accumulation_steps": 2},
        {"mixed_precision": "bf16"},
    ],
    ids=["plain", "accumulation", "bfloat16"],
)
def test_a_prepared_loop_trains_as_on_the_cpu(
    options: dict[str, Any], fresh: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def program(device: str) -> Any:
        forget()
        fresh.setenv("ACCELERATE_TORCH_DEVICE", device)
        accelerator = Accelerator(**options)
        assert accelerator.device.type == device
        return loop(accelerator, tmp_path / device)

    on_both(program)


def test_the_default_device_is_the_cpu() -> None:
    assert Accelerator().device.type == "cpu"


def test_mixed_precision_of_float16_is_refused(fresh: pytest.MonkeyPatch) -> None:
    fresh.setenv("ACCELERATE_TORCH_DEVICE", DEVICE)
    with pytest.raises(ValueError, match="fp16 mixed precision requires a device in"):
        Accelerator(mixed_precision="fp16")


def test_the_memory_of_the_device_is_not_counted() -> None:
    assert set(get_max_memory()) == {"cpu"}


def test_batches_of_any_structure_move_to_the_device() -> None:
    batch = {"x": torch.ones(2), "more": [torch.zeros(1), (torch.ones(1), "text")]}
    sent = send_to_device(batch, torch.device(DEVICE), non_blocking=True)
    assert sent["x"].device.type == sent["more"][0].device.type == sent["more"][1][0].device.type == DEVICE
    assert sent["more"][1][1] == "text"


@pytest.mark.matrix
@pytest.mark.parametrize("how", ["dispatched", "offloaded", "from disk"])
def test_a_model_with_its_parameters_elsewhere_computes_on_the_device(how: str, tmp_path: Path) -> None:
    """Parameters lie on another device, on the CPU or on disk. Hooks copy them when a layer needs them."""
    x = torch.randn(4, 6)
    net = model().eval()
    expected = net(x)
    if how == "dispatched":
        places = {"0": f"{DEVICE}:0", "1": f"{DEVICE}:0", "2": f"{DEVICE}:1"}
        net = accelerate.dispatch_model(net, device_map=places, main_device=f"{DEVICE}:0", force_hooks=True)
        assert net[2].weight.device == torch.device(DEVICE, 1)
    elif how == "offloaded":
        net = accelerate.cpu_offload(net, execution_device=torch.device(DEVICE, 0))
        assert net[0].weight.device.type == "meta"
    else:
        net = accelerate.disk_offload(net, str(tmp_path), execution_device=torch.device(DEVICE, 0))
    found = net(x.to(DEVICE))
    assert found.device.type == DEVICE
    torch.testing.assert_close(found.cpu(), expected)


def load(folder: Path, place: Any) -> list[torch.nn.Parameter]:
    with accelerate.init_empty_weights():
        empty = model()
    return list(accelerate.load_checkpoint_and_dispatch(empty, str(folder), device_map={"": place}).parameters())


@pytest.mark.matrix
def test_a_checkpoint_is_loaded_by_the_index_of_the_device(tmp_path: Path) -> None:
    net = model()
    Accelerator().save_model(net, str(tmp_path))
    for one, two in zip(net.parameters(), load(tmp_path, 0), strict=True):
        assert two.device.type == DEVICE
        assert torch.equal(one, two.cpu())


@pytest.mark.matrix
def test_the_name_of_the_device_is_refused_for_a_checkpoint(tmp_path: Path) -> None:
    """safetensors does not know the name."""
    Accelerator().save_model(model(), str(tmp_path))
    with pytest.raises(SafetensorError, match="is invalid"):
        load(tmp_path, torch.device(DEVICE, 0))


@pytest.mark.matrix
def test_the_batch_size_shrinks_when_memory_is_short() -> None:
    """The library recognizes an out-of-memory error by its type, or by words of CUDA's message."""
    tried = []

    def run(size: int) -> int:
        tried.append(size)
        if size > 2:
            torch.empty(size << 50, device=DEVICE)
        return size

    assert find_executable_batch_size(run, starting_batch_size=8)() == 2
    assert tried == [8, 7, 6, 5, 4, 3, 2]
