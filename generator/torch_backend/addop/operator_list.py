"""The list of emulated operators of a project, csrc/fallback/operators.def."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from torch_backend.project import Project

LIST = Path("csrc") / "fallback" / "operators.def"

_LINE = re.compile(r'\s*EMULATED\(\s*"(?P<schema>[\w.]+)"')


def without(project: Project, schemas: Collection[str]) -> str:
    """Returns the text of the list without the lines of operators that have a kernel now.

    Args:
        project: the project.
        schemas: their names in the schemas, such as ``add.Tensor``.
    """
    lines = (project.root / LIST).read_text(encoding="utf-8").splitlines(keepends=True)
    found = [(line, _LINE.match(line)) for line in lines]
    return "".join(line for line, match in found if match is None or match["schema"] not in schemas)
