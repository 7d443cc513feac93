"""Operators defined in Python: schema, device kernel, shapes and gradient of each, in one place.

The way to a new operator without C++: compose it here, measure, and write a kernel for it if it is worth one. Callers
find it as ``torch.ops.<device>.<name>`` and do not notice the change.
"""

from typing import Any

import torch
from torch import Tensor

from .._build_info import DEVICE_NAME

_library = torch.library.Library(DEVICE_NAME, "FRAGMENT")


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """Return ``silu(gate) * up``, an activation of feed-forward layers, for two tensors of the same shape.

    Raises RuntimeError if their shapes, dtypes or devices differ.
    """
    result: Tensor = getattr(torch.ops, DEVICE_NAME).swiglu(gate, up)
    return result


# A fused kernel, m.impl("swiglu", ...) in csrc/aten/native, takes the place of this; all else stays.
def _swiglu(gate: Tensor, up: Tensor) -> Tensor:
    _check_pair(gate, up)
    return torch.nn.functional.silu(gate).mul_(up)


def _swiglu_shape(gate: Tensor, up: Tensor) -> Tensor:
    _check_pair(gate, up)
    return torch.empty_like(gate)


def _check_pair(gate: Tensor, up: Tensor) -> None:
    for what, first, second in (
        ("shape", gate.shape, up.shape),
        ("dtype", gate.dtype, up.dtype),
        ("device", gate.device, up.device),
    ):
        if first != second:
            raise RuntimeError(f"swiglu needs two tensors of the same {what}, got {first} and {second}")


def _swiglu_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
    gate, up = ctx.saved_tensors
    wants_gate, wants_up = ctx.needs_input_grad
    sigmoid = torch.sigmoid(gate)
    grad_gate = grad * up * sigmoid * (1 + gate * (1 - sigmoid)) if wants_gate else None
    grad_up = grad * gate * sigmoid if wants_up else None
    return grad_gate, grad_up


def _save_inputs(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


_library.define("swiglu(Tensor gate, Tensor up) -> Tensor", tags=torch.Tag.pt2_compliant_tag)
_library.impl("swiglu", _swiglu, "PrivateUse1")
_library.impl("swiglu", _swiglu_shape, "Meta")
torch.library.register_autograd(f"{DEVICE_NAME}::swiglu", _swiglu_backward, setup_context=_save_inputs, lib=_library)
