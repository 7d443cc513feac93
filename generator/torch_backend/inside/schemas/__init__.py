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

    schemas = Schemas()
    for name in arguments:
        if name == NO_SAMPLES:
            continue
        try:
            operator = schemas.find(name)
        except RefusedError as refused:
            yield name, {"refused": str(refused)}
            continue
        description = operator.describe()
        description["samples"] = [] if NO_SAMPLES in arguments else find_samples(operator.functions)
        description["opinfos"] = database_entries(operator.base)
        yield name, {"operator": description}
