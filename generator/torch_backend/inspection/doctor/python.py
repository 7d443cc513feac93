"""The Python that builds and runs the backend, its torch, and the packages that a build uses."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from .context import Context
from .report import Check
from .requirements import written


def checks(context: Context) -> Iterator[Check]:
    """Yields the findings about Python, torch and packages."""
    if "python" not in context.facts:
        yield Check(
            "Python",
            "fail",
            f"{context.python} {context.outcome.failure or 'reported nothing'}: {context.outcome.reason}",
            "Name a working interpreter with --python.",
        )
        return
    yield from _python(context)
    yield from _torch(context)
    yield from _packages(context)


def _python(context: Context) -> Iterator[Check]:
    facts, needed = context.facts["python"], context.requirements.python
    text = f"{facts['version']} at {facts['executable']}"
    if not needed.contains(facts["version"], prereleases=True):
        mend = f"Create a virtual environment with Python {written(needed)}, and name its interpreter with --python."
        yield Check("Python", "fail", f"{text}; {written(needed)} is needed", mend)
    elif facts["managed"]:
        create = shlex.join([facts["executable"], "-m", "venv", ".venv"])
        mend = f"{create}, and use .venv/bin/python from then on."
        yield Check("Python", "warn", f"{text}, which belongs to the system: pip refuses to install into it", mend)
    elif facts["free_threaded"]:
        yield Check(
            "Python", "warn", f"{text}, a build without the GIL, which is untested", "Use a build with the GIL."
        )
    else:
        yield Check("Python", "ok", f"{text} ({written(needed)} is needed)")
    if facts["headers"]:
        yield Check("Python headers", "ok", facts["include"])
    else:
        mend = "Install them (Debian, Ubuntu: apt install python3-dev; Fedora: dnf install python3-devel)."
        yield Check("Python headers", "fail", f"no Python.h in {facts['include']}", mend)


def _torch(context: Context) -> Iterator[Check]:
    needed = context.requirements.packages.get("torch", SpecifierSet())
    install = context.command("-m", "pip", "install", f"torch{written(needed)}")
    facts = context.facts.get("torch")
    if facts is None:
        text = f"the process that imports torch {context.outcome.failure}: {context.outcome.reason}"
        yield Check("torch", "fail", text, f"{install} --force-reinstall")
        return
    if facts["version"] is None:
        yield Check("torch", "fail", f"cannot be imported: {facts['error']}", install)
        return
    text = f"{facts['version']} ({written(needed) or 'any version'} is needed)"
    if _fits(facts["version"], needed):
        yield Check("torch", "ok", text)
    else:
        minor = context.requirements.torch_minor
        mend = f"{install}; or render for another release: the question torch_minor, which is {minor} here."
        yield Check("torch", "fail", text, mend)
    if facts["headers"] and facts["cmake_files"]:
        yield Check("torch for C++", "ok", f"headers and CMake files are in {facts['cmake_prefix']}")
    else:
        what = "headers" if not facts["headers"] else f"CMake files in {facts['cmake_prefix']}"
        text = f"this torch has no {what}, so extensions cannot be built with it"
        yield Check("torch for C++", "fail", text, f"{install} --force-reinstall, from pytorch.org or PyPI")


def _fits(version: str, needed: SpecifierSet) -> bool:
    try:
        # Ignores suffixes such as "+cpu" and "+cu128"; a nightly build counts as the next release.
        return needed.contains(Version(Version(version).base_version))
    except InvalidVersion:
        return False


def _packages(context: Context) -> Iterator[Check]:
    versions = context.facts["versions"]
    for name, needed in sorted(context.requirements.packages.items()):
        if name == "torch":
            continue
        installed = versions.get(name)
        install = context.command("-m", "pip", "install", f"{name}{written(needed)}")
        if name in versions and installed is None:
            yield Check(name, "fail", f"not installed; {written(needed)} is needed to build without isolation", install)
        elif installed is not None:
            good = needed.contains(installed, prereleases=True)
            yield Check(
                name, "ok" if good else "fail", f"{installed} ({written(needed)} is needed)", "" if good else install
            )
    if versions["pip"] is None:
        yield Check(
            "pip", "warn", "not installed for this Python", f"{context.command('-m', 'ensurepip')}, or use uv pip"
        )
    else:
        yield Check("pip", "ok", versions["pip"])
    for name, reason in (
        ("pybind11", "the headers in torch are used"),
        ("wheel", "scikit-build-core writes wheels itself"),
    ):
        yield Check(name, "ok", f"{versions[name] or 'not installed'} (not needed: {reason})")
