"""How each operator of the installed torch runs on the device, by its registration."""

from collections.abc import Iterable
from typing import TypedDict

from .. import _C
from ._states import State


class OperatorCoverage(TypedDict):
    """How one operator runs: one of ``STATES``, and the reason."""

    state: State
    reason: str


def coverage() -> dict[str, OperatorCoverage]:
    """Return how each overload of PyTorch's own operators runs, by its full name, such as ``"aten::add.Tensor"``.

    Operators without a kernel of their own are told as they would run now: by their own policy, else by that of the
    process. Under the policy ``error`` their state is ``none``. An operator that has kernels for sparse, quantized or
    nested tensors alone is told by those.
    """
    return {name: told for name, told in _all().items() if name.startswith("aten::")}


def describe_operators(names: Iterable[str]) -> dict[str, OperatorCoverage]:
    """Return how the operators of these full names run, sorted by name. An unknown name has the state ``none``."""
    unknown: OperatorCoverage = {"state": "none", "reason": "there is no such operator"}
    operators = _all()
    return {name: operators.get(name, unknown) for name in sorted(names)}


def _all() -> dict[str, OperatorCoverage]:
    return {name: {"state": state, "reason": reason} for name, (state, reason) in _C._operator_coverage().items()}
