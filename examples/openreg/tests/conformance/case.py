"""What the tests by PyTorch's databases have in common: run on the device and on the CPU, and demand the same."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from compare import seed
from torch import Tensor
from torch.testing._internal.common_utils import TestCase
from torch.utils._pytree import tree_leaves


class DeviceCase(TestCase):
    """A test class to derive from, then to be instantiated for the device by PyTorch."""

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)  # tensors this small only lose by more
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.simplefilter("ignore")  # deprecated operators are in the databases too

    def same_as_on_cpu(
        self, run: Callable[[str], Any], device: str, *, strides: bool = True, values: bool = True, **tolerances: float
    ) -> None:
        """Compare what `run` returns for the device with what it returns for ``"cpu"``. Where it raises there, it must here.

        Both runs start from one seed.

        Args:
            run: makes everything on the device that it is told, and returns nested tensors and others.
            device: the device, such as ``"cuda:0"``.
            strides: whether the strides of strided tensors have to agree.
            values: whether the values do; devices, dtypes, layouts and shapes always have to.
            tolerances: ``atol`` and ``rtol`` instead of PyTorch's defaults for the dtype.
        """
        seed("cpu")
        try:
            expected = tree_leaves(run("cpu"))
        except Exception as error:
            with self.assertRaises(type(error)):
                run(device)
            return
        seed(torch.device(device).type)
        actual = tree_leaves(run(device))
        self.assertEqual(len(actual), len(expected))
        for ours, theirs in zip(actual, expected, strict=True):
            if isinstance(theirs, Tensor):
                self._compare(ours, theirs, torch.device(device), strides, values, tolerances)
            elif not isinstance(theirs, torch.device):
                self.assertEqual(ours, theirs)

    def _compare(
        self, ours: Tensor, theirs: Tensor, device: torch.device, strides: bool, values: bool, tolerances: dict[str, float]
    ) -> None:
        self.assertEqual((ours.device, ours.dtype, ours.layout), (device, theirs.dtype, theirs.layout))
        plain = theirs.layout == torch.strided and not theirs.is_nested
        if plain:
            self.assertEqual(ours.shape, theirs.shape)
            if strides:
                self.assertEqual(ours.stride(), theirs.stride())
        ours = ours.cpu()
        if theirs.dtype == torch.complex32:  # the CPU cannot compare these
            ours, theirs = ours.to(torch.complex64), theirs.to(torch.complex64)
        # Equal bits are the rule, and quick to see; NaN takes a closer look.
        if values and not (plain and not theirs.is_quantized and torch.equal(ours, theirs)):
            self.assertEqual(ours, theirs, **tolerances)
