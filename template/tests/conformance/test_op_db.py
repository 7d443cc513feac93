"""PyTorch's operators by its own samples, each dtype that the CPU or CUDA has, against the CPU.

Where the CPU lacks a kernel for the dtype, the CPU's results in the next wider one are what counts, rounded. Where it raises
for another reason, so must the device. Random operators give the CPU's numbers, because emulation draws with the CPU's
engine from the same seed.
"""

import os
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any
from unittest import SkipTest

import torch
import torch.autograd.forward_ad as forward_ad
from case import DeviceCase, in_order, second_gradients, tensors, wanting_grad, with_gaps
from claims import PART, chosen, mark_exceptions
from compare import HALF, gradients, seed, slope
from opinfo import (
    OWN_STRIDES,
    UNSPECIFIED,
    Arguments,
    accelerator_dtypes,
    arguments_of,
    first,
    on,
    on_accelerators,
    op_db,
    samples,
    tolerances,
    widened,
)
from torch import Tensor
from torch.testing._internal.common_device_type import OpDTypes, instantiate_device_type_tests, ops
from torch.utils._pytree import tree_leaves, tree_map_only

CHOSEN = {op.full_name for op in chosen(op_db, lambda op: op.full_name)}
"""The operators that are tested in all dtypes."""
OPS = [on_accelerators(op) for op in op_db if op.full_name in CHOSEN or PART not in os.environ]
MANY = 25
SINGLE = (torch.float32, torch.complex64)
SPARSE_LAYOUTS = [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc]


TAKEN = ("__rmod__", "__rpow__", "__rsub__", "clamp_max", "clamp_min")
"""Operators for whose samples PyTorch expects an error, and which the CPU computes."""
OTHER_WORDS = ("narrow_copy",)
"""Operators for which PyTorch expects an error in other words than those of the CPU's kernel."""


def is_basic(kind: str, op: Any, dtype: torch.dtype | None) -> bool:
    """Return whether a test is one of the few of an operator that is not tested in all dtypes."""
    if kind == "test_values":  # float32, and one that differs between operators
        others = sorted(op.dtypes - {torch.float32}, key=str)
        return dtype in [torch.float32, *others[sum(op.full_name.encode()) % max(len(others), 1) :][:1]]
    return kind in ("test_inplace", "test_out", "test_backward") and dtype in SINGLE or kind == "test_errors"


class operators(ops):
    """Make a test for each chosen operator that fits, and each of the dtypes."""

    def __init__(self, fits: Callable[[Any], Any] = lambda op: True, dtypes: OpDTypes = OpDTypes.supported) -> None:
        fitting = [op for op in OPS if fits(op)]
        super().__init__(fitting or op_db[:1], dtypes=dtypes if fitting else [])

    def _parametrize_test(self, test: Any, generic_cls: Any, device_cls: Any) -> Iterator[Any]:
        for _, *others in super()._parametrize_test(test, generic_cls, device_cls):
            parameters = others[1]
            op, dtype = parameters["op"], parameters.get("dtype")
            if op.full_name not in CHOSEN and not is_basic(test.__name__, op, dtype):
                continue

            @wraps(test)
            def alone(*args: Any, **kwargs: Any) -> Any:
                # PyTorch's wrapper looks at the whole stack for the last sample, which takes as long as most tests.
                return test(*args, **kwargs)

            yield alone, *others


