"""Checks the programs and the disk space that a build needs or can use."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from packaging.version import InvalidVersion, Version

from .context import Context
from .report import Check
from .requirements import NINJA

GIGABYTE = 1 << 30
# Measured: a build directory of the whole project takes 0.3 GB, the wheel and its install 0.05 GB.
ROOM_FOR_A_BUILD = 1 * GIGABYTE
ROOM_TO_BE_SURE = 3 * GIGABYTE
GTEST = ("/usr/include", "/usr/local/include", "/opt/homebrew/include")


def checks(context: Context) -> Iterator[Check]:
    """Yields the findings about each tool."""
    yield _cmake(context)
    yield _ninja(context)
    yield _git(context)
    yield _ccache(context)
    yield _googletest()
    yield _disk(context)


def _version(context: Context, program: Path) -> Version | None:
    text = context.output(str(program), "--version") or ""
    match = re.search(r"\d+(?:\.\d+)+", text)
    try:
        return Version(match[0]) if match else None
    except InvalidVersion:
        return None


def _find(context: Context, name: str, least: Version) -> tuple[Path, Version | None, bool] | None:
    """Finds the first program that is new enough, like scikit-build-core; else the first program."""
    found = [(path, _version(context, path)) for path in context.which(name)]
    good = next(((path, version) for path, version in found if version and version >= least), None)
    if good:
        return *good, True
    return (*found[0], False) if found else None


def _cmake(context: Context) -> Check:
    least = context.requirements.cmake
    mend = context.command("-m", "pip", "install", f"cmake>={least}")
    found = _find(context, "cmake", least)
    if found is None:
        return Check("CMake", "fail", f"not found; {least} or newer is needed", mend)
    path, version, good = found
    if not good:
        return Check("CMake", "fail", f"{version or 'does not start'} at {path}; {least} or newer is needed", mend)
    return Check("CMake", "ok", f"{version} at {path} ({least} or newer is needed)")


def _ninja(context: Context) -> Check:
    mend = context.command("-m", "pip", "install", "ninja")
    found = _find(context, "ninja", NINJA)
    if found is None:
        return Check("Ninja", "warn", "not found: the build uses make, if it is installed, and takes longer", mend)
    path, version, good = found
    if not good:
        return Check("Ninja", "fail", f"{version or 'does not start'} at {path}; {NINJA} or newer is needed", mend)
    return Check("Ninja", "ok", f"{version} at {path}")


def _git(context: Context) -> Check:
    found = context.which("git")
    if not found:
        return Check("git", "warn", "not found: `copier update` cannot work", "Install git.")
    version = _version(context, found[0])
    if context.project and context.output(str(found[0]), "-C", str(context.project.root), "rev-parse", "HEAD") is None:
        return Check(
            "git",
            "warn",
            f"{version}; the project is not committed, and git needs a commit to merge updates of the template",
            'git init && git add --all && git commit --message "Start from the template"',
        )
    return Check("git", "ok", str(version))


def _ccache(context: Context) -> Check:
    found = context.which("ccache")
    if not found:
        return Check("ccache", "ok", "not installed (optional): with it a second build takes seconds")
    return Check("ccache", "ok", f"{_version(context, found[0])} at {found[0]}")


def _googletest() -> Check:
    roots = [Path(folder) for folder in GTEST]
    roots += [Path(folder, "include") for folder in (os.environ.get("GTEST_ROOT"), sys.prefix) if folder]
    found = next((root for root in roots if (root / "gtest" / "gtest.h").is_file()), None)
    if found is None:
        return Check(
            "GoogleTest",
            "ok",
            "not installed (optional): without it the C++ tests of the emulated device are not built",
        )
    return Check("GoogleTest", "ok", f"in {found}")


def _disk(context: Context) -> Check:
    folder = context.project.root if context.project else Path.cwd()
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check("disk", "warn", f"the free space in {folder} is unknown: {error}")
    text = f"{free / GIGABYTE:.1f} GB free in {folder}"
    mend = "Free some space, or build elsewhere with --config-settings=build-dir=<folder>."
    if free < ROOM_FOR_A_BUILD:
        return Check("disk", "fail", f"{text}; a build takes up to 1 GB", mend)
    if free < ROOM_TO_BE_SURE:
        return Check("disk", "warn", f"{text}; a build takes up to 1 GB", mend)
    return Check("disk", "ok", text)
