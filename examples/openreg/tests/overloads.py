"""Compare single overloads of PyTorch's operators, such as ``add.Tensor`` or ``gelu_.default``, with the CPU."""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
import torch
from compare import seed, to_device
from conftest import MODULE
from torch import Tensor
from torch.utils._pytree import tree_leaves

Sample: TypeAlias = Callable[[str], tuple[tuple[Any, ...], dict[str, Any]]]
"""Makes the arguments of a call, for a device: ``lambda device: given(tensor(3, 4), device=device)``."""


def given(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call."""
    return args, kwargs


def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return a tensor on the host, with numbers from 0 to 2."""
    return torch.testing.make_tensor(shape, dtype=dtype, device="cpu", low=0, high=2)


def own_kernel(name: str) -> str:
    """Return the file that registers the project's kernel of an operator, such as ``aten::gelu``.

    The body of the kernel may still run on the host. Fails if the operator has no kernel.
    """
    told = MODULE.operators.coverage()[name]
    has_kernel = told["state"] in ("native", "host body")
    assert has_kernel, f"{name} is {told['state']}: is the installed library older than the sources?"
    return str(told["reason"]).removeprefix("registered at ").partition(":")[0]


def check_overload(name: str, sample: Sample, device: str) -> None:
    """Compare the results of an overload, and its arguments after the call, with those of the CPU."""
    op = _find(name)
    expected, actual = _call(op, sample, "cpu"), _call(op, sample, device)
    _compare(actual, expected, device)


def check_variant(functional: str, variant: str, sample: Sample, device: str) -> None:
    """Compare the in-place or the out variant of an overload with the CPU's. Both must refuse the same arguments.

    An out variant gets empty tensors. It must resize and return them, unless the CPU's refuses them too.
    """
    op = _find(variant)
    outs = [argument for argument in op._schema.arguments if argument.is_out]
    if not outs:
        try:
            expected = _call(op, sample, "cpu")
        except RuntimeError:
            with pytest.raises(RuntimeError):
                _call(op, sample, device)
            return
        _compare(_call(op, sample, device), expected, device)
        return
    (expected, _) = _call(_find(functional), sample, "cpu")
    wanted = [x for x in tree_leaves(expected) if isinstance(x, Tensor)]

    def empty(where: str) -> dict[str, Any]:
        made = [torch.empty(0, dtype=x.dtype, device=where) for x in wanted]
        if outs[0].type.kind() == "ListType":
            return {outs[0].name: made}
        return {argument.name: x for argument, x in zip(outs, made, strict=True)}

    into = empty(device)
    try:
        _call(op, sample, "cpu", **empty("cpu"))
    except RuntimeError:
        with pytest.raises(RuntimeError):
            _call(op, sample, device, **into)
        return
    (results, _) = _call(op, sample, device, **into)
    given = tree_leaves(into)
    if op._schema.returns:
        assert all(ours is x for ours, x in zip(tree_leaves(results), given, strict=True))
    _compare(given, wanted, device)


def _find(name: str) -> Any:
    packet, overload = name.rsplit(".", 1)
    return getattr(getattr(torch.ops.aten, packet), overload)


def _call(op: Any, sample: Sample, device: str, **extra: Any) -> tuple[Any, Any]:
    """Return the results of a call, and its arguments after the call."""
    seed("cpu")
    args, kwargs = to_device(sample(device), device)
    known = {argument.name for argument in op._schema.arguments}
    kwargs = {name: value for name, value in kwargs.items() if name in known} | extra
    seed(device)
    return op(*args, **kwargs), (args, kwargs)


def _compare(actual: Any, expected: Any, device: str) -> None:
    ours, theirs = tree_leaves(actual), tree_leaves(expected)
    assert len(ours) == len(theirs)
    for x, y in zip(ours, theirs, strict=True):
        if isinstance(y, Tensor):
            assert (x.device.type, x.dtype, x.stride()) == (device, y.dtype, y.stride())
            torch.testing.assert_close(x.cpu(), y, equal_nan=True)
        else:
            assert x == y or y == "cpu"
