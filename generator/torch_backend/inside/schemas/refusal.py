"""Operators whose kernel could not be right if it computed with the CPU's kernel."""

from __future__ import annotations

from collections.abc import Callable

from torchgen.model import BaseTy, NativeFunction

PartsOf = Callable[[list[NativeFunction]], list[str]]

# Words in the names of operators that PyTorch calls for tensors of the CPU alone.
CPU_ONLY = {"cpu", "mkldnn", "nnpack"}


def refusal(function: NativeFunction, parts_of: PartsOf, *, on_cpu: bool, overrideable: bool) -> str | None:
    """Returns why an overload gets no kernel, and what to do instead, as the end of a sentence; None if it gets one.

    Args:
        parts_of: returns the operators that composite operators call.
        on_cpu: whether the CPU has a kernel of its own for it.
        overrideable: whether PyTorch has an operator for out-of-tree devices to take its place.
    """
    base, arguments = str(function.func.name.name.base), function.func.arguments.flat_all
    if CPU_ONLY & set(base.split("_")):
        return "is for tensors of the CPU alone: PyTorch does not call it for another device."
    if overrideable:
        return (
            f"needs no kernel, because PyTorch computes it with aten::{base}_overrideable on this device: "
            "write the kernel of that operator."
        )
    if any(argument.name == "non_blocking" for argument in arguments):
        return (
            "copies between devices, so the host may own an operand: "
            "PyTorch computes it with aten::_copy_from, whose kernel is in csrc/aten/Copy.cpp. Change that kernel."
        )
    tensors = any(argument.type.is_tensor_like() for argument in arguments)
    names_device = any(argument.type.is_base_ty_like(BaseTy.Device) for argument in arguments)
    if not tensors and not names_device:
        return "takes no tensor and no `device`, so PyTorch never calls a kernel of a device for it."
    if tensors and names_device:
        reason = (
            "takes a `device` beside a tensor, so the host may own the tensor or the result, and a kernel of this "
            "device cannot answer for the host. It needs no kernel"
        )
    elif not (on_cpu or _gives_tensors(function)):
        reason = "returns no tensor, and needs no kernel"
    else:
        return None
    parts = parts_of([function])
    return f"{reason}: PyTorch computes it from {', '.join(parts)}." if parts else f"{reason}."


def _gives_tensors(function: NativeFunction) -> bool:
    """Returns whether an overload returns or writes a tensor."""
    returns = any(result.type.is_tensor_like() for result in function.func.returns)
    return returns or any(argument.is_write for argument in function.func.arguments.flat_all)
