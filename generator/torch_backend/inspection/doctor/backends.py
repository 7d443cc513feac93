"""Checks the installed backends. A process can load one, and `import torch` loads all that it finds."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from torch_backend.interpreter import AUTOLOAD
from torch_backend.project import Project

from .context import Context
from .report import Check

# Compiled sources: an edit has no effect until the next build.
COMPILED = ("csrc", "third_party", "cmake", "CMakeLists.txt")
SUFFIXES = (".c", ".cpp", ".h", ".def", ".in", ".cmake", ".txt")
UNINSTALL = ("-m", "pip", "uninstall")


def checks(context: Context) -> Iterator[Check]:
    """Yields the findings about the backends in the environment."""
    if "backends" not in context.facts:
        return
    yield from _entry_points(context)
    if context.project and "package" in context.facts:
        yield from _package(context, context.project)
    if os.environ.get(AUTOLOAD) == "0":
        yield Check(
            "autoload",
            "warn",
            f"{AUTOLOAD}=0 is set here: `import torch` loads no backend",
            f"unset {AUTOLOAD}, or import the package yourself.",
        )


def _named(entries: list[dict[str, Any]]) -> str:
    return ", ".join(
        f"{entry['module']} ({entry['distribution']} {entry['version']}, {entry['folder']})" for entry in entries
    )


def _entry_points(context: Context) -> Iterator[Check]:
    entries = context.facts["backends"]
    own = context.project.package_name if context.project else None
    others = [entry for entry in entries if entry["module"].split(".")[0] != own]
    modules = {entry["module"].split(".")[0] for entry in others}
    if (own and others) or len(modules) > 1:
        names = sorted({str(entry["distribution"]) for entry in others})
        yield Check(
            "other backends",
            "fail",
            f"also installed: {_named(others)}; PyTorch supports one out-of-tree backend in a process"
            if own
            else f"{_named(others)}; PyTorch supports one out-of-tree backend in a process",
            f"{context.command(*UNINSTALL, *names)}; or use a separate virtual environment for each.",
        )
    elif entries:
        yield Check("other backends", "ok", f"none besides {own or _named(entries)}")
    else:
        yield Check("other backends", "ok", "no backend is installed")

    for entry in entries:
        if not entry["found"]:
            yield Check(
                "entry point",
                "fail",
                f"{entry['distribution']} in {entry['folder']} names the module {entry['module']}, which is missing: "
                "`import torch` fails",
                f"{context.command(*UNINSTALL, entry['distribution'])}; delete its .dist-info folder if it stays.",
            )
    doubled = [name for name, count in Counter(entry["entry_point"] for entry in entries).items() if count > 1]
    for name in doubled:
        same = [entry for entry in entries if entry["entry_point"] == name]
        if len({entry["distribution"] for entry in same}) > 1:
            yield Check(
                "entry point",
                "fail",
                f"several packages use the name {name!r} in the group torch.backends: {_named(same)}",
                "Rename one in its pyproject.toml, or uninstall it.",
            )


def _package(context: Context, project: Project) -> Iterator[Check]:
    facts = context.facts["package"]
    name = project.package_name
    install = context.command("-m", "pip", "install", "--no-build-isolation", "--editable", ".")
    build = f"cd {shlex.quote(str(project.root))} && {install}"
    if facts["folder"] is None:
        left = f"; its metadata remains in {facts['installs'][0]['folder']}" if facts["installs"] else ""
        yield Check("package", "warn", f"{name} is not installed{left}", build)
        return
    if len(facts["installs"]) > 1:
        places = ", ".join(f"{install['version']} in {install['folder']}" for install in facts["installs"])
        yield Check(
            "package",
            "fail",
            f"{name} is installed {len(facts['installs'])} times: {places}; {facts['folder']} is used",
            f"{context.command(*UNINSTALL, name)}, once for each installation, then build again: {build}",
        )
    elif not facts["installs"]:
        yield Check(
            "package",
            "warn",
            f"{facts['folder']} has no metadata, so `import torch` does not load it",
            build,
        )
    else:
        yield Check("package", "ok", f"{name} {facts['installs'][0]['version']} in {facts['folder']}")
    foreign = [owner for owner in facts["owners"] if owner.replace("-", "_").lower() != name.lower()]
    if foreign:
        yield Check(
            "package",
            "fail",
            f"{', '.join(foreign)} also contains a package {name}",
            f"{context.command(*UNINSTALL, *foreign)}, then build again: {build}",
        )
    yield from _library(context, project, build)


def _library(context: Context, project: Project, build: str) -> Iterator[Check]:
    facts = context.facts["package"]
    if facts["library"] is None:
        yield Check(
            "compiled library", "fail", f"{project.package_name} has no compiled module _C for this Python", build
        )
        return
    version = (context.facts.get("torch") or {}).get("version")
    minor = facts["torch_minor"]
    if version and minor and version.split(".")[:2] != minor.split("."):
        text = f"the installed {project.package_name} was built for torch {minor}, and this is torch {version}"
        yield Check("compiled library", "fail", text, build)
        return
    newest = newest_source(project.root)
    if newest and newest.stat().st_mtime > facts["built"]:
        built = datetime.fromtimestamp(facts["built"], timezone.utc).astimezone()
        text = f"{newest.relative_to(project.root)} is newer than the installed build of {built:%Y-%m-%d %H:%M}"
        yield Check("compiled library", "warn", text, build)
        return
    yield Check("compiled library", "ok", facts["library"])


def newest_source(root: Path) -> Path | None:
    """Returns the source with the newest timestamp. Unchanged files with a new timestamp count: a build checks them."""
    files = []
    for name in COMPILED:
        path = root / name
        found = path.rglob("*") if path.is_dir() else [path]
        files += [file for file in found if file.suffix in SUFFIXES and file.is_file()]
    files = [file for file in files if "tests" not in file.relative_to(root).parts]
    return max(files, key=lambda file: file.stat().st_mtime, default=None)
