"""Reads the changes between two versions of the template from its CHANGELOG.md."""

from __future__ import annotations

import re
from dataclasses import dataclass

from packaging.version import Version

from .repository import Repository, Revision, parse_version

FILE = "CHANGELOG.md"
_HEADING = re.compile(r"^## +(?P<heading>\[?v?(?P<version>[^\]\s]+)\]?.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Section:
    """The section of one version.

    Attributes:
        version: None if the heading is "Unreleased".
        heading: the whole line without its number signs, such as ``0.2.0 (not released yet)``.
        body: the text below the heading.
    """

    version: Version | None
    heading: str
    body: str

    @property
    def blocks(self) -> list[str]:
        """Returns the paragraphs and the items of lists."""
        return [block.strip("\n") for block in re.split(r"\n\s*\n|\n(?=- )", self.body)]


def sections(text: str) -> list[Section]:
    """Splits a changelog, newest version first."""
    matches = list(_HEADING.finditer(text))
    ends = [match.start() for match in matches] + [len(text)]
    found = []
    for match, end in zip(matches, ends[1:], strict=True):
        version = parse_version(match["version"])
        if version or match["version"].lower() == "unreleased":
            found.append(Section(version, match["heading"].strip(), text[match.end() : end].strip()))
    return found


def label(repository: Repository, revision: Revision) -> str:
    """Returns the printed form of a revision: a tag, or a commit with the version at the top of its changelog."""
    if revision.name in repository.tags().values():
        return revision.name
    top = next(iter(sections(repository.read(revision, FILE) or "")), None)
    if top is None or top.version is None:
        return revision.name
    heading = re.sub(r" \((.*)\)$", r", \1", printable(top.heading))
    return f"{revision.name} ({heading})"


def news(repository: Repository, old: Revision, new: Revision) -> str:
    """Returns the news, newest first: for each tag after ``old`` its section, or without one the tag's first line.

    Of sections without a tag, it returns only the paragraphs and items that ``old`` did not have.
    """
    tagged = repository.between(old, new)
    released = repository.tags("--merged", new.commit)
    written = sections(repository.read(new, FILE) or "")
    known = {block for section in sections(repository.read(old, FILE) or "") for block in section.blocks}
    limit = next((version for version, tag in released.items() if tag == new.name), None)
    parts = []
    for section in written:
        if section.version in released or (limit and (section.version is None or section.version > limit)):
            continue
        fresh = [block for block in section.blocks if block not in known]
        if any(fresh):
            lines = "\n".join(block if block.startswith("- ") else f"{block}\n" for block in fresh).strip()
            parts.append(f"{section.heading}:\n\n{lines}")
    bodies = {section.version: section.body for section in written}
    for version, tag in reversed(tagged.items()):
        body = bodies.get(version)
        subject = repository.git.text("for-each-ref", "--format=%(contents:subject)", f"refs/tags/{tag}")
        parts.append(f"{tag}:\n\n{body}" if body else f"{tag}: {subject}")
    return printable("\n\n".join(parts))


def printable(text: str) -> str:
    """Removes control characters, because the text comes from the template and is printed on a terminal."""
    return "".join(letter for letter in text if letter.isprintable() or letter == "\n")
