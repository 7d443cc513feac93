"""Finds the template line of each rendered line. To do so, it renders a copy of the template that contains marks."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment

from torch_backend.render import SUFFIX, copy
from torch_backend.source import Source


@dataclass
class Trace:
    """The template file and the template line of every rendered line."""

    values: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)  # rendered path -> template file, relative to template/
    lines: dict[str, list[int]] = field(default_factory=dict)  # rendered path -> template line of each rendered line


_VALUES = ".values.json"
_CONTENT = re.compile("\x01(\\d+)\x02")
_LINE_END = re.compile("\x04(\\d+)\x02$")


def trace(source: Source, answers: Mapping[str, Any]) -> Trace:
    """Renders a copy of the template whose lines carry their numbers. Returns the value of every variable too."""
    with tempfile.TemporaryDirectory(prefix="torch-backend-") as folder:
        marked = Path(folder) / "template"
        origins = sorted(p.relative_to(source.template) for p in source.template.rglob("*") if p.is_file())
        for index, origin in enumerate(origins):
            target = marked / (origin if origin.name.endswith(SUFFIX) else origin.with_name(origin.name + SUFFIX))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(f"{index}\x03{_marked(source.template / origin)}", encoding="utf-8")
        marked.mkdir(exist_ok=True)
        pairs = ",".join(f'"{name}": {{{{ {name} | to_json }}}}' for name in source.variables)
        (marked / f"{_VALUES}{SUFFIX}").write_text(f"{{ {pairs} }}", encoding="utf-8")
        with source.snapshot(marked) as snapshot:
            rendered = Path(folder) / "rendered"
            copy(snapshot, rendered, answers)
        result = Trace(values=json.loads((rendered / _VALUES).read_text(encoding="utf-8")))
        for path in rendered.rglob("*"):
            if path.is_file() and path.name != _VALUES:
                name = path.relative_to(rendered).as_posix()
                index_text, _, body = path.read_text(encoding="utf-8").partition("\x03")
                result.files[name] = origins[int(index_text)]
                result.lines[name] = [_origin(line) for line in body.split("\n")]
    return result


def _marked(path: Path) -> str:
    """Adds its number to each line of a template file: before the content, and before each rendered line end.

    Jinja's lexer finds these places. A mark elsewhere could be inside a tag, or could stop a tag such as
    ``{%- if x -%}`` from removing the blank lines beside it. The copy would then have other lines than the render.
    """
    if not path.name.endswith(SUFFIX):
        return ""
    out: list[str] = []
    for line, kind, value in Environment(keep_trailing_newline=True).lex(path.read_text(encoding="utf-8")):
        if kind == "variable_begin":
            out.append(f"\x01{line - 1}\x02")
        if kind != "data":
            out.append(value)
            continue
        for number, piece in enumerate(value.split("\n"), line - 1):
            if number >= line:
                out.append(f"\x04{number - 1}\x02\n")
            out.append(f"\x01{number}\x02{piece}" if piece.strip() else piece)
    return "".join(out)


def _origin(line: str) -> int:
    """Returns the template line of a rendered line's content, or of a blank line's end; -1 if it is unknown."""
    mark = _CONTENT.search(line) or _LINE_END.search(line)
    return int(mark[1]) if mark else -1
