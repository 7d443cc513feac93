"""Carries edits made in the example back into the template.

The example compiles, so it is easier to edit than the template. An unedited file keeps its template file. In an edited
file, unedited lines keep their template lines, and ``names`` puts placeholders into changed and new lines. Nothing is
written until the new template renders exactly the example.

The example shows one case of each choice (``{% if %}``) in the template, so comparing it with the render does not check
the other cases. Therefore an edit that cannot be placed without changing a choice is refused.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

from torch_backend.errors import UserError
from torch_backend.render import SUFFIX, File, Tree, read_tree, render_tree, write_file
from torch_backend.source import Source

from .layout import GENERATED, conditions
from .names import ESCAPES, PLACEHOLDER, Finding, Names, hints_from, is_plain
from .trace import Trace, trace
from .trees import describe_difference


@dataclass
class Report:
    """The files that a backport changed; paths are relative to template/."""

    changed: list[Path] = field(default_factory=list)
    added: list[Path] = field(default_factory=list)
    removed: list[Path] = field(default_factory=list)
    guesses: list[Finding] = field(default_factory=list)
    rendered: Tree = field(default_factory=dict)  # the render of the template before the backport

    @property
    def empty(self) -> bool:
        """True if the example has no edits."""
        return not (self.changed or self.added or self.removed)


def backport(source: Source, answers: Mapping[str, Any], example: Tree, *, dry_run: bool = False) -> Report:
    """Changes the template so that it renders ``example``.

    Args:
        source: the template; its ``template/`` folder is changed.
        answers: the answers of the example.
        example: the files of the example as edited.
        dry_run: do everything except writing.

    Raises:
        UserError: a name has no clear placeholder, or the result does not render the example. Nothing is written.
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
            origin = traced.files[path]
            if b"{%" in (staging / origin).read_bytes() and origin.name.endswith(SUFFIX):
                text = f"template/{origin.as_posix()} had choices ({{% %}}), which are removed with it"
                report.guesses.append(Finding(path, 1, text, error=False))
            (staging / origin).unlink()
            report.removed.append(origin)
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
        raise UserError(
            "The new template does not render to the example; nothing was written. Where a file's template has choices "
            f"({{% if %}}), make the edit in the template.\n{difference}"
        )
    return rendered


def _template_path(names: Names, old: Path | None, path: str, is_template: bool) -> tuple[Path, list[Finding]]:
    """Returns the path of a file in the template; a new file gets one from its path in the example."""
    if old is not None:
        bare = old.name.removesuffix(SUFFIX)
        return old.with_name(bare + SUFFIX if is_template else bare), []
    converted, findings = names.convert_path(path)
    parts = converted.split("/")
    for depth, expression in conditions(path).items():
        parts[depth - 1] = f"{{% if {expression} %}}{parts[depth - 1]}{{% endif %}}"
    return Path(*parts[:-1], parts[-1] + (SUFFIX if is_template else "")), findings


