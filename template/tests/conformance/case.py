"""What the tests by PyTorch's databases have in common: run on the device and on the CPU, and demand the same."""

import random
import unittest
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from compare import gradients, seed, slope
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

numpy = pytest.importorskip("numpy", reason="PyTorch's databases need numpy")
pytest.importorskip("expecttest", reason="PyTorch's databases need expecttest")

from opinfo import wider  # noqa: E402
from torch.testing._internal.common_utils import TestCase  # noqa: E402

WIDER_TOLERANCES = {"atol": 2e-2, "rtol": 2e-2}
"""For what takes several operators, each of which rounds, while the CPU rounds in the end."""


def lacks_kernel(error: Exception) -> bool:
    """Return whether the CPU says that it has no kernel for a dtype. Fourier transforms say it in words of their own."""
    words = ("Unsupported dtype Half", "MKL FFT doesn't support tensors of type: Half")
    return isinstance(error, NotImplementedError) or str(error).startswith(words)


def in_order(wanted: bool = True) -> AbstractContextManager[None]:
    """Have autograd work on the calling thread, as on the CPU, where sums depend on the order of their parts.

    A device has a thread of its own, which begins while parts are still on the way to it.
    """
    return torch.autograd.set_multithreading_enabled(not wanted)


def tensors(tree: Any) -> list[Tensor]:
    return [x for x in tree_leaves(tree) if isinstance(x, Tensor)]


def wanting_grad(tree: Any) -> list[Tensor]:
    return [x for x in tensors(tree) if x.requires_grad]


def with_gaps(tree: Any) -> Any:
    """Return nested tensors as every second element of larger ones."""

    def spread(x: Tensor) -> Tensor:
        if x.layout != torch.strided or x.ndim == 0 or x.is_nested:
            return x
        return torch.stack([x.detach(), torch.zeros_like(x)], -1)[..., 0].requires_grad_(x.requires_grad)

    return tree_map_only(Tensor, spread, tree)


def second_gradients(results: Any, inputs: list[Tensor]) -> list[Tensor | None]:
    """Return the gradients of the gradients, by the inputs and by the gradients of the results."""
    outputs = wanting_grad(results)
    if not outputs or not inputs:
        return []
    slopes = [slope(x).requires_grad_() for x in outputs]
    with in_order():
        first = torch.autograd.grad(outputs, inputs, slopes, create_graph=True, allow_unused=True)
        return gradients([x for x in first if x is not None], [*inputs, *slopes])


class DeviceCase(TestCase):
    """A test class to derive from, then to be instantiated for the device by PyTorch."""

    def setUp(self) -> None:
        # Not PyTorch's, which seeds the generators of all devices that it knows: that takes longer than most tests.
        unittest.TestCase.setUp(self)
        seed("cpu")
        random.seed(0)
        numpy.random.seed(0)
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)  # tensors this small only lose by more
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.simplefilter("ignore")  # deprecated operators are in the databases too

    def tearDown(self) -> None:
        unittest.TestCase.tearDown(self)

    def same_as_on_cpu(
        self,
        run: Callable[[str], Any],
        device: str,
        *,
        in_wider_dtype: Callable[[], Any] | None = None,
        may_refuse: bool = False,
        same_words: bool = False,
        strides: bool = True,
        values: bool = True,
        **tolerances: float,
    ) -> None:
        """Compare what `run` returns for the device with what it returns for ``"cpu"``. Where it raises there, it must here.

        Both runs start from one seed.

        Args:
            run: makes everything on the device that it is told, and returns nested tensors and others.
            device: the device, such as ``"cuda:0"``.
            in_wider_dtype: the same on the CPU in a wider dtype. Where the CPU lacks a kernel for the dtype and not for the
                wider one, the device is compared with it, rounded.
            may_refuse: whether the device may then raise as well.
            same_words: whether an error of the CPU has to have the same message on the device.
            strides: whether the strides of strided tensors have to agree.
            values: whether the values do; devices, dtypes, layouts and shapes always have to.
            tolerances: ``atol`` and ``rtol`` instead of PyTorch's defaults for the dtype.
        """
        seed("cpu")
        try:
            expected = tree_leaves(run("cpu"))
        except Exception as error:
            if in_wider_dtype is None or not lacks_kernel(error):
                with self.assertRaises(type(error)) as caught:
                    run(device)
                if same_words:
                    self.assertEqual(str(caught.exception), str(error))
                return
            seed("cpu")
            try:
                expected = tree_leaves(in_wider_dtype())
            except Exception as later:  # perhaps in a gradient, which the narrow dtype did not reach
                with self.assertRaises((type(error), type(later))):
                    run(device)
                return
            strides, tolerances = False, WIDER_TOLERANCES
        else:
            may_refuse = False
        seed(torch.device(device).type)
        try:
            actual = tree_leaves(run(device))
        except Exception:
            if may_refuse:
                return
            raise
        self._demand(len(actual), len(expected), "number of results")
        for ours, theirs in zip(actual, expected, strict=True):
            if isinstance(theirs, Tensor):
                self._compare(ours, theirs, torch.device(device), strides, values, tolerances)
            elif not isinstance(theirs, torch.device):
                self.assertEqual(ours, theirs)

    def _compare(
        self,
        ours: Tensor,
        theirs: Tensor,
        device: torch.device,
        strides: bool,
        values: bool,
        tolerances: dict[str, float],
    ) -> None:
        if theirs.dtype == wider(ours.dtype):
            theirs = theirs.to(ours.dtype)
        self._demand(ours.device, device, "device")
        self._demand(ours.dtype, theirs.dtype, "dtype")
        self._demand(ours.layout, theirs.layout, "layout")
        plain = theirs.layout == torch.strided and not theirs.is_nested
        if plain:
            self._demand(ours.shape, theirs.shape, "shape")
            if strides:
                self._demand(ours.stride(), theirs.stride(), "strides")
        ours = ours.cpu()
        if theirs.dtype == torch.complex32:  # the CPU cannot compare these
            ours, theirs = ours.to(torch.complex64), theirs.to(torch.complex64)
        # Equal bits are the rule, and quick to see; NaN takes a closer look.
        if values and not (plain and not theirs.is_quantized and torch.equal(ours, theirs)):
            self.assertEqual(ours, theirs, **tolerances)

    def _demand(self, ours: object, theirs: object, what: str) -> None:
        """Compare what is no number, in a fraction of assertEqual's time."""
        if ours != theirs:
            self.fail(f"{what}: {ours} on the device, {theirs} on the CPU")
