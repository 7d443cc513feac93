"""Refuses optimizer steps in a graph capture that count on the host, because the device cannot detect them."""

from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from .. import _C
from .._build_info import DEVICE_NAME

__all__: list[str] = []


def install() -> None:
    """Make ``step()`` raise an error in a capture if it counts on the host, because a replay would not count.

    PyTorch's optimizers raise this error only for the devices that they know by name.
    """
    register_optimizer_step_pre_hook(_refuse_steps_on_the_host)


def _refuse_steps_on_the_host(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    if torch.compiler.is_compiling() or not _C._has_capture():  # no stream is asked when nothing is captured
        return
    for group in optimizer.param_groups:
        if group.get("capturable", True) or group.get("fused"):
            continue
        for parameter in group["params"][:1]:
            if (
                parameter.device.type == DEVICE_NAME
                and torch.accelerator.current_stream(parameter.device).is_capturing()
            ):
                raise RuntimeError(
                    f"{type(optimizer).__name__}.step() cannot be captured into a graph: it counts its steps on the host, "
                    "so each replay would repeat the captured step. Create the optimizer with capturable=True or fused=True."
                )
