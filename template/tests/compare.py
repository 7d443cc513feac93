"""Run a function or a module on the device and on the CPU, and compare the results."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

HALF = (torch.float16, torch.bfloat16)


def check_same(function: Callable[..., Any], *args: Any, device: str, strides: bool = True, **tolerances: Any) -> None:
    """Compare what `function` returns for `args`, and all gradients, on `device` with the CPU's.

    `args` may be nested; tensors in them are moved, and get a gradient if they require one. For a module,
    the gradients of its parameters and its buffers are compared too. Both runs start from one seed. `tolerances` go to assert_close.
    """
    actual = _run(function, args, device)
    expected = _run(function, args, "cpu")
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected, strict=True):
        if not isinstance(theirs, Tensor):
            assert ours == theirs
            continue
        assert ours.device.type == device
        assert not strides or ours.stride() == theirs.stride()
        torch.testing.assert_close(ours.cpu(), theirs, equal_nan=True, **tolerances)


def to_device(tree: Any, device: Any) -> Any:
    """Return a copy of nested tensors on another device, which require a gradient where the originals do.

    Meta tensors, which have nothing to copy, stay where they are.
    """

    def move(t: Tensor) -> Tensor:
        return t if t.is_meta else t.detach().to(device, copy=True).requires_grad_(t.requires_grad)

    return tree_map_only(Tensor, move, tree)


def seed(device: str) -> None:
    """Seed this device and the host. torch.manual_seed takes many times as long, because it seeds all device types."""
    torch.default_generator.manual_seed(0)
    if device != "cpu":
        torch.get_device_module(device).default_generators[0].manual_seed(0)


def gradients(results: Any, inputs: list[Tensor]) -> list[Tensor | None]:
    """Return the gradients of `inputs` for a gradient of `results` that is neither constant nor zero."""
    outputs = [x for x in tree_leaves(results) if isinstance(x, Tensor) and x.requires_grad]
    if not outputs or not inputs:
        return []
    return list(torch.autograd.grad(outputs, inputs, [slope(x) for x in outputs], allow_unused=True))


def slope(x: Tensor) -> Tensor:
    """Return a gradient for a tensor that is neither constant nor zero."""
    return torch.arange(x.numel(), dtype=torch.float32).cos().reshape(x.shape).to(x.dtype).to(x.device)


def _run(function: Callable[..., Any], args: Any, device: str) -> list[Any]:
    inputs = to_device(args, device)
    wanting = [x for x in tree_leaves(inputs) if isinstance(x, Tensor) and x.requires_grad]
    buffers: list[Tensor] = []
    if isinstance(function, nn.Module):
        function = copy.deepcopy(function).to(device)
        wanting += function.parameters()
        buffers += function.buffers()
    seed(device)
    results = function(*inputs)
    return [*tree_leaves(results), *gradients(results, wanting), *buffers]
