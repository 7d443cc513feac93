"""einops: rearranging, reducing and its layers, as on the CPU."""

from __future__ import annotations

from typing import Any

import einops
import pytest
import torch
from einops.layers.torch import EinMix, Rearrange, Reduce

from .harness import on_both, train

OPERATIONS = {
    "rearrange": lambda x: einops.rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=4),
    "transpose": lambda x: einops.rearrange(x, "b c h w -> w h c b"),
    "reduce mean": lambda x: einops.reduce(x, "b c (h p) w -> b c h", "mean", p=2),
    "reduce max": lambda x: einops.reduce(x, "b c h w -> c", "max"),
    "reduce prod": lambda x: einops.reduce(x, "b c h w -> b c", "prod"),
    "repeat": lambda x: einops.repeat(x, "b c h w -> b (c n) h w k", n=2, k=3),
    "einsum": lambda x: einops.einsum(x, x, "b c h w, b d h w -> b c d"),
    "pack": lambda x: einops.pack([x, x[:, :, 0]], "b c *")[0],
    "stack": lambda x: einops.rearrange([x, 2 * x], "n b c h w -> b (n c) h w"),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_and_its_gradient_are_the_cpus(name: str) -> None:
    def program(device: str) -> Any:
        x = torch.randn(2, 3, 4, 8).to(device).requires_grad_()
        y = OPERATIONS[name](x)
        (y * y).sum().backward()
        return y, x.grad

    on_both(program)


def test_layers_train_as_on_the_cpu() -> None:
    def program(device: str) -> Any:
        model = torch.nn.Sequential(
            Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=2, q=2),
            EinMix("b t c -> b t d", weight_shape="c d", bias_shape="d", c=12, d=8),
            torch.nn.GELU(),
            Reduce("b t d -> b d", "mean"),
        )
        x = torch.randn(4, 3, 8, 8).to(device)
        return train(model, device, lambda m: m(x).square().mean())

    on_both(program)
