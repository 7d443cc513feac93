"""Operators that the device has no kernel of its own for yet: tests of policies and counts take what is left of them."""

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
    """An overload, such as ``aten::mul.Tensor``. Called, it is the function of ``torch`` that ends there."""

    name: str

    @property
    def function(self) -> str:
        """The name below ``torch``, such as ``mul``."""
        return self.name.removeprefix("aten::").partition(".")[0]

    def __call__(self, *args: Tensor) -> Tensor:
        result: Tensor = getattr(torch, self.function)(*args)
        return result


def has_own_kernel(name: str) -> bool:
    """Whether the device has a kernel of its own for an operator, such as ``aten::gelu``."""
    return str(MODULE.operators.coverage()[name]["state"]) == "native"


def without_kernel(candidates: Sequence[str], count: int = 1) -> list[Operator]:
    """Return the first of `candidates` that run by the policy for operators without a kernel; skip if there are too few."""
    found = [f"aten::{name}" for name in candidates if not has_own_kernel(f"aten::{name}")]
    if len(found) < count:
        pytest.skip(f"this needs {count} of these without a kernel of the device's own: {', '.join(candidates)}")
    return [Operator(name) for name in found[:count]]


def left_over(cases: Sequence[tuple[str, Callable[[], object]]]) -> list[tuple[str, Callable[[], object]]]:
    """Return those pairs of an operator and a call of it whose operator has no kernel of the device's own."""
    return [(name, call) for name, call in cases if not has_own_kernel(name)]
