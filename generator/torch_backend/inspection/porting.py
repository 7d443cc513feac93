"""The ``PORTING:`` tags that are left in a project: comments that say what a port replaces there.

The same places as the project's own ``docs/porting.py --list`` prints, which a project without the docs does not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TAG = "PORTING:"
SOURCES = ("csrc", "python", "CMakeLists.txt", "cmake")
SUFFIXES = (".c", ".cpp", ".h", ".in", ".def", ".py", ".pyi", ".txt", ".cmake")
_COMMENT = re.compile(r"^\s*(?://|#)\s?(?P<text>.*)$")


@dataclass(frozen=True)
class Tag:
    """A place to port: the file relative to the project, the line from 1, and what the comment says."""

    path: str
    line: int
    text: str


def tags(root: Path) -> list[Tag]:
    """Returns the tags of a project by path and line."""
    found: list[Tag] = []
    for name in SOURCES:
        top = root / name
        files = sorted(top.rglob("*")) if top.is_dir() else [top]
        for file in files:
            if file.is_file() and file.suffix in SUFFIXES:
                lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
                found += _tags_in(lines, file.relative_to(root).as_posix())
    return sorted(found, key=lambda tag: (tag.path, tag.line))


def _tags_in(lines: list[str], path: str) -> Iterator[Tag]:
    for number, line in enumerate(lines):
        comment = _COMMENT.match(line)
        if comment is None or not comment["text"].startswith(TAG):
            continue
        text = [comment["text"].removeprefix(TAG).strip()]
        for following in lines[number + 1 :]:
            more = _COMMENT.match(following)
            if more is None or not more["text"].strip() or more["text"].startswith(TAG):
                break
            text.append(more["text"].strip())
        yield Tag(path, number + 1, " ".join(text))
