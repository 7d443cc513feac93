"""Modules that move between the host and the device keep their parameter objects, with gradients, hooks and attributes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel


class Tied(nn.Module):
    """One weight in two places, as in language models."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.embedding(tokens))


MOVES: dict[str, Callable[[nn.Module, str], object]] = {
    "to": lambda module, device: module.to(device),
    "to and back": lambda module, device: module.to(device).cpu(),
    "to, back, and to": lambda module, device: module.to(device).cpu().to(device),
    "dtype and device": lambda module, device: module.to(device, torch.float64),
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_parameters_stay_the_same_objects(move: Callable[[nn.Module, str], object], device: str) -> None:
    module = Tied()
    before = list(module.parameters())
    content = module.embedding.weight.detach().clone()
    move(module, device)
    assert [id(p) for p in module.parameters()] == [id(p) for p in before]
    assert module.head.weight is module.embedding.weight
    torch.testing.assert_close(module.head.weight.detach().cpu().float(), content)


def train(device: str, optimizer_first: bool) -> list[Tensor]:
    torch.manual_seed(0)
    model = Tied()
    tokens = torch.tensor([0, 1, 2])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1) if optimizer_first else None
    model.to(device)
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(tokens.to(device)), tokens.to(device)).backward()
        optimizer.step()
    return [parameter.detach().cpu() for parameter in model.parameters()]


@pytest.mark.parametrize("optimizer_first", [True, False])
def test_tied_weights_train_as_on_the_cpu(optimizer_first: bool, device: str) -> None:
    torch.testing.assert_close(train(device, optimizer_first), train("cpu", optimizer_first))


def test_gradients_and_hooks_move_along(device: str) -> None:
    module = nn.Linear(2, 2)
    calls: list[Tensor] = []
    module.weight.register_hook(calls.append)
    module(torch.ones(1, 2)).sum().backward()
    grad = module.weight.grad
    module.to(device)
    assert module.weight.grad is grad
    assert grad is not None
    assert grad.device.type == device
    assert grad.tolist() == [[1, 1], [1, 1]]
    module(torch.ones(1, 2, device=device)).sum().backward()
    assert grad.tolist() == [[2, 2], [2, 2]]
    assert len(calls) == 2


def test_subclasses_and_attributes_of_parameters_stay(device: str) -> None:
    class Marked(nn.Parameter):
        tag: str

    module = nn.Linear(2, 2)
    module.weight = Marked(torch.ones(2, 2))
    module.weight.tag = "marked"
    module.to(device)
    assert type(module.weight) is Marked
    assert module.weight.tag == "marked"
    assert module.weight.device.type == device


def test_lazy_modules_take_their_shape_on_the_device(device: str) -> None:
    module = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d()).to(device)
    result = module(torch.ones(3, 5, device=device))
    torch.testing.assert_close(result.cpu(), torch.zeros(3, 4), atol=1e-3, rtol=0)  # equal rows, normalised
    assert module[0].weight.shape == (4, 5)
    assert module[0].weight.device.type == device


def test_recurrent_modules_and_averages_keep_their_lists(device: str) -> None:
    lstm = nn.LSTM(2, 2)
    average = AveragedModel(lstm)
    lstm.to(device)
    average.to(device)
    assert lstm._flat_weights[0] is lstm.weight_ih_l0
    average.update_parameters(lstm)
    torch.testing.assert_close(average.module.weight_ih_l0, lstm.weight_ih_l0)


@pytest.mark.parametrize("source", ["cpu", "device"])
def test_data_is_assigned_across_devices(source: str, device: str) -> None:
    here, there = (device, "cpu") if source == "device" else ("cpu", device)
    x = torch.ones(2, device=here, requires_grad=True)
    x.data = x.data.to(there) * 2
    assert x.device.type == there
    assert x.tolist() == [2, 2]
    (x * x).sum().backward()
    assert x.grad is not None
    assert (x.grad.device.type, x.grad.tolist()) == (there, [4, 4])


def test_tensors_of_another_kind_are_no_data(device: str) -> None:
    """PyTorch refuses this on every device, because the layouts are not compatible."""
    sparse: Any = torch.ones(3, device=device).to_sparse()
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        torch.ones(3).data = sparse
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        torch.ones(3, device=device).data = torch.ones(3, device="meta")