class TestOperators(DeviceCase):
    """Each test is one operator with one dtype, and takes PyTorch's samples for them."""

    @operators()
    def test_values(self, device: str, dtype: torch.dtype, op: Any) -> None:
        """Results, for many samples."""
        for sample in some(op, dtype, MANY):
            self.check(op, device, dtype, lambda arguments: results(op, arguments), sample)

    @operators()
    def test_strided(self, device: str, dtype: torch.dtype, op: Any) -> None:
        """Operands are views with gaps."""
        for sample in some(op, dtype):
            self.check(op, device, dtype, lambda arguments: results(op, with_gaps(arguments)), sample)

    @operators(lambda op: op.test_conjugated_samples or op.test_neg_view)
    def test_lazy(self, device: str, dtype: torch.dtype, op: Any) -> None:
        """Operands are conjugate and negative views, whose values are computed by whoever reads them."""
        if not dtype.is_complex and not dtype.is_floating_point:
            self.skipTest("such views are of real and complex numbers")
        for sample in some(op, dtype):
            self.check(op, device, dtype, lambda arguments: results(op, lazily(op, arguments)), sample)

    @operators(lambda op: op.inplace_variant is not None)
    def test_inplace(self, device: str, dtype: torch.dtype, op: Any) -> None:
        for sample in some(op, dtype):

            def run(arguments: Arguments) -> list[Any]:
                return [*results(op.inplace_variant, arguments), arguments[0]]

            self.check(op, device, dtype, run, sample)

    @operators(lambda op: op.supports_out)
    def test_out(self, device: str, dtype: torch.dtype, op: Any) -> None:
        """The results go into tensors that are empty, that fit but with other strides, and that have another dtype."""
        for sample in some(op, dtype):
            try:
                expected = tensors(call(op, on(sample, "cpu", op)))
            except Exception:
                continue  # test_values has seen it
            for shaped in [_empty, _other_strides, _other_dtype]:
                given, args, kwargs = sample
                outs = tuple(shaped(x) for x in expected)
                kwargs = kwargs | {"out": outs[0] if len(outs) == 1 else outs}
                self.check(
                    op,
                    device,
                    dtype,
                    lambda arguments: [*results(op, arguments), *tensors(arguments)],
                    (given, args, kwargs),
                )

    @operators(dtypes=OpDTypes.supported_backward)
    def test_backward(self, device: str, dtype: torch.dtype, op: Any) -> None:
        for sample in some(op, dtype, wants_grad=True):

            def run(arguments: Arguments) -> list[Any]:
                found = results(op, arguments)
                with in_order(dtype in HALF):
                    return [*found, *gradients(found, wanting_grad(arguments))]

            self.check(op, device, dtype, run, sample, same_words=dtype in SINGLE)

    @operators(lambda op: op.supports_gradgrad, dtypes=OpDTypes.supported_backward)
    def test_gradgrad(self, device: str, dtype: torch.dtype, op: Any) -> None:
        for sample in some(op, dtype, wants_grad=True):

            def run(arguments: Arguments) -> list[Any]:
                return second_gradients(results(op, arguments), wanting_grad(arguments))

            self.check(op, device, dtype, run, sample)

    @operators(lambda op: op.supports_forward_ad, dtypes=OpDTypes.supported_backward)
    def test_jvp(self, device: str, dtype: torch.dtype, op: Any) -> None:
        """Forward-mode derivatives."""
        for sample in some(op, dtype, wants_grad=True):

            def run(arguments: Arguments) -> list[Any]:
                with forward_ad.dual_level():
                    duals = tree_map_only(
                        Tensor, lambda x: forward_ad.make_dual(x, slope(x)) if x.requires_grad else x, arguments
                    )
                    found = results(op, duals)
                    return tree_leaves([forward_ad.unpack_dual(x) if isinstance(x, Tensor) else x for x in found])

            self.check(op, device, dtype, run, sample)

    @operators(lambda op: any(op.supports_sparse_layout(layout) for layout in SPARSE_LAYOUTS))
    def test_sparse(self, device: str, dtype: torch.dtype, op: Any) -> None:
        for layout in SPARSE_LAYOUTS:
            for sample in some_sparse(op, dtype, layout):
                self.check(op, device, dtype, lambda arguments: results(op, arguments), sample)

    @operators(dtypes=OpDTypes.unsupported)
    def test_refused(self, device: str, dtype: torch.dtype, op: Any) -> None:
        """What the CPU has no kernel for is an error on the device too, or computed in a wider dtype."""
        try:
            found = some(op, dtype, 2)
        except Exception:
            self.skipTest("there are no samples of this dtype")
        for sample in found:
            self.check(op, device, dtype, lambda arguments: results(op, arguments), sample)

    @operators(lambda op: op.error_inputs_func is not None, dtypes=OpDTypes.none)
    def test_errors(self, device: str, op: Any) -> None:
        """What the CPU refuses is refused on the device in the same words, and what only devices have to refuse, too."""
        for error in op.error_inputs_func(op, "cpu"):
            sample = arguments_of(error.sample_input)
            try:
                call(op, on(sample, "cpu", op))
            except error.error_type:
                with self.assertRaisesRegex(error.error_type, error.error_regex):
                    call(op, on(sample, device, op))
        for error in [] if op.full_name in TAKEN + OTHER_WORDS else op.error_inputs_func(op, device):
            with self.assertRaisesRegex(error.error_type, error.error_regex):
                call(op, arguments_of(error.sample_input))

    def check(
        self,
        op: Any,
        device: str,
        dtype: torch.dtype,
        run: Callable[[Arguments], list[Any]],
        sample: Arguments,
        *,
        same_words: bool = False,
    ) -> None:
        """Compare what `run` returns for the arguments on the device and on the CPU."""
        self.same_as_on_cpu(
            lambda where: run(on(sample, where, op)),
            device,
            in_wider_dtype=(lambda: run(on(widened(sample, dtype), "cpu", op))) if may_widen(op, dtype) else None,
            may_refuse=dtype not in op.dtypes,
            same_words=same_words,
            strides=op.full_name not in OWN_STRIDES,
            values=op.full_name not in UNSPECIFIED,
            **tolerances(op, dtype),
        )


