"""Loads a backend and has it say of each ATen overload how it runs on the device."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any


def report(package: str, device: str) -> Iterator[tuple[str, str, str]]:
    """Yields ("torch", version, who says it), then for each overload its name, its state, and the reason.

    A package that cannot say so gives the first of these alone, with nobody who says it.
    """
    import torch

    importlib.import_module(package)
    operators: Any = getattr(getattr(torch, device), "operators", None)
    if not hasattr(operators, "coverage"):
        yield "torch", torch.__version__, ""
        return
    yield "torch", torch.__version__, f"torch.{device}.operators.coverage()"
    for name, told in sorted(operators.coverage().items()):
        yield name, str(told["state"]), str(told["reason"])
