"""Describes operators of the installed torch. It needs torchgen, which is part of torch and needs PyYAML."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

NO_SAMPLES = "--no-samples"


def report(*arguments: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields each name with ``{"operator": description}``, or ``{"refused": sentence}`` if it cannot have a kernel.

    Args:
        arguments: names of operators; with ``--no-samples`` the descriptions have no samples made from schemas.
    """
    from .opinfo import database_entries
    from .samples import find_samples
    from .schema import RefusedError, Schemas

    # Calls with arguments made from a schema end the process for some operators.
    makes_calls = NO_SAMPLES not in arguments
    schemas = Schemas() if makes_calls else Schemas(lambda functions: [])
    found = {}
    # All refusals come first, because samples take long.
    for name in arguments:
        if name == NO_SAMPLES:
            continue
        try:
            found[name] = schemas.find(name)
        except RefusedError as refused:
            yield name, {"refused": str(refused)}
    for name, operator in found.items():
        description = operator.describe()
        description["samples"] = find_samples(operator.functions) if makes_calls else []
        description["opinfos"] = database_entries(operator.base)
        yield name, {"operator": description}