def may_widen(op: Any, dtype: torch.dtype) -> bool:
    """Return whether the device may compute in a wider dtype: integers only where CUDA takes them and the CPU does not."""
    return dtype in (*HALF, torch.complex32) or dtype in accelerator_dtypes(op)


def some(op: Any, dtype: torch.dtype, count: int = 5, wants_grad: bool = False) -> list[Arguments]:
    """Return about `count` of the operator's samples."""
    return spread(samples(op, dtype, 10 * count, wants_grad), count)


def some_sparse(op: Any, dtype: torch.dtype, layout: torch.layout, count: int = 5) -> list[Arguments]:
    """Return about `count` of the operator's samples in a sparse layout; none where PyTorch has none."""
    if not op.supports_sparse_layout(layout):
        return []
    seed("cpu")
    try:
        return spread(first(op.sample_inputs_sparse(layout, "cpu", dtype), 10 * count), count)
    except (NotImplementedError, SkipTest):
        return []


def spread(found: list[Arguments], count: int) -> list[Arguments]:
    """Return about `count` of the samples, from first to last."""
    return found[:: -(-len(found) // count)] if found else []


def call(function: Callable[..., Any], arguments: Arguments) -> Any:
    given, args, kwargs = arguments
    return function(given, *args, **kwargs)


def results(function: Callable[..., Any], arguments: Arguments) -> list[Any]:
    """Return what a call returns, flattened."""
    return tree_leaves(call(function, arguments))


def lazily(op: Any, arguments: Arguments) -> Arguments:
    """Return the same arguments with each complex tensor as a conjugate view, and each real one as a negative view."""

    def view(x: Tensor) -> Tensor:
        if x.layout != torch.strided or x.is_nested:
            return x
        if x.is_complex() and op.test_conjugated_samples:
            return x.conj().resolve_conj().conj()
        return torch._neg_view(-x) if x.is_floating_point() and op.test_neg_view else x

    views: Arguments = tree_map_only(Tensor, view, arguments)
    return views


def _empty(like: Tensor) -> Tensor:
    return torch.empty(0, dtype=like.dtype)


def _other_strides(like: Tensor) -> Tensor:
    if like.ndim < 2:
        return with_gaps(torch.zeros(like.shape, dtype=like.dtype))
    return torch.zeros_like(like.mT, memory_format=torch.contiguous_format).mT


def _other_dtype(like: Tensor) -> Tensor:
    return torch.zeros(like.shape, dtype=torch.bool if like.dtype != torch.bool else torch.int64)


instantiate_device_type_tests(TestOperators, globals(), only_for="privateuse1")
mark_exceptions(globals())
