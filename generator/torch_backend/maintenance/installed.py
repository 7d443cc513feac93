"""Finds names that installed packages have taken: their modules, and torch's libraries, CMake targets and operators."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from torch_backend.errors import UserError

_TARGET = re.compile(r"\badd_(?:library|executable|custom_target)\s*\(\s*(\w+)(?=[\s)])")
_LIBRARY = re.compile(r"lib(\w+?)(?:-[0-9a-f]{8})?\.(?:so|dylib)\b")
_OPERATORS = re.compile(r"""\bLibrary\(\s*["'](\w+)["'],\s*["'](?:DEF|FRAGMENT)["']""")


def modules_of(requirement_files: Iterable[Path]) -> set[str]:
    """Returns the top-level modules of the packages in requirement files, and of all packages that these need.

    Other installed packages, such as a backend, do not count.

    Raises:
        UserError: a package is not installed.
    """
    files = [file for package in _closure(requirement_files) for file in distribution(package).files or []]
    return {file.parts[0].partition(".")[0] for file in files if file.suffix in {".py", ".so", ".pyd"}} - {""}


def _closure(requirement_files: Iterable[Path]) -> set[str]:
    text = "\n".join(file.read_text(encoding="utf-8") for file in requirement_files)
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    needed = [Requirement(line) for line in lines if line]
    seen: set[tuple[str, str]] = set()  # packages and their extras
    while needed:
        requirement = needed.pop()
        name = canonicalize_name(requirement.name)
        for extra in {"", *requirement.extras} - {known for package, known in seen if package == name}:
            seen.add((name, extra))
            try:
                requires = [Requirement(text) for text in distribution(name).requires or []]
            except PackageNotFoundError as error:
                raise UserError(f"Run `make setup`: {name} is not installed, so its modules are unknown.") from error
            needed += [other for other in requires if not other.marker or other.marker.evaluate({"extra": extra})]
    return {name for name, _ in seen}


def torch_libraries(torch: Path) -> set[str]:
    """Returns the names of the shared libraries that torch brings: shm from libshm.so."""
    return {match[1] for path in torch.joinpath("lib").iterdir() if (match := _LIBRARY.match(path.name))}


def operator_namespaces(torch: Path) -> set[str]:
    """Returns the namespaces of operators that modules of torch define when they are imported."""
    return {name for path in torch.rglob("*.py") for name in _OPERATORS.findall(path.read_text(encoding="utf-8"))}


def cmake_targets(text: str) -> set[str]:
    """Returns the targets that CMake code adds."""
    return set(_TARGET.findall(text))
