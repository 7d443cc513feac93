"""The ``PORTING:`` tags in a project: comments that say what a port replaces.

The template's ``docs/porting.py`` finds them. In a project with docs it also writes the porting page.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch_backend.source import template_module

SCRIPT = "{% if 'docs' in features %}docs{% endif %}/porting.py"


@dataclass(frozen=True)
class Tag:
    """A place to port: the file relative to the project, the line (the first is 1), and the text of the comment."""

    path: str
    line: int
    text: str


def tags(root: Path) -> list[Tag]:
    """Returns the tags of a project by path and line."""
    places = template_module(SCRIPT).places(root)
    return sorted((Tag(place.path, place.line, place.text) for place in places), key=lambda tag: (tag.path, tag.line))