def _template_body(
    source: Source, names: Names, traced: Trace, rendered: File | None, path: str, file: File
) -> tuple[bytes, bool, list[Finding]]:
    """Makes the content of a template file.

    Returns:
        The content, whether the file needs the suffix ``.jinja``, and the findings.
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
    new = text.split("\n")
    if origin is not None and rendered is not None and rendered.text is not None and origin.name.endswith(SUFFIX):
        template = (source.template / origin).read_text(encoding="utf-8").split("\n")
        where, old = traced.lines[path], rendered.text.split("\n")
        where = [*where[:-1], len(template) - 1]
        if len(where) != len(old) or any(after <= before for before, after in pairwise([-1, *where])):
            problem = f"template/{origin.as_posix()} has a loop or a value of several lines: make the edit there"
            return file.content, False, [Finding(path, 1, problem)]
        lines, findings = _Alignment(names, path, origin, template, where, old, new).merge()
    else:
        lines, findings = [], []
        for number, line in enumerate(new, 1):
            converted, found = names.convert(line, path)
            lines.append(converted)
            findings += [Finding(f.path, number, f.text, f.error) for f in found]
    body = "\n".join(lines)
    is_template = PLACEHOLDER.search(body) or "{%" in body.replace(ESCAPES["{%"], "")
    return (body.encode(), True, findings) if is_template else (file.content, False, findings)


@dataclass
class _Alignment:
    """Merges changed lines into a template file whose other lines stay as they are.

    Attributes:
        names: the rules for names.
        path: the file in the example.
        origin: the template file.
        template: its lines.
        where: the template line of each rendered line, strictly increasing.
        old: lines as rendered.
        new: lines as edited.
    """

    names: Names
    path: str
    origin: Path
    template: list[str]
    where: list[int]
    old: list[str]
    new: list[str]
    out: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    position: int = 0  # the next template line to write

    def merge(self) -> tuple[list[str], list[Finding]]:
        """Returns the lines of the new template file, and the findings."""
        matcher = SequenceMatcher(None, self.old, self.new, autojunk=False)
        for tag, old_from, old_to, new_from, new_to in matcher.get_opcodes():
            if tag == "equal":
                for index in range(old_from, old_to):
                    self._copy_hidden(self.where[index])
                    self.out.append(self.template[self.where[index]])
                    self.position = self.where[index] + 1
            else:
                self._edit(range(old_from, old_to), range(new_from, new_to))
        self._copy_hidden(len(self.template))
        return self.out, self.findings

    def _copy_hidden(self, until: int) -> None:
        """Copies template lines without a rendered line: tags, and cases that the example does not render."""
        shown = set(self.where)
        while self.position < until:
            if self.position not in shown:
                self.out.append(self.template[self.position])
            self.position += 1

    def _edit(self, old: range, new: range) -> None:
        """Replaces old lines by new ones, pair by pair, so that tags between them keep their places."""
        hints: dict[str, str] = {}
        for index in old:
            line = self.template[self.where[index]]
            hints |= hints_from(line, self.names.values)
            if not is_plain(line):
                problem = f"{line.strip()!r} renders other lines with other answers: edit {self._place(index)} itself"
                self.findings.append(Finding(self.path, new.start + 1, problem))
        self._name_choices(old, new)
        for index, number in enumerate(new, old.start):
            nearest = hints
            if index < old.stop:
                self._copy_hidden(self.where[index])
                nearest = hints | hints_from(self.template[self.where[index]], self.names.values)
            converted, found = self.names.convert(self.new[number], self.path, nearest)
            self.out.append(converted)
            self.findings += [Finding(f.path, number + 1, f.text, f.error) for f in found]
        if old:
            self._copy_hidden(self.where[old.stop - 1] + 1)

    def _name_choices(self, old: range, new: range) -> None:
        """Reports tags beside added or removed lines: it is not known whether these lines belong to the choice."""
        if len(old) == len(new):
            return
        pairs = min(len(old), len(new))
        start, stop, first = old.start + pairs, old.stop, new.start + pairs
        # Of several equal lines, it is not known either which one was added or removed.
        lines, position = (self.old, start) if len(old) > len(new) else (self.new, first)
        size = abs(len(old) - len(new))
        if not pairs:
            while min(start, position) > 0 and lines[position - 1] == lines[position + size - 1]:
                start, position = start - 1, position - 1
            position = old.start if len(old) > len(new) else new.start
            while stop < len(self.where) and position + size < len(lines) and lines[position] == lines[position + size]:
                stop, position = stop + 1, position + 1
        before = self.where[start - 1] if start else -1
        after = self.where[stop] if stop < len(self.where) else len(self.template)
        hidden = (number for number in range(before + 1, after) if number not in self.where)
        tagged = next((number for number in hidden if "{%" in self.template[number]), None)
        if tagged is not None:
            tag, what = self.template[tagged].strip(), "added" if len(new) > len(old) else "removed"
            place = f"template/{self.origin.as_posix()}:{tagged + 1}"
            text = f"lines were {what} beside {tag!r} of {place}: see that the choice holds the right lines"
            self.findings.append(Finding(self.path, first + 1, text, error=False))

    def _place(self, index: int) -> str:
        return f"template/{self.origin.as_posix()}:{self.where[index] + 1}"


def _replace(staging: Path, target: Path) -> None:
    """Makes ``target`` equal to ``staging``, and writes only files that differ."""
    new, old = read_tree(staging), read_tree(target)
    for name in old.keys() - new.keys():
        remove_file(target, name)
    for name, file in new.items():
        if old.get(name) != file:
            write_file(target / name, file)


def remove_file(root: Path, name: str) -> None:
    """Removes a file, and its folders if they become empty."""
    (root / name).unlink()
    for parent in PurePosixPath(name).parents:
        if parent == PurePosixPath(".") or any((root / parent).iterdir()):
            break
        (root / parent).rmdir()
