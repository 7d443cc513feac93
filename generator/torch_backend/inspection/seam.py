"""Finds the functions of the seam (``csrc/device/``) that still call the emulated SDK or are not written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from torch_backend.project import Project

from .cxx import functions, visible

SUFFIXES = (".h", ".cpp")
# An unwritten function calls one of these, from this header.
PLACEHOLDER = "NotWritten.h"
# The template's functions for what an SDK lacks. A port writes none of them.
SUBSTITUTES = "substitutes"
# The files with the functions of a capability alone. A port that declines the capability writes none of them.
DECLINED_FILES = {"graphs": "csrc/device/Graph.cpp", "sharing": "csrc/device/Ipc.cpp"}
# The functions of the other capabilities, which stand in files with other functions.
DECLINED_FUNCTIONS = {
    "peer_access": {"canAccessPeer"},
    "pinned_memory": {"hostAllocate", "hostRelease"},
    "priorities": {"priorityRange", "streamPriority"},
    "timing": {"elapsedTime"},
}
_UNWRITTEN = re.compile(r"\b(?:notWritten|warnNotWritten)\b")

_DECLINED = re.compile(
    r'^[^\n/]*\bnotSupported\(\s*"(?P<name>\w+)"(?:\s*,\s*"(?P<reason>(?:[^"\\]|\\.)*)")?', re.MULTILINE
)
_NOT_YET = "not written yet"


@dataclass(frozen=True)
class Declined:
    """A capability that the port declines: its name, the reason that users read, and the file."""

    name: str
    reason: str
    path: str

    @property
    def decided(self) -> bool:
        """Whether the reason is the port's, not the one that the project was rendered with."""
        return _NOT_YET not in self.reason


@dataclass(frozen=True)
class SeamFile:
    """A file of the seam, relative to the project.

    Attributes:
        path: the file.
        functions: the functions that it defines.
        emulated: its functions that use the emulated SDK.
        unwritten: its functions that are not written yet.
    """

    path: str
    functions: list[str]
    emulated: list[str]
    unwritten: list[str]


@dataclass(frozen=True)
class Seam:
    """The seam and the emulated SDK that it may call.

    Attributes:
        sdk: folder of the emulated SDK, relative to the project; None if it does not exist.
        files: the files, ordered by path.
        declined: the optional capabilities that the port declines.
    """

    sdk: str | None
    files: list[SeamFile]
    declined: list[Declined]

    @property
    def functions(self) -> int:
        """The number of functions."""
        return sum(len(file.functions) for file in self.files)

    @property
    def emulated(self) -> int:
        """The number of functions that use the emulated SDK."""
        return sum(len(file.emulated) for file in self.files)

    @property
    def unwritten(self) -> int:
        """The number of functions that are not written yet."""
        return sum(len(file.unwritten) for file in self.files)


def read_seam(project: Project) -> Seam:
    """Reads the sources.

    A function counts as ported if its code uses no name that the SDK's headers declare, or if the port declines its
    capability.
    """
    name = project.answers.get("sdk_name")
    folder = project.root / "third_party" / str(name) if name else None
    names = _declared(folder, str(project.answers.get("sdk_prefix", ""))) if folder else set()
    given_up = declined(project.root)
    not_needed = {DECLINED_FILES.get(item.name) for item in given_up}
    files = []
    for path in sorted((project.root / "csrc" / "device").rglob("*")):
        if path.suffix not in SUFFIXES or path.name == PLACEHOLDER or path.parent.name == SUBSTITUTES:
            continue
        defined = list(functions(path.read_text(encoding="utf-8", errors="replace")))
        emulated = [f.name for f in defined if names & set(re.findall(r"[A-Za-z_]\w*", f.code))]
        unwritten = [f.name for f in defined if _UNWRITTEN.search(f.code)]
        shown = path.relative_to(project.root).as_posix()
        if shown in not_needed:
            emulated, unwritten = [], []
        if defined:
            files.append(SeamFile(shown, [f.name for f in defined], emulated, unwritten))
    return Seam(folder.relative_to(project.root).as_posix() if folder and names else None, files, given_up)


def declined(root: Path) -> list[Declined]:
    """Returns the capabilities that the sources of the seam decline, by name."""
    found = {}
    for path in sorted((root / "csrc" / "device").glob("*.cpp")):
        for match in _DECLINED.finditer(path.read_text(encoding="utf-8", errors="replace")):
            shown = path.relative_to(root).as_posix()
            found[match["name"]] = Declined(match["name"], match["reason"] or "", shown)
    return [found[name] for name in sorted(found)]


def _declared(folder: Path, prefix: str) -> set[str]:
    """Returns the names with the SDK's prefix in its headers."""
    pattern = re.compile(rf"\b{re.escape(prefix)}[A-Z]\w*\b")
    headers = folder.joinpath("include").rglob("*.h")
    return {name for header in headers for name in pattern.findall(visible(header.read_text(encoding="utf-8")))}
