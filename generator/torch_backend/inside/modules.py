"""Reports which modules a Python has, without importing them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec


def report(*modules: str) -> Iterator[tuple[str, str | None]]:
    """Yields each name with its package's version ("" if unknown), or with None if there is no such module."""
    for name in modules:
        try:
            yield name, None if find_spec(name) is None else version(name)
        except PackageNotFoundError:
            yield name, ""
