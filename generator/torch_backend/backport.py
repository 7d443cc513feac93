"""Carries edits made in the example back into the template.

The example compiles, so it is the pleasant place to edit. A file that was not touched keeps its template file. In a
file that was, untouched lines keep the template's own lines; changed and new lines get placeholders by the rules in
``names``. Nothing is written before the new template, rendered, gives exactly the example.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path, PurePosixPath
from typing import Any

from .errors import UserError
from .layout import GENERATED, condition
from .names import ESCAPES, PLACEHOLDER, Finding, Names, hints_from
from .render import SUFFIX, File, Trace, Tree, read_tree, render_tree, trace, write_file
from .source import Source
from .trees import describe_difference


@dataclass
class Report:
    """What a backport did; paths are relative to template/."""

    changed: list[Path] = field(default_factory=list)
    added: list[Path] = field(default_factory=list)
    removed: list[Path] = field(default_factory=list)
    guesses: list[Finding] = field(default_factory=list)
    rendered: Tree = field(default_factory=dict)  # what the template renders now

    @property
    def empty(self) -> bool:
        """True if there was nothing to carry."""
        return not (self.changed or self.added or self.removed)


def backport(source: Source, answers: Mapping[str, Any], example: Tree, *, dry_run: bool = False) -> Report:
    """Makes the template render to ``example``.

    Args:
        source: the template; its ``template/`` folder is changed.
        answers: the answers of the example.
        example: the files of the example as edited.
        dry_run: find out and prove, but write nothing.

    Raises:
        UserError: a name cannot be decided, or the result would not render to the example; nothing is written then.
    """
    rendered = render_tree(source, answers)
    traced = trace(source, answers)
    names = Names(traced.values)
    report = Report(rendered=rendered)
    errors: list[Finding] = []

    with tempfile.TemporaryDirectory(prefix="torch-backend-") as folder:
        staging = Path(folder) / "template"
        shutil.copytree(source.template, staging)
        wanted = {path: file for path, file in example.items() if path not in GENERATED}
        for path in sorted(rendered.keys() - wanted.keys() - GENERATED):
            (staging / traced.files[path]).unlink()
            report.removed.append(traced.files[path])
        for path, file in wanted.items():
            if rendered.get(path) == file:
                continue
            body, is_template, findings = _template_body(source, names, traced, rendered.get(path), path, file)
            old = traced.files.get(path)
            new, path_findings = _template_path(names, old, path, is_template)
            for finding in [*findings, *path_findings]:
                (errors if finding.error else report.guesses).append(finding)
            if old is not None and old != new:
                (staging / old).unlink()
            write_file(staging / new, File(body, file.executable))
            (report.added if old is None else report.changed).append(new)
        if errors:
            raise UserError("\n".join(["Names that cannot be carried back; nothing was written:", *map(str, errors)]))
        if report.empty:
            return report
        report.rendered = _prove(source, staging, answers, wanted)
        if not dry_run:
            _replace(staging, source.template)
    return report


def _prove(source: Source, staging: Path, answers: Mapping[str, Any], wanted: Tree) -> Tree:
    with source.snapshot(staging) as candidate:
        rendered = render_tree(candidate, answers)
    again = {path: file for path, file in rendered.items() if path not in GENERATED}
    if again != wanted:
        difference = describe_difference(wanted, again, "example", "template, rendered")
        raise UserError(f"The new template does not render to the example; nothing was written.\n{difference}")
    return rendered


def _template_path(names: Names, old: Path | None, path: str, is_template: bool) -> tuple[Path, list[Finding]]:
    """Keeps the path of a file that the template has; derives that of a new one."""
    if old is not None:
        bare = old.name.removesuffix(SUFFIX)
        return old.with_name(bare + SUFFIX if is_template else bare), []
    converted, findings = names.convert_path(path)
    parts = converted.split("/")
    if found := condition(path):
        depth, expression = found
        parts[depth - 1] = f"{{% if {expression} %}}{parts[depth - 1]}{{% endif %}}"
    return Path(*parts[:-1], parts[-1] + (SUFFIX if is_template else "")), findings


def _template_body(
    source: Source, names: Names, traced: Trace, rendered: File | None, path: str, file: File
) -> tuple[bytes, bool, list[Finding]]:
    """Derives the content of a template file.

    Returns:
        The content, whether it needs the suffix, and the findings.
    """
    text = file.text
    if text is None:
        return file.content, False, []
    if "\r" in text:
        return (
            file.content,
            False,
            [Finding(path, text.count("\n", 0, text.index("\r")) + 1, "carriage return: use \\n")],
        )
    origin = traced.files.get(path)
    template_lines: list[str] = []
    if origin is not None and rendered is not None and rendered.text is not None and origin.name.endswith(SUFFIX):
        template_lines = (source.template / origin).read_text(encoding="utf-8").split("\n")
    origins = traced.lines.get(path, [])
    new = text.split("\n")
    if (
        template_lines
        and rendered is not None
        and rendered.text is not None
        and len(origins) == rendered.text.count("\n") + 1
    ):
        lines, findings = _align(names, path, template_lines, origins, rendered.text.split("\n"), new)
    else:
        lines, findings = [], []
        for number, line in enumerate(new, 1):
            converted, found = names.convert(line, path)
            lines.append(converted)
            findings += [Finding(f.path, number, f.text, f.error) for f in found]
    body = "\n".join(lines)
    is_template = PLACEHOLDER.search(body) or "{%" in body.replace(ESCAPES["{%"], "")
    return (body.encode(), True, findings) if is_template else (file.content, False, findings)


def _align(
    names: Names, path: str, template: list[str], origins: list[int], old: list[str], new: list[str]
) -> tuple[list[str], list[Finding]]:
    """Merges changed lines into a template file whose other lines stay as they are, block tags included.

    Args:
        template: lines of the template file.
        origins: for each rendered line, the template line it comes from (-1: the end of the file).
        old: lines as rendered.
        new: lines as edited.
    """
    out: list[str] = []
    findings: list[Finding] = []
    position = 0  # the next template line that is not written out yet
    last = len(template) - 1
    where = [last if origin < 0 else origin for origin in origins]

    def copy_tags(until: int) -> None:
        """Copies template lines that gave no rendered line: block tags, and what a false block holds."""
        nonlocal position
        rendered = set(where)
        while position < until:
            if position not in rendered:
                out.append(template[position])
            position += 1

    for tag, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            for index in range(old_from, old_to):
                copy_tags(where[index])
                out.append(template[where[index]])
                position = where[index] + 1
            continue
        hints: dict[str, str] = {}
        for index in range(old_from, old_to):
            hints |= hints_from(template[where[index]], names.values)
        for number in range(new_from, new_to):
            if old_from + number - new_from < old_to:
                copy_tags(where[old_from + number - new_from])
            converted, found = names.convert(new[number], path, hints)
            out.append(converted)
            findings += [Finding(f.path, number + 1, f.text, f.error) for f in found]
        if old_to > old_from:
            copy_tags(where[old_to - 1] + 1)
    copy_tags(len(template))
    return out, findings


def _replace(staging: Path, target: Path) -> None:
    """Makes ``target`` equal to ``staging``, touching only what differs."""
    new, old = read_tree(staging), read_tree(target)
    for name in old.keys() - new.keys():
        remove_file(target, name)
    for name, file in new.items():
        if old.get(name) != file:
            write_file(target / name, file)


def remove_file(root: Path, name: str) -> None:
    """Removes a file and the folders that are empty without it."""
    (root / name).unlink()
    for parent in PurePosixPath(name).parents:
        if parent == PurePosixPath(".") or any((root / parent).iterdir()):
            break
        (root / parent).rmdir()
