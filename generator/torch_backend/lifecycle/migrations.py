"""Renamed paths and questions between versions of the template.

The template's ``migrations.yml`` lists them. It is data, not code, so it needs no trust. Plain copier does not read it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

import yaml
from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment
from packaging.version import Version

from torch_backend.errors import UserError

from .repository import Repository, Revision, parse_version

FILE = "migrations.yml"
_MAPPINGS = ("renames", "replacements", "answers")
_LISTS = ("features", "omitted")
_KEYS = {"version", "note", *_LISTS, *_MAPPINGS}
_INCLUDE = re.compile(r"""^([ \t]*#[ \t]*include[ \t]*")([^"\n]+)(")""", re.MULTILINE)
_SOURCES = "csrc/"  # the folder to which a project's #include paths are relative


@dataclass(frozen=True)
class Migration:
    """One entry of the file.

    Attributes:
        version: the template version that brings the change, as CHANGELOG.md names it.
        renames: old path to new path, files or folders, with names as in ``python/{{ package_name }}``.
        replacements: old text to new text, whole words, in what the vendor has written.
        answers: old question to the question that takes its answer over.
        features: parts of every older project that are optional from this version on.
        omitted: new files that only new projects get, because they do not fit what older projects have.
        note: the text for the user.
    """

    version: Version
    renames: dict[str, str] = field(default_factory=dict)
    replacements: dict[str, str] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    features: list[str] = field(default_factory=list)
    omitted: list[str] = field(default_factory=list)
    note: str = ""


def parse(text: str) -> list[Migration]:
    """Reads the file, oldest version first.

    Raises:
        UserError: the file has another structure.
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
        mappings = {key: entry.get(key, {}) for key in _MAPPINGS}
        lists = {key: entry.get(key, []) for key in _LISTS}
        right = all(isinstance(value, list) for value in lists.values()) and all(
            isinstance(value, dict) and all(value) for value in mappings.values()
        )
        if version is None or entry.keys() - _KEYS or not right:
            raise UserError(
                f"{FILE} of the template: an entry has a version such as 1.2.0 (in quotes), and of renames, "
                "replacements and answers (old: new), features and omitted (lists) and note what it needs; "
                f"this one does not: {entry}"
            )
        found.append(Migration(version, **mappings, **lists, note=str(entry.get("note", ""))))
    return sorted(found, key=lambda migration: migration.version)


def migrations(repository: Repository, old: Revision, new: Revision) -> list[Migration]:
    """Returns the entries that the file has at ``new`` and did not have at ``old``. This needs no tags."""
    try:
        seen = parse(repository.read(old, FILE) or "")
    except UserError:  # the old file cannot be read: all entries apply, and a rename of a missing file does nothing
        seen = []
    return list(beyond(parse(repository.read(new, FILE) or ""), seen))


def beyond(steps: Iterable[Migration], seen: Iterable[Migration]) -> Iterator[Migration]:
    """Removes the items that the file had before. Items count, because an unreleased entry may still grow or change."""
    known = Counter(item for step in seen for item in _items(step))
    for step in steps:
        fresh = set()
        for item in _items(step):
            if known[item]:
                known[item] -= 1
            else:
                fresh.add(item)
        if fresh:
            yield _only(step, fresh)


def _only(step: Migration, fresh: Collection[tuple[str, str, str]]) -> Migration:
    """Returns the entry with these of its items."""
    kept: dict[str, Any] = {
        key: {old: new for old, new in getattr(step, key).items() if (key, old, new) in fresh} for key in _MAPPINGS
    }
    kept |= {key: [name for name in getattr(step, key) if (key, name, "") in fresh] for key in _LISTS}
    return replace(step, **kept, note=step.note if ("note", step.note, "") in fresh else "")


def _items(step: Migration) -> list[tuple[str, str, str]]:
    """Yields the items of an entry."""
    items = [(key, str(old), str(new)) for key in _MAPPINGS for old, new in getattr(step, key).items()]
    items += [(key, str(name), "") for key in _LISTS for name in getattr(step, key)]
    return [*items, ("note", step.note, "")] if step.note else items


def migrate_answers(answers: Mapping[str, Any], steps: Iterable[Migration]) -> dict[str, Any]:
    """Returns the answers under the names of the new version's questions."""
    result = dict(answers)
    for step in steps:
        for old, new in step.answers.items():
            if old in result:
                result[new] = result.pop(old)
        if step.features:
            has = [str(name) for name in result.get("features") or []]
            result["features"] = has + [name for name in step.features if name not in has]
    return result


def renames(answers: Mapping[str, Any], steps: Iterable[Migration]) -> list[tuple[str, str]]:
    """Returns the paths to rename, in order, with the project's names.

    Raises:
        UserError: a path is outside the project, or a placeholder in it is not an answer.
    """
    result = []
    for step in steps:
        for old, new in _named(answers, step, step.renames):
            pair = old.strip("/"), new.strip("/")
            for path in pair:
                if not path or ".." in PurePosixPath(path).parts or PurePosixPath(path).parts[0] == ".git":
                    raise UserError(f"{FILE} of the template, version {step.version}: not a path in a project: {path}")
            result.append(pair)
    return result


def _named(answers: Mapping[str, Any], step: Migration, pairs: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Returns both texts with the project's names.

    Raises:
        UserError: a placeholder is not an answer.
    """
    environment = SandboxedEnvironment(undefined=StrictUndefined)
    for pair in pairs.items():
        try:
            old, new = (environment.from_string(str(text)).render(answers) for text in pair)
        except TemplateError as error:
            raise UserError(f"{FILE} of the template, version {step.version}: {pair[0]}: {error}") from error
        yield old, new


def rename(path: str, pairs: Iterable[tuple[str, str]]) -> str:
    """Returns the new path of a file."""
    for old, new in pairs:
        if path == old or path.startswith(f"{old}/"):
            path = new + path[len(old) :]
    return path


@dataclass(frozen=True)
class Rewriter:
    """Puts new names into the vendor's text: the paths of moved headers in #include lines, and other words.

    Attributes:
        renames: see ``renames``.
        words: old text to new text.
    """

    renames: Sequence[tuple[str, str]] = ()
    words: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, text: str) -> tuple[str, Counter[tuple[str, str]]]:
        """Returns the new text, and how often each word was replaced."""
        done: Counter[tuple[str, str]] = Counter()

        def include(match: re.Match[str]) -> str:
            path = rename(_SOURCES + match[2], self.renames).removeprefix(_SOURCES)
            if path != match[2]:
                done[match[2], path] += 1
            return f"{match[1]}{path}{match[3]}"

        def word(match: re.Match[str]) -> str:
            done[match[0], self.words[match[0]]] += 1
            return self.words[match[0]]

        if self.renames:
            text = _INCLUDE.sub(include, text)
        if self.words:
            longest_first = sorted(self.words, key=len, reverse=True)
            text = re.sub("|".join(map(_whole, longest_first)), word, text)
        return text, done


def _whole(text: str) -> str:
    """Returns a pattern that finds a text as whole words."""
    before, after = (re.match(r"\w", text[place]) is not None for place in (0, -1))
    return (r"(?<!\w)" if before else "") + re.escape(text) + (r"(?!\w)" if after else "")


def rewriter(answers: Mapping[str, Any], steps: Sequence[Migration]) -> Rewriter:
    """Returns the rewriter of all migrations."""
    words: dict[str, str] = {}
    for step in steps:
        later = dict(_named(answers, step, step.replacements))
        words = {old: later.get(new, new) for old, new in words.items()} | later
    return Rewriter(renames(answers, steps), words)
