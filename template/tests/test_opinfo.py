"""PyTorch's own samples for each of its operators, on the device and on the CPU.

Random operators give the CPU's numbers too, because emulation draws with the CPU's engine from the same seed.
"""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from opinfo import check_gradients, check_in_place, check_other_dtypes, check_out, check_values, op_db

NOT_HERE = {
    "as_strided.partial_views": "its samples are views of larger tensors, and moving them loses what is around them",
    "jiterator_2inputs_2outputs": "it compiles CUDA source",
    "jiterator_4inputs_with_extra_args": "it compiles CUDA source",
    "jiterator_binary": "it compiles CUDA source",
    "jiterator_binary_return_by_ref": "it compiles CUDA source",
    "jiterator_unary": "it compiles CUDA source",
}
NO_ERROR = {
    "__rmod__": "the CPU takes its samples",
    "__rpow__": "the CPU takes its samples",
    "__rsub__": "the CPU takes its samples",
    "clamp_max": "the CPU takes its samples",
    "clamp_min": "the CPU takes its samples",
    "narrow_copy": "its samples know the CPU's message by the device's name, and ours comes from the CPU's kernel",
}
NO_OUT = {"mode": "PyTorch has a list of devices that may, by name"}


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


@operators(lambda op: torch.float32 in op.supported_dtypes("cpu"), {})
def test_values(op: Any, device: str) -> None:
    check_values(op, device)


@operators(lambda op: op.supports_autograd, {})
def test_gradients(op: Any, device: str) -> None:
    check_gradients(op, device)


@operators(lambda op: True, {})
def test_other_dtypes(op: Any, device: str) -> None:
    check_other_dtypes(op, device)


@operators(lambda op: op.inplace_variant is not None, {})
def test_in_place(op: Any, device: str) -> None:
    check_in_place(op, device)


@operators(lambda op: op.supports_out, NO_OUT)
def test_out(op: Any, device: str) -> None:
    check_out(op, device)


@operators(lambda op: op.error_inputs_func is not None, NO_ERROR)
def test_errors(op: Any, device: str) -> None:
    for error in op.error_inputs(device):
        sample = error.sample_input
        with pytest.raises(error.error_type, match=error.error_regex):
            op(sample.input, *sample.args, **sample.kwargs)
