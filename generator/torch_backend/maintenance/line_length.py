"""Finds lines over 140 columns in the repository.

The example is checked instead of the template, because placeholders change the length of a line. Files of the template
that the example does not render are checked with placeholders of the example's length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from torch_backend.render import SUFFIX

from .lint import Problem
from .names import PLACEHOLDER
from .trees import project_files

LIMIT = 140
SUFFIXES = (
    *(".md", ".py", ".pyi", ".c", ".cpp", ".h", ".hpp", ".def", ".cmake", ".in", ".txt", ".toml", ".yml", ".yaml"),
    *(".jinja", "Makefile"),
)
# The porting page, whose lines must not depend on the length of names, and templates whose lines render shorter.
_GENERATED = re.compile(r"(^|/)docs/porting\.md$|porting\.md\{% endif %\}\.jinja$|/addop/files/")
_ELSEWHERE = re.compile(r"^template/(?!.*== 'external')")


def long_lines(root: Path) -> Iterator[Problem]:
    """Yields the lines over 140 columns below a folder, except for rows of tables in Markdown."""
    for name in project_files(root):
        bare = name.removesuffix(SUFFIX)
        if not name.endswith(SUFFIXES) or _GENERATED.search(name) or _ELSEWHERE.match(name):
            continue
        in_template = name.startswith("template/")
        for number, line in enumerate((root / name).read_text(encoding="utf-8").split("\n"), 1):
            if len(line) <= LIMIT or (bare.endswith((".md", ".md{% endif %}")) and line.startswith("|")):
                continue
            length = len(PLACEHOLDER.sub("openreg", line)) if in_template else len(line)
            if length > LIMIT:
                yield Problem(name, number, f"{length} columns; break the line before column {LIMIT}")
