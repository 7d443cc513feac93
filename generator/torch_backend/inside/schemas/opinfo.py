"""Finds the entries of PyTorch's database of operator samples that test an operator."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import torch


@cache
def _database() -> list[Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from torch.testing._internal.common_methods_invocations import op_db
    except ImportError:  # it needs numpy and expecttest; without them tests have samples made from schemas
        return []
    return list(op_db)


def database_entries(base: str) -> list[dict[str, Any]]:
    """Returns the entries whose forward or backward is the operator, and the checks that they support."""
    entries = []
    for op in _database():
        names = {op.aten_name, op.name.removeprefix("nn.functional."), op.name.replace(".", "_")}
        forward = base in names
        if not forward and op.aten_backward_name != base:
            continue
        entries.append(
            {
                "name": op.full_name,
                "forward": forward,
                "values": torch.float32 in op.supported_dtypes("cpu"),
                "gradients": bool(op.supports_autograd),
                "in_place": op.inplace_variant is not None,
                "out": bool(op.supports_out),
            }
        )
    return entries
