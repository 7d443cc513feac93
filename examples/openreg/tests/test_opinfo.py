"""PyTorch's own samples for each of its operators, on the device and on the CPU.

Random operators give the CPU's numbers too, because emulation draws with the CPU's engine from the same seed.
"""

import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
import torch
from compare import gradients, seed, to_device
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

pytest.importorskip("numpy", reason="PyTorch's operator database needs numpy")
pytest.importorskip("expecttest", reason="PyTorch's operator database needs expecttest")

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

NOT_HERE = {
    "as_strided.partial_views": "its samples are views of larger tensors, and moving them loses what is around them",
    "jiterator_2inputs_2outputs": "it compiles CUDA source",
    "jiterator_4inputs_with_extra_args": "it compiles CUDA source",
    "jiterator_binary": "it compiles CUDA source",
    "jiterator_binary_return_by_ref": "it compiles CUDA source",
    "jiterator_unary": "it compiles CUDA source",
}
UNSPECIFIED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
"""Their values are whatever the memory held."""
OWN_STRIDES = ("linalg.lstsq", "linalg.lstsq.grad_oriented")
"""They run on the host by copies, and a copied result is contiguous."""
HOST_ARGUMENTS = ("tensor_split",)
"""Their tensor arguments stay on the host: it reads them."""
WIDER = {"nn.functional.linear_cross_entropy.chunked_none": 1e-2}
"""Tolerance of operators that choose another order of summation off the CPU, for half precision."""

NO_ERROR = {
    "__rmod__": "the CPU takes its samples",
    "__rpow__": "the CPU takes its samples",
    "__rsub__": "the CPU takes its samples",
    "clamp_max": "the CPU takes its samples",
    "clamp_min": "the CPU takes its samples",
    "narrow_copy": "its samples know the CPU's message by the device's name, and ours comes from the CPU's kernel",
}
NO_OUT = {"mode": "PyTorch has a list of devices that may, by name"}

DTYPES = [
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.complex64,
    torch.int64,
    torch.uint8,
    torch.bool,
]


def operators(chosen: Callable[[Any], bool], exceptions: dict[str, str]) -> pytest.MarkDecorator:
    """Parametrize a test by the operators chosen. Those among the exceptions are skipped for the reason given there."""
    exceptions = NOT_HERE | exceptions
    ops = sorted(filter(chosen, op_db), key=lambda op: op.full_name)
    return pytest.mark.parametrize(
        "op",
        [
            pytest.param(op, marks=[pytest.mark.skip(reason=exceptions[name])] if name in exceptions else [])
            for op in ops
            for name in [op.full_name]
        ],
        ids=[op.full_name for op in ops],
    )


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    count = torch.get_num_threads()
    torch.set_num_threads(1)  # tensors this small only lose by more
    yield
    torch.set_num_threads(count)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated operators are in the database too
        yield


def samples(op: Any, dtype: torch.dtype, count: int, wants_grad: bool = False) -> list[Any]:
    seed("cpu")
    # Without a detour through op.sample_inputs, which looks at the whole stack for each sample.
    return list(islice(op.sample_inputs_func(op, "cpu", dtype, wants_grad), count))


def move(sample: Any, device: str) -> Any:
    def place(x: Any) -> Any:
        return device if x == "cpu" or isinstance(x, torch.device) else x

    inputs = (sample.input, tuple(sample.args), dict(sample.kwargs))
    return to_device(tree_map(lambda x: x if isinstance(x, Tensor) else place(x), inputs), device)


def run(function: Any, sample: Any, device: str, wants_grad: bool = False, **extra: Any) -> list[Any]:
    given, args, kwargs = move(sample, device)
    if getattr(function, "full_name", "") in HOST_ARGUMENTS:
        args = sample.args
    seed(device)
    results = function(given, *args, **kwargs, **extra)
    wanting = [x for x in tree_leaves((given, args, kwargs)) if isinstance(x, Tensor) and x.requires_grad]
    return tree_leaves(results) + (gradients(results, wanting) if wants_grad else [])


def compare(op: Any, actual: list[Any], expected: list[Any], device: str) -> None:
    assert len(actual) == len(expected)
    tolerances: dict[str, Any] = {}
    if op.full_name in WIDER:
        tolerances = {"rtol": WIDER[op.full_name], "atol": WIDER[op.full_name]}
    for ours, theirs in zip(actual, expected, strict=True):
        if not isinstance(theirs, Tensor):
            assert ours == theirs or isinstance(theirs, torch.device)
            continue
        assert (ours.device.type, ours.dtype, ours.shape) == (device, theirs.dtype, theirs.shape)
        assert ours.layout == theirs.layout
        if theirs.layout == torch.strided and op.full_name not in OWN_STRIDES:
            assert ours.stride() == theirs.stride()
        if op.full_name not in UNSPECIFIED:
            torch.testing.assert_close(ours.cpu(), theirs, equal_nan=True, **tolerances)


@operators(lambda op: torch.float32 in op.supported_dtypes("cpu"), {})
def test_values(op: Any, device: str) -> None:
    for sample in samples(op, torch.float32, 8):
        compare(op, run(op, sample, device), run(op, sample, "cpu"), device)


@operators(lambda op: op.supports_autograd, {})
def test_gradients(op: Any, device: str) -> None:
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


@operators(lambda op: True, {})
def test_other_dtypes(op: Any, device: str) -> None:
    for dtype in [dtype for dtype in DTYPES if dtype in op.supported_dtypes("cpu")]:
        for sample in samples(op, dtype, 1):
            compare(op, run(op, sample, device), run(op, sample, "cpu"), device)


@operators(lambda op: op.inplace_variant is not None, {})
def test_in_place(op: Any, device: str) -> None:
    for sample in samples(op, torch.float32, 3):
        try:
            expected = run(op.inplace_variant, sample, "cpu")
        except RuntimeError:
            continue  # the result does not fit into the input
        compare(op, run(op.inplace_variant, sample, device), expected, device)


@operators(lambda op: op.supports_out, NO_OUT)
def test_out(op: Any, device: str) -> None:
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


@operators(lambda op: op.error_inputs_func is not None, NO_ERROR)
def test_errors(op: Any, device: str) -> None:
    for error in op.error_inputs(device):
        sample = error.sample_input
        with pytest.raises(error.error_type, match=error.error_regex):
            op(sample.input, *sample.args, **sample.kwargs)
