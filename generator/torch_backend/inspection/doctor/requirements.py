"""The requirements of a build, read from the project's files, or outside of a project from the template's."""

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

# The minimum that CMake and scikit-build-core require.
NINJA = Version("1.5")


@dataclass(frozen=True)
class Requirements:
    """Versions that a build needs.

    Attributes:
        python: ``requires-python``.
        cmake: the minimum version.
        packages: the versions of each required distribution, including torch.
        torch_minor: the release series that the project was rendered for.
    """

    python: SpecifierSet
    cmake: Version
    packages: dict[str, SpecifierSet]
    torch_minor: str


def of_project(project: Project) -> Requirements:
    """Reads a project's files.

    Raises:
        UserError: a file is missing or cannot be parsed.
    """
    return _read(_text(project.root, "pyproject.toml"), _text(project.root, "CMakeLists.txt"), _minor(project))


def of_template(source: Source | None = None) -> Requirements:
    """Reads the template's files, with its newest torch release.

    Raises:
        UserError: there is no template.
    """
    source = source or find_source()
    minor, release = list(source.config["torch_releases"]["default"].items())[-1]
    values = {"torch_requirement": release["requirement"], "python_requirement": release["python"]}

    def fill(match: re.Match[str]) -> str:
        # The value of a *_literal placeholder includes quotes.
        return str(values.get(match["name"], '"x"' if match["name"].endswith("_literal") else "x"))

    def text(name: str) -> str:
        return PLACEHOLDER.sub(fill, _text(source.template, f"{name}.jinja"))

    return _read(text("pyproject.toml"), text("CMakeLists.txt"), minor)


def written(versions: SpecifierSet) -> str:
    """Returns the versions as text, with the minimum first."""
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
            f"pyproject.toml cannot be parsed ({error!r}); compare it with the version in git.", 2
        ) from error
    least = re.search(r"cmake_minimum_required\s*\(\s*VERSION\s+(\d+(?:\.\d+)*)", cmake, re.IGNORECASE)
    if least is None:
        raise UserError("CMakeLists.txt does not begin with cmake_minimum_required(VERSION ...); restore that line.", 2)
    return Requirements(python, Version(least[1]), {r.name.lower(): r.specifier for r in required}, minor)
