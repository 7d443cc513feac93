"""Finds out which line of the template each rendered line comes from, by rendering a copy that holds marks."""

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
    """Which template file, and which of its lines, every rendered line comes from."""

    values: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)  # rendered path -> template file, relative to template/
    lines: dict[str, list[int]] = field(default_factory=dict)  # rendered path -> template line of each rendered line


_VALUES = ".values.json"
_CONTENT = re.compile("\x01(\\d+)\x02")
_LINE_END = re.compile("\x04(\\d+)\x02$")


def trace(source: Source, answers: Mapping[str, Any]) -> Trace:
    """Renders a copy of the template whose lines carry their numbers. Also gives the value of every variable."""
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
    """A template file with its line numbers: before the content of each line, and before each line end that it renders.

    Jinja's own lexer says which those are. A mark anywhere else would show up within a tag, or keep a tag such as
    ``{%- if x -%}`` from removing the blank lines beside it, and the copy would have other lines than the render.
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
    """The template line that a rendered line has its content from, of a blank one its line end; -1 if none is known."""
    mark = _CONTENT.search(line) or _LINE_END.search(line)
    return int(mark[1]) if mark else -1
