"""What changed between two versions of the template, in the words of its CHANGELOG.md."""

from __future__ import annotations

import re

from packaging.version import Version

from .repository import Repository, Revision, parse_version

FILE = "CHANGELOG.md"
_HEADING = re.compile(r"^## +\[?v?(?P<version>[^\]\s]+)\]?.*$", re.MULTILINE)


def sections(text: str) -> dict[Version | None, str]:
    """Splits a changelog into its sections, by version; None is the one that is not released yet."""
    matches = list(_HEADING.finditer(text))
    ends = [match.start() for match in matches] + [len(text)]
    found: dict[Version | None, str] = {}
    for match, end in zip(matches, ends[1:], strict=True):
        version = parse_version(match["version"])
        if version or match["version"].lower() == "unreleased":
            found[version] = text[match.end() : end].strip()
    return found


def news(repository: Repository, old: Revision, new: Revision) -> str:
    """What the user is told: for each version after ``old``, newest first, its section, else its tag's first line."""
    versions = repository.between(old, new)
    written = sections(repository.read(new, FILE) or "")
    parts = []
    if new.name not in versions.values() and written.get(None):
        parts.append(f"Not released yet:\n\n{written[None]}")
    for version, tag in reversed(versions.items()):
        body = written.get(version)
        subject = repository.git.text("for-each-ref", "--format=%(contents:subject)", f"refs/tags/{tag}")
        parts.append(f"{tag}:\n\n{body}" if body else f"{tag}: {subject}")
    return printable("\n\n".join(parts))


def printable(text: str) -> str:
    """Drops control characters: the text is the template's, and goes to a terminal."""
    return "".join(letter for letter in text if letter.isprintable() or letter == "\n")
