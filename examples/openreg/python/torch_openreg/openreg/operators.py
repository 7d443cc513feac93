"""How operators run on the device, and which operators ran without a native kernel: the list of kernels to write."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import torch
from torch._ops import OpOverload

from .. import _C
from ._coverage import OperatorCoverage as OperatorCoverage
from ._coverage import coverage as coverage
from ._operator_report import report as report
from ._states import STATES as STATES
from ._states import State as State
from ._usage import OperatorUsage as OperatorUsage
from ._usage import SeenTensor as SeenTensor
from ._usage import usage as usage

Policy: TypeAlias = Literal["emulate", "cpu", "error"]
"""``emulate`` runs the CPU kernel in place on device memory, ``cpu`` copies operands to the host and results back,
``error`` refuses."""


def set_fallback_policy(policy: Policy, warn: bool = False) -> None:
    """Choose how operators without a kernel run, in the whole process. `warn` reports the first use of each."""
    _C._set_fallback_policy(policy, warn)


def get_fallback_policy() -> Policy:
    """Return the present policy."""
    return _C._get_fallback_policy()[0]


@contextmanager
def fallback_policy(policy: Policy, warn: bool = False) -> Iterator[None]:
    """Set the policy during a ``with`` block, for all threads."""
    before = _C._get_fallback_policy()
    set_fallback_policy(policy, warn)
    try:
        yield
    finally:
        set_fallback_policy(*before)


def set_operator_policy(operator: str | OpOverload[..., Any], policy: Policy | None) -> None:
    """Set the policy of one operator, which takes precedence over the general policy. None removes it.

    The operator is an overload, such as ``torch.ops.aten.add.Tensor``, or its name, such as ``"aten::add.Tensor"``.
    Raises ValueError if there is no such operator.
    """
    _C._set_operator_policy(_name(operator), policy)


def get_operator_policy(operator: str | OpOverload[..., Any]) -> Policy | None:
    """Return the operator's own policy, or None if the general policy applies."""
    return _C._get_operator_policies().get(_name(operator))


def fallback_counts() -> dict[str, int]:
    """Return how often each operator ran without a native kernel, by name, the most frequent first."""
    return dict(_C._fallback_counts())


def reset_fallback_counts() -> None:
    """Reset the counts and the statistics of ``usage``."""
    _C._reset_fallback_counts()


def _name(operator: str | OpOverload[..., Any]) -> str:
    """Return the dispatcher's name of `operator`. Raises ValueError if it does not exist."""
    text = operator.name() if isinstance(operator, OpOverload) else operator
    full = text if "::" in text else f"aten::{text}"
    name, _, overload = full.partition(".")
    try:
        torch._C._dispatch_find_schema_or_throw(name, overload)
    except RuntimeError:
        raise ValueError(f"there is no operator '{full}' (write the overload too: 'aten::add.Tensor')") from None
    return full
