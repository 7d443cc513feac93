"""Compare one operator of PyTorch's database with the CPU, on the samples of the database."""

import copy
from collections.abc import Iterable
from itertools import islice
from typing import Any, TypeAlias

import pytest
import torch
from compare import HALF, gradients, seed, to_device
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

pytest.importorskip("numpy", reason="PyTorch's operator database needs numpy")
pytest.importorskip("expecttest", reason="PyTorch's operator database needs expecttest")

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

UNSPECIFIED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
"""Their values are whatever the memory held."""
OWN_STRIDES = ("linalg.lstsq", "linalg.lstsq.grad_oriented")
"""They run on the host by copies, and a copied result is contiguous."""
HOST_ARGUMENTS = ("tensor_split",)
"""Their tensor arguments stay on the host: it reads them."""
WIDER = {"nn.functional.linear_cross_entropy.chunked": 4e-2, "nn.functional.linear_cross_entropy.chunked_none": 4e-2}
"""Tolerance, in half precision, of operators that choose another order of summation off the CPU."""

Arguments: TypeAlias = tuple[Any, tuple[Any, ...], dict[str, Any]]
"""The input of an operator, its other arguments, and its keyword arguments."""

DTYPES = [
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.complex64,
    torch.int64,
    torch.uint8,
    torch.bool,
]


OFF_CPU_ONLY = {
    "torch.ops.aten._efficient_attention_forward": "it is a kernel of CUDA's, which the CPU has for no dtype",
    "torch.ops.aten._flash_attention_forward": "it is a kernel of CUDA's, which the CPU has for no dtype",
}
"""Entries of the database with dtypes for CUDA that computing in a wider one does not give."""


def wider(dtype: torch.dtype) -> torch.dtype:
    """Return the wider dtype: it holds every number of this dtype, and the CPU has kernels for it."""
    if dtype == torch.complex32:
        return torch.complex64
    if dtype == torch.bool:
        return torch.uint8
    if dtype.is_complex or dtype.is_floating_point:
        return torch.float32 if dtype in HALF else dtype
    return torch.float64


def on_accelerators(op: Any) -> Any:
    """Return a copy of an entry that also lists CUDA's dtypes, with a function that works on the CPU for all of them."""
    op = copy.copy(op)
    op.dtypesIf = {**op.dtypesIf, "cpu": op.dtypes}
    op.dtypes, op.backward_dtypes = (
        op.dtypes | accelerator_dtypes(op),
        op.backward_dtypes | accelerator_backward_dtypes(op),
    )
    op.op = CPU_REFERENCES.get(op.full_name, op.op)
    return op


