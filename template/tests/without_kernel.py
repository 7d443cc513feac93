"""Operators without a native kernel. Tests of policies and counts use those that a port has not written yet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
from conftest import MODULE
from torch import Tensor

# Elementwise, for numbers between 0 and 1. Common ones first: these take the short way through the emulation.
UNARY = ("exp", "sqrt", "cos", "log", "erfinv", "digamma", "lgamma", "i0", "special_ndtri", "special_erfcx")
BINARY = ("mul.Tensor", "sub.Tensor", "maximum", "hypot", "atan2", "logaddexp", "copysign.Tensor", "nextafter")


@dataclass(frozen=True)
class Operator:
    """An overload, such as ``aten::mul.Tensor``. A call of the object calls the function of ``torch`` that runs the overload."""

    name: str

    @property
    def function(self) -> str:
        """The name below ``torch``, such as ``mul``."""
        return self.name.removeprefix("aten::").partition(".")[0]

    def __call__(self, *args: Tensor) -> Tensor:
        result: Tensor = getattr(torch, self.function)(*args)
        return result


COUNTED = ("host body", "emulated", "cpu")
"""The states of operators whose calls are counted, because they run on the host."""


def state(name: str) -> str:
    """Return how an operator runs, such as ``aten::gelu``."""
    return str(MODULE.operators.coverage()[name]["state"])


def without_kernel(candidates: Sequence[str], count: int = 1) -> list[Operator]:
    """Return the first of `candidates` that run by the policy for operators without a kernel; skip if there are too few."""
    found = [f"aten::{name}" for name in candidates if state(f"aten::{name}") in ("emulated", "cpu")]
    if len(found) < count:
        pytest.skip(f"this test needs {count} operators without a kernel of these: {', '.join(candidates)}")
    return [Operator(name) for name in found[:count]]


def left_over(cases: Sequence[tuple[str, Callable[[], object]]]) -> list[tuple[str, Callable[[], object]]]:
    """Return the pairs of an operator and a call whose operator has no native kernel."""
    return [(name, call) for name, call in cases if state(name) in COUNTED]
