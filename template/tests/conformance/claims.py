"""What this project claims of PyTorch's device-generic tests: which of them run here, and which are known to fail.

A test has a name such as ``operators values nn_functional_gelu float16``: what is tested, how, which entry of PyTorch's
database, and the dtype. ``claims.json`` has the exceptions by such names, where ``*`` stands for anything, and how many
tests of each kind and dtype pass in the whole run (run.py).
"""

import json
import os
import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from conftest import DEVICE

FILE = Path(__file__).with_name("claims.json")
PART = "CONFORMANCE_PART"
"""The environment variable that chooses the entries to test: ``3/16`` is every 16th, from the one at index 3."""
DEFAULT_PART = "0/30"
"""What runs where the environment chooses nothing. Of the other operators, some dtypes run then (test_op_db.py)."""
SUITES = {"test_op_db.py": "operators", "test_module_db.py": "modules", "test_optim_db.py": "optimizers"}

Entry = TypeVar("Entry")


class Name(NamedTuple):
    """The parts of a test's name."""

    suite: str
    """What is tested: ``operators``, ``modules`` or ``optimizers``."""
    kind: str
    """How, such as ``values`` or ``backward``."""
    entry: str
    """The entry of PyTorch's database, as in test names: ``nn_functional_gelu``."""
    dtype: str
    """Such as ``float16``; ``none`` where the test has no dtype."""

    def __str__(self) -> str:
        return " ".join(self)


def parse(file: str, method: str) -> Name:
    """Return the parts of the name of a test method that PyTorch has instantiated for the device, in a file of this folder.

    Raises:
        ValueError: PyTorch names methods in another way than it used to.
    """
    match = re.fullmatch(rf"test_([a-z]+)_(.+)_(?:privateuse1|{DEVICE})(?:_(\w+))?", method)
    if match is None:
        raise ValueError(f"{method} is not named test_<kind>_<entry>_<device>_<dtype>")
    return Name(SUITES[Path(file).name], match[1], match[2], match[3] or "none")


def chosen(entries: Iterable[Entry], name: Callable[[Entry], str]) -> list[Entry]:
    """Return the entries of a database that the environment chooses, in order of their names.

    Raises:
        ValueError: the environment's choice is not understood.
    """
    text = os.environ.get(PART, DEFAULT_PART)
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or int(match[1]) >= int(match[2]):
        raise ValueError(
            f"{PART}={text}: write INDEX/COUNT with an index below the count, such as 3/16; 0/1 is everything"
        )
    return sorted(entries, key=name)[int(match[1]) :: int(match[2])]


def load() -> dict[str, Any]:
    """Return the claims: ``exceptions`` and ``not_run``, patterns with their reasons, and ``passed``, counts by kind and dtype."""
    claims: dict[str, Any] = json.loads(FILE.read_text())
    return claims


def reason_for(test: Name, patterns: dict[str, str]) -> str | None:
    """Return the reason why the test is an exception, or None if it is none."""
    return next((reason for pattern, reason in patterns.items() if fnmatchcase(str(test), pattern)), None)


def mark_exceptions(scope: dict[str, Any]) -> None:
    """Mark the tests in a module's instantiated classes that are exceptions.

    Those under ``exceptions`` must fail, so that one that passes by now is noticed. Those under ``not_run`` would take the
    process with them, or never end.
    """
    claims = load()
    for cls in [value for value in scope.values() if isinstance(value, type) and value.__module__ == scope["__name__"]]:
        for method in [name for name in vars(cls) if name.startswith("test_")]:
            test = parse(scope["__file__"], method)
            function = vars(cls)[method]
            if reason := reason_for(test, claims["not_run"]):
                pytest.mark.skip(reason=reason)(function)
            elif reason := reason_for(test, claims["exceptions"]):
                pytest.mark.xfail(reason=reason, strict=True)(function)