def _nansum(x: Tensor, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Tensor:
    """Sum complex numbers that the CPU's nansum refuses in every precision."""
    if x.device.type != "cpu" or not x.is_complex():
        return torch.nansum(x, dim, keepdim, **kwargs)
    return torch.sum(torch.where(x.isnan(), 0, x), dim, keepdim, **kwargs)


def _nanmean(x: Tensor, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Tensor:
    if x.device.type != "cpu" or not x.is_complex():
        return torch.nanmean(x, dim, keepdim, **kwargs)
    out = kwargs.pop("out", None)
    return torch.div(_nansum(x, dim, keepdim, **kwargs), x.isnan().logical_not().sum(dim, keepdim), out=out)


CPU_REFERENCES = {"nansum": _nansum, "nanmean": _nanmean}


def accelerator_dtypes(op: Any) -> set[torch.dtype]:
    """Return the dtypes that CUDA takes and the CPU lacks."""
    if op.full_name in OFF_CPU_ONLY:
        return set()
    return set(op.dtypesIf["cuda"]) - set(op.supported_dtypes("cpu"))


def accelerator_backward_dtypes(op: Any) -> set[torch.dtype]:
    """Return the dtypes that CUDA has a gradient for and the CPU lacks."""
    if not op.supports_autograd or op.full_name in OFF_CPU_ONLY:
        return set()
    return set(op.supported_backward_dtypes("cuda")) - set(op.supported_backward_dtypes("cpu"))


def widened(tree: Any, dtype: torch.dtype) -> Any:
    """Return nested arguments in which the wider dtype replaces this one: in tensors, and where the dtype is an argument."""
    if dtype == torch.complex32:
        narrow = {torch.complex32: torch.complex64, torch.float16: torch.float32}
    else:
        narrow = {dtype: wider(dtype)}

    def widen(x: Any) -> Any:
        if isinstance(x, Tensor) and x.dtype in narrow:
            return x.detach().to(narrow[x.dtype]).requires_grad_(x.requires_grad)
        return narrow.get(x, x) if isinstance(x, torch.dtype) else x

    return tree_map(widen, tree)


def find(*names: str) -> list[Any]:
    """Return the entries of the database with these full names, such as ``"nn.functional.gelu"``."""
    found = {op.full_name: op for op in op_db}
    return [found[name] for name in names]


def samples(op: Any, dtype: torch.dtype, count: int, wants_grad: bool = False) -> list[Arguments]:
    """Return the first of the operator's samples on the CPU: there can be thousands."""
    seed("cpu")
    # Without a detour through op.sample_inputs, which looks at the whole stack for each sample.
    return first(op.sample_inputs_func(op, "cpu", dtype, wants_grad), count)


def first(found: Iterable[Any], count: int) -> list[Arguments]:
    return [arguments_of(sample) for sample in islice(found, count)]


def arguments_of(sample: Any) -> Arguments:
    return sample.input, tuple(sample.args), dict(sample.kwargs)


def on(sample: Arguments, device: str, op: Any) -> Arguments:
    """Return a copy of an operator's arguments on a device. Arguments that the operator needs on the host stay there."""
    given, args, kwargs = place(sample, device)
    if op.is_factory_function:
        kwargs = {"device": device} | kwargs
    return given, sample[1] if op.full_name in HOST_ARGUMENTS else args, kwargs


def place(arguments: Any, device: str) -> Any:
    """Return a copy of nested arguments on a device: tensors move, and arguments that name the CPU name the device."""

    def name(x: Any) -> Any:
        return device if isinstance(x, torch.device) or (isinstance(x, str) and x == "cpu") else x

    return to_device(tree_map(lambda x: x if isinstance(x, Tensor) else name(x), arguments), device)


def run(
    op: Any, sample: Arguments, device: str, wants_grad: bool = False, in_place: bool = False, **extra: Any
) -> list[Any]:
    given, args, kwargs = on(sample, device, op)
    seed(device)
    results = (op.inplace_variant if in_place else op)(given, *args, **kwargs, **extra)
    wanting = [x for x in tree_leaves((given, args, kwargs)) if isinstance(x, Tensor) and x.requires_grad]
    return tree_leaves(results) + (gradients(results, wanting) if wants_grad else [])


def tolerances(op: Any, dtype: torch.dtype) -> dict[str, float]:
    """Return the tolerances where PyTorch's defaults for the dtype are too narrow."""
    wider = WIDER.get(op.full_name) if dtype in HALF else None
    return {} if wider is None else {"rtol": wider, "atol": wider}


def compare(op: Any, actual: list[Any], expected: list[Any], device: str) -> None:
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected, strict=True):
        if not isinstance(theirs, Tensor):
            assert ours == theirs or isinstance(theirs, torch.device)
            continue
        assert (ours.device.type, ours.dtype, ours.shape) == (device, theirs.dtype, theirs.shape)
        assert ours.layout == theirs.layout
        if theirs.layout == torch.strided and op.full_name not in OWN_STRIDES:
            assert ours.stride() == theirs.stride()
        if op.full_name not in UNSPECIFIED:
            torch.testing.assert_close(ours.cpu(), theirs, equal_nan=True, **tolerances(op, theirs.dtype))


def check_values(op: Any, device: str) -> None:
    for sample in samples(op, torch.float32, 8):
        compare(op, run(op, sample, device), run(op, sample, "cpu"), device)


def check_gradients(op: Any, device: str) -> None:
    for dtype in {torch.float32, torch.complex64} & op.supported_backward_dtypes("cpu"):
        for sample in samples(op, dtype, 3, wants_grad=True):
            try:
                expected = run(op, sample, "cpu", wants_grad=True)
            except RuntimeError as error:
                with pytest.raises(RuntimeError) as caught:
                    run(op, sample, device, wants_grad=True)
                assert str(caught.value) == str(error)
            else:
                compare(op, run(op, sample, device, wants_grad=True), expected, device)


def check_other_dtypes(op: Any, device: str) -> None:
    for dtype in [dtype for dtype in DTYPES if dtype in op.supported_dtypes("cpu")]:
        for sample in samples(op, dtype, 1):
            compare(op, run(op, sample, device), run(op, sample, "cpu"), device)


def check_in_place(op: Any, device: str) -> None:
    for sample in samples(op, torch.float32, 3):
        try:
            expected = run(op, sample, "cpu", in_place=True)
        except RuntimeError:
            continue  # the result does not fit into the input
        compare(op, run(op, sample, device, in_place=True), expected, device)


def check_out(op: Any, device: str) -> None:
    def into_empty(where: str) -> tuple[list[Any], list[Any]]:
        outs = [torch.empty(0, dtype=dtype, device=where) for dtype in dtypes]
        return outs, run(op, sample, where, out=outs[0] if len(outs) == 1 else tuple(outs))

    for sample in samples(op, torch.float32, 2):
        try:
            dtypes = [x.dtype for x in run(op, sample, "cpu") if isinstance(x, Tensor)]
            expected, _ = into_empty("cpu")
        except (RuntimeError, TypeError):
            continue  # no such variant for this dtype or this sample
        outs, results = into_empty(device)
        compare(op, outs, expected, device)
        if None not in results:
            compare(op, results, expected, device)
