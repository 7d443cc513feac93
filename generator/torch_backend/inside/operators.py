"""Loads a backend and says of each ATen overload how it runs on the device."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any

COMPOSITE = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")


def report(package: str, device: str) -> Iterator[tuple[str, str, str]]:
    """Yields ("torch", version, who says it), then for each overload its name, its state, and the reason."""
    import torch

    importlib.import_module(package)
    operators: Any = getattr(getattr(torch, device), "operators", None)
    if hasattr(operators, "coverage"):
        yield "torch", torch.__version__, f"torch.{device}.operators.coverage()"
        for name, told in sorted(operators.coverage().items()):
            yield name, str(told["state"]), str(told["reason"])
    else:
        yield "torch", torch.__version__, "the dispatcher"
        yield from sorted(_from_dispatcher(operators))


def _from_dispatcher(operators: Any) -> Iterator[tuple[str, str, str]]:
    """For packages without ``coverage``: by the file that registered a kernel, as the projects name their files."""
    import torch

    policy = getattr(operators, "get_fallback_policy", lambda: "cpu")()
    by_fallback = {"emulate": "emulated", "cpu": "cpu"}.get(policy, "none")
    by_file = {"RegisterEmulated.cpp": "emulated", "RegisterFallbacks.cpp": by_fallback, "HostOperators.cpp": "cpu"}
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("aten::"):
            continue
        if has_kernel(name, "PrivateUse1"):
            row = re.search(r"^PrivateUse1: registered at (.*):(\d+)", torch._C._dispatch_dump(name), re.MULTILINE)
            file, line = (re.split(r"[\\/]", row[1])[-1], row[2]) if row else ("", "")
            yield name, by_file.get(file, "native"), f"registered at {file}:{line}" if row else "registered"
        elif key := next((key for key in COMPOSITE if has_kernel(name, key)), None):
            yield name, "composite", key
        elif has_kernel(name, "CPU"):
            yield name, by_fallback, f"the fallback, whose policy is {policy!r}"
        else:
            yield name, "none", "neither the device nor the CPU has a kernel"
