"""Compares a project with its template, and finds what updates and merges have left behind."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from torch_backend.git import Git, fields
from torch_backend.project import Project
from torch_backend.render import ANSWERS_FILE, copy

from .repository import open_repository
from .undo import STAGING, staging_folders
from .update import answers_of, guarded

TEMPLATE = "the template's"
SHARED = "shared"
README = "README.md"
# The project writes the list on this page itself.
_WRITTEN_BY_THE_PROJECT = {ANSWERS_FILE, "docs/porting.md"}
_MARKER = re.compile(rb"^(<{7}|>{7}) ", re.MULTILINE)
_LEFTOVERS = (".orig", ".rej")


@dataclass(frozen=True)
class Finding:
    """Something to look at.

    Attributes:
        level: error (it breaks the project or its next update) or warning (the next update may have a conflict there).
        path: the file or folder, relative to the project.
        text: what it is, and what to do.
    """

    level: str
    path: str
    text: str

    def to_json(self) -> dict[str, str]:
        """Returns the same data as plain values."""
        return asdict(self)


def owners(readme: str) -> dict[str, list[str]]:
    """Reads the table of a rendered README.md that says who owns which file.

    Returns:
        The kinds of files in the order of the table, each with its patterns. The first kind with a pattern that matches
        a file owns it.
    """
    rows = re.search(r"(?m)^\| kind \| files \| what to do \|\n\|[-|]+\n((?:\|.*\n)+)", readme)
    cells = [row.split(" | ") for row in rows[1].splitlines()] if rows else []
    return {kind.removeprefix("| "): re.findall(r"`([^`]+)`", files) for kind, files, _ in cells}


def matches(path: str, pattern: str) -> bool:
    """Returns whether a pattern of the table, a folder with a slash at its end or a file, matches a path."""
    if pattern.endswith("/"):
        return path.startswith(pattern)
    return path.count("/") == pattern.count("/") and fnmatchcase(path, pattern)


def owner(path: str, table: Mapping[str, list[str]]) -> str:
    """Returns the kind of a file; empty if the table does not name it."""
    return next((kind for kind, patterns in table.items() if any(matches(path, p) for p in patterns)), "")


def lint(project: Project, address: str | None = None) -> list[Finding]:
    """Returns the findings in a project: errors first, then warnings, by path. It changes nothing.

    Args:
        project: the project; it need not be committed.
        address: the template's present address, if it has moved.

    Raises:
        UserError: the template has no versions or does not exist, or the project does not record it.
    """
    with (
        guarded(),
        open_repository(project, address) as (repository, current),
        tempfile.TemporaryDirectory(prefix="torch-backend-") as folder,
    ):
        fresh = Path(folder) / "fresh"
        copy(str(repository.folder), fresh, answers_of(project), ref=current.commit)
        found = [*_leftovers(project.root), *_drift(project.root, fresh)]
    return sorted(found, key=lambda finding: (finding.level, finding.path))


def _leftovers(root: Path) -> Iterator[Finding]:
    for folder in staging_folders(root):
        yield Finding("error", f"{folder.name}/", "a killed update left it: run `torch-backend update --abort`")
    listed = fields(Git(root).run("ls-files", "-z", "--cached", "--others", "--exclude-standard"))
    for path in sorted(set(listed)):
        place = root / path
        if not place.is_file() or path.startswith(STAGING):
            continue
        if place.suffix in _LEFTOVERS:
            yield Finding("error", path, "a merge left it: take what you need from it, and delete it")
        elif _MARKER.search(place.read_bytes()):
            yield Finding("error", path, "it has conflict markers: edit it, and run `git add` on it")


def _drift(root: Path, fresh: Path) -> Iterator[Finding]:
    table = owners((fresh / README).read_text(encoding="utf-8"))
    if not table:
        yield Finding(
            "warning",
            README,
            "this version of it does not name the owners of files, so none was compared: update the project",
        )
    for place in sorted(fresh.rglob("*")):
        path = place.relative_to(fresh).as_posix()
        kind = owner(path, table)
        if not place.is_file() or path in _WRITTEN_BY_THE_PROJECT or kind not in (TEMPLATE, SHARED):
            continue
        mine = root / path
        if not mine.is_file():
            yield Finding("warning", path, f"it is missing, although it is {kind}: an update does not bring it back")
        elif kind == TEMPLATE and _lines(mine) != _lines(place):
            yield Finding(
                "warning", path, "it is the template's, and edited: move your edit into a file of your own, if you can"
            )


def _lines(path: Path) -> list[bytes]:
    """Returns the lines, whatever their ends, which git may have converted."""
    return path.read_bytes().splitlines()
