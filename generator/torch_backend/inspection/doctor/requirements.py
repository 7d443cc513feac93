"""What a rendered project needs to be built: read from its own files, or from the template's outside of a project."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from torch_backend.errors import UserError
from torch_backend.maintenance.names import PLACEHOLDER
from torch_backend.project import Project
from torch_backend.source import Source, find_source

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# What CMake itself and scikit-build-core ask of it.
NINJA = Version("1.5")


@dataclass(frozen=True)
class Requirements:
    """Versions that a build needs.

    Attributes:
        python: ``requires-python``.
        cmake: the least version.
        packages: for each distribution that the build asks for, which versions; torch is one of them.
        torch_minor: the release series that the project was made for.
    """

    python: SpecifierSet
    cmake: Version
    packages: dict[str, SpecifierSet]
    torch_minor: str


def of_project(project: Project) -> Requirements:
    """Reads a project's files.

    Raises:
        UserError: one is missing or cannot be understood.
    """
    return _read(_text(project.root, "pyproject.toml"), _text(project.root, "CMakeLists.txt"), _minor(project))


def of_template(source: Source | None = None) -> Requirements:
    """Reads the template's, with its newest torch release.

    Raises:
        UserError: the template is not there.
    """
    source = source or find_source()
    minor, release = list(source.config["torch_releases"]["default"].items())[-1]
    values = {"torch_requirement": release["requirement"], "python_requirement": release["python"]}

    def fill(match: re.Match[str]) -> str:
        # A literal placeholder brings its quotes along.
        return str(values.get(match["name"], '"x"' if match["name"].endswith("_literal") else "x"))

    def text(name: str) -> str:
        return PLACEHOLDER.sub(fill, _text(source.template, f"{name}.jinja"))

    return _read(text("pyproject.toml"), text("CMakeLists.txt"), minor)


def written(versions: SpecifierSet) -> str:
    """The versions as people write them: the least one first."""
    return ",".join(sorted(map(str, versions), reverse=True))


def _minor(project: Project) -> str:
    return str(project.answers.get("torch_minor", ""))


def _text(root: Path, name: str) -> str:
    try:
        return (root / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{root / name} cannot be read ({error}); restore it from git.", 2) from error


def _read(pyproject: str, cmake: str, minor: str) -> Requirements:
    try:
        content: dict[str, Any] = tomllib.loads(pyproject)
        required = [Requirement(text) for text in content["build-system"]["requires"]]
        python = SpecifierSet(content["project"].get("requires-python", ""))
    except (tomllib.TOMLDecodeError, KeyError, InvalidRequirement, InvalidSpecifier) as error:
        raise UserError(
            f"pyproject.toml cannot be understood ({error!r}); compare it with the one in git.", 2
        ) from error
    least = re.search(r"cmake_minimum_required\s*\(\s*VERSION\s+(\d+(?:\.\d+)*)", cmake, re.IGNORECASE)
    if least is None:
        raise UserError("CMakeLists.txt does not begin with cmake_minimum_required(VERSION ...); restore that line.", 2)
    return Requirements(python, Version(least[1]), {r.name.lower(): r.specifier for r in required}, minor)
