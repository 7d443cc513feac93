"""Loads a backend and says of each ATen overload how it runs on the device."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any

STATES = ("native", "emulated", "cpu", "composite", "none")


def report(package: str, device: str) -> Iterator[tuple[str, str]]:
    """Yields ("torch", version), ("source", who says it), then for each overload its name and its state."""
    import torch

    importlib.import_module(package)
    yield "torch", torch.__version__
    operators: Any = getattr(getattr(torch, device), "operators", None)
    if hasattr(operators, "coverage"):
        yield "source", f"torch.{device}.operators.coverage()"
        states = {name: str(state) for name, state in operators.coverage().items()}
    else:
        yield "source", "the dispatcher"
        states = dict(_from_dispatcher(operators))
    yield from sorted((name, state) for name, state in states.items() if name.startswith("aten::"))


def _from_dispatcher(operators: Any) -> Iterator[tuple[str, str]]:
    """For packages without ``coverage``: by the file that registered a kernel, as the projects name their files."""
    import torch

    policy = getattr(operators, "get_fallback_policy", lambda: "cpu")()
    by_fallback = {"emulate": "emulated", "cpu": "cpu"}.get(policy, "none")
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    composite = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("aten::"):
            continue
        if has_kernel(name, "PrivateUse1"):
            registered = re.search(r"^PrivateUse1: registered at (.*):\d+", torch._C._dispatch_dump(name), re.MULTILINE)
            file = re.split(r"[\\/]", registered[1])[-1] if registered else ""
            by_file = {
                "RegisterEmulated.cpp": "emulated",
                "RegisterFallbacks.cpp": by_fallback,
                "HostOperators.cpp": "cpu",
            }
            yield name, by_file.get(file, "native")
        elif any(has_kernel(name, key) for key in composite):
            yield name, "composite"
        elif has_kernel(name, "CPU"):
            yield name, by_fallback
        else:
            yield name, "none"
