"""Runs a program once on the CPU and once on the device, seeded alike, and compares what it returns.

Seeded alike, the device draws the CPU's random numbers, so dropout and samples are equal too. But each has a generator
of its own, and a model that is made on the CPU advances only the CPU's: programs seed again once all is on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.utils._pytree import tree_flatten_with_path, tree_map

DEVICE: str = torch._C._get_privateuse1_backend_name()
SEED = 1234
STEPS = 3

# A program is told its device, and returns tensors there and anything else that can be compared.
Program = Callable[[str], Any]


def on_both(program: Program, *, rtol: float = 1e-4, atol: float = 1e-5) -> Any:
    """Runs a program on both, demands equal results that lie where the program ran; returns those of the device."""
    expected = _run(program, "cpu")
    found = _run(program, DEVICE)
    assert_same(found, expected, rtol=rtol, atol=atol)
    return found


def seed() -> None:
    """Seeds the generators of the CPU and the device."""
    torch.manual_seed(SEED)


def _run(program: Program, device: str) -> Any:
    seed()
    result = program(device)

    def to_host(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        assert value.device.type == device, f"a result lies on {value.device}, the program ran on {device}"
        return value.detach().cpu().clone()

    return tree_map(to_host, result)


def assert_same(found: Any, expected: Any, *, rtol: float, atol: float) -> None:
    """Same structure, and leaves that are equal: numbers within the tolerance, the rest exactly."""
    found_leaves, found_structure = tree_flatten_with_path(found)
    expected_leaves, expected_structure = tree_flatten_with_path(expected)
    assert found_structure == expected_structure, (
        f"other parts: {sorted({str(path) for path, _ in found_leaves} ^ {str(path) for path, _ in expected_leaves})}"
    )
    assert expected_leaves, "the program returns nothing that could be compared"
    for (path, value), (_, wanted) in zip(found_leaves, expected_leaves, strict=True):
        name = "".join(str(key) for key in path) or "the result"
        if isinstance(wanted, torch.Tensor):
            assert not wanted.is_floating_point() or not wanted.isnan().all(), f"{name} is NaN on the CPU"
            torch.testing.assert_close(
                value, wanted, rtol=rtol, atol=atol, equal_nan=True, msg=lambda text, name=name: f"{name}: {text}"
            )
        elif isinstance(wanted, float):
            torch.testing.assert_close(
                value, wanted, rtol=rtol, atol=atol, msg=lambda text, name=name: f"{name}: {text}"
            )
        else:
            assert value == wanted, f"{name}: {value!r} on the device, {wanted!r} on the CPU"


def ties(model: torch.nn.Module) -> list[list[str]]:
    """Names of parameters that are one and the same."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [group for group in names.values() if len(group) > 1]


def moved(batch: Mapping[str, Any], device: str) -> dict[str, Any]:
    """A batch on the device."""
    found: dict[str, Any] = tree_map(
        lambda value: value.to(device) if isinstance(value, torch.Tensor) else value, batch
    )
    return found


def train(
    model: torch.nn.Module,
    device: str,
    loss_of: Callable[[torch.nn.Module], torch.Tensor],
    *,
    steps: int = STEPS,
    lr: float = 1e-3,
) -> dict[str, Any]:
    """Forward, backward and steps of AdamW.

    Returns the losses, the gradients of the first step and the parameters after the last one. The optimizer is made
    before the model is moved, and what was one parameter must still be one.
    """
    tied = ties(model)
    # AdamW divides a gradient by its own size: with its usual eps, one that is zero but for rounding would move a
    # parameter as far as any other, to a side that differs from device to device.
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, eps=1e-5)
    model.to(device)
    model.train()
    seed()
    losses: list[torch.Tensor] = []
    gradients: dict[str, torch.Tensor] = {}
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        losses.append(loss.detach())
        if step == 0:
            gradients = gradients_of(model)
        optimizer.step()
    assert ties(model) == tied, "tied weights came apart"
    return {
        "losses": losses,
        "gradients": gradients,
        "parameters": dict(model.named_parameters()),
        "buffers": dict(model.named_buffers()),
        "ties": tied,
    }


def gradients_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Copies of the gradients; there must be some."""
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    assert found, "no parameter has a gradient"
    return found


def floats(values: Iterable[Any]) -> list[float]:
    """Numbers as Python's."""
    return [float(value) for value in values]
