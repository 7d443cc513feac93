"""The list of emulated operators of a project, csrc/fallback/operators.def."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from torch_backend.project import Project

LIST = Path("csrc") / "fallback" / "operators.def"

_LINE = re.compile(r'\s*(?P<off>//\s*)?EMULATED\(\s*"(?P<schema>[\w.]+)"')


def without(project: Project, schemas: Collection[str]) -> str:
    """Returns the text of the list in which the lines of operators that have a kernel now are comments.

    Args:
        project: the project.
        schemas: their names in the schemas, such as ``add.Tensor``.
    """
    return _edited(project, schemas, listed=False)


def with_again(project: Project, schemas: Collection[str]) -> str:
    """Returns the text of the list in which the lines of operators that lose their kernel are no comments any more."""
    return _edited(project, schemas, listed=True)


def _edited(project: Project, schemas: Collection[str], *, listed: bool) -> str:
    lines = (project.root / LIST).read_text(encoding="utf-8").splitlines(keepends=True)
    found = [(line, _LINE.match(line)) for line in lines]
    return "".join(
        _switched(line, match["off"]) if match and match["schema"] in schemas and bool(match["off"]) == listed else line
        for line, match in found
    )


def _switched(line: str, off: str | None) -> str:
    """Makes a line a comment, or a comment a line."""
    return line.replace(off, "", 1) if off else f"// {line}"
