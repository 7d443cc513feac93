"""What a new template version asks of projects made from an older one, beyond merging files.

It is data in the template's ``migrations.yml``, not code, so that no trust is needed; plain copier does not read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import yaml
from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment
from packaging.version import Version

from torch_backend.errors import UserError

from .repository import Repository, Revision, parse_version

FILE = "migrations.yml"
_KEYS = {"version", "renames", "answers", "note"}


@dataclass(frozen=True)
class Migration:
    """One entry of the file.

    Attributes:
        version: the template version that brings the change.
        renames: old path to new path, files or folders, with names as in ``python/{{ package_name }}``.
        answers: old question to the question that takes its answer over.
        note: what the user is told.
    """

    version: Version
    renames: dict[str, str] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    note: str = ""


def parse(text: str) -> list[Migration]:
    """Reads the file, oldest version first.

    Raises:
        UserError: it does not hold what it should.
    """
    try:
        entries = yaml.safe_load(text) or []
    except yaml.YAMLError as error:
        raise UserError(f"{FILE} of the template cannot be read: {error}") from error
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UserError(f"{FILE} of the template must hold a list of entries, each with a version.")
    found = []
    for entry in entries:
        version = parse_version(str(entry.get("version", "")))
        mappings = [entry.get("renames", {}), entry.get("answers", {})]
        if version is None or entry.keys() - _KEYS or not all(isinstance(value, dict) for value in mappings):
            raise UserError(
                f"{FILE} of the template: an entry has a version such as 1.2.0 (in quotes), and of renames and answers "
                f"(old: new) and note what it needs; this one does not: {entry}"
            )
        found.append(Migration(version, mappings[0], mappings[1], str(entry.get("note", ""))))
    return sorted(found, key=lambda migration: migration.version)


def migrations(repository: Repository, old: Revision, new: Revision) -> list[Migration]:
    """Those between two revisions; of versions that have no tag yet too, as the template's developers need it."""
    due = repository.between(old, new).keys()
    known = repository.tags("--merged", new.commit).keys()
    return [m for m in parse(repository.read(new, FILE) or "") if m.version in due or m.version not in known]


def migrate_answers(answers: Mapping[str, Any], steps: Iterable[Migration]) -> dict[str, Any]:
    """Answers to the questions of the new version."""
    result = dict(answers)
    for step in steps:
        for old, new in step.answers.items():
            if old in result:
                result[new] = result.pop(old)
    return result


def renames(answers: Mapping[str, Any], steps: Iterable[Migration]) -> list[tuple[str, str]]:
    """Paths to rename, in order, with the project's names in them.

    Raises:
        UserError: a path leads out of the project, or holds a name that is no answer.
    """
    environment = SandboxedEnvironment(undefined=StrictUndefined)
    result = []
    for step in steps:
        for pair in step.renames.items():
            try:
                old, new = (environment.from_string(path).render(answers).strip("/") for path in pair)
            except TemplateError as error:
                raise UserError(f"{FILE} of the template, version {step.version}: {pair[0]}: {error}") from error
            for path in (old, new):
                if not path or ".." in PurePosixPath(path).parts or PurePosixPath(path).parts[0] == ".git":
                    raise UserError(f"{FILE} of the template, version {step.version}: not a path in a project: {path}")
            result.append((old, new))
    return result


def rename(path: str, pairs: Iterable[tuple[str, str]]) -> str:
    """Where a file goes."""
    for old, new in pairs:
        if path == old or path.startswith(f"{old}/"):
            path = new + path[len(old) :]
    return path
