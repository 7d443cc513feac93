"""The ``PORTING:`` tags that are left in a project: comments that say what a port replaces there.

They are found by the template's ``docs/porting.py``, which makes the page of a project that has docs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch_backend.source import template_module

SCRIPT = "{% if 'docs' in features %}docs{% endif %}/porting.py"


@dataclass(frozen=True)
class Tag:
    """A place to port: the file relative to the project, the line from 1, and what the comment says."""

    path: str
    line: int
    text: str


def tags(root: Path) -> list[Tag]:
    """Returns the tags of a project by path and line."""
    places = template_module(SCRIPT).places(root)
    return sorted((Tag(place.path, place.line, place.text) for place in places), key=lambda tag: (tag.path, tag.line))
