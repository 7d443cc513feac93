"""Collects the porting tags of the sources: comments that begin with ``PORTING:`` and say what a port replaces.

``python docs/porting.py`` writes the list at the end of ``docs/porting.md``; ``--list`` prints the places with their line numbers instead.
torch-backend imports this file from its template too, so the file must import only the standard library.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TAG = "PORTING:"
SOURCES = ("csrc", "python", "CMakeLists.txt", "cmake")
SUFFIXES = (".c", ".cpp", ".h", ".in", ".def", ".py", ".pyi", ".txt", ".cmake")

# The list follows this line of the page. What stands above it is written by hand.
HEAD = f"""\
## All places

A comment that begins with `{TAG}` marks each place that a port replaces. `python docs/porting.py` writes this list from those comments;
`python docs/porting.py --list` prints the places with line numbers. When you have ported a place, delete its comment.
"""

CHAPTERS = {
    "csrc/device": "The seam to the SDK",
    "csrc/aten/native": "Kernels",
    "csrc/aten": "Other operators",
    "csrc/runtime": "Runtime",
    "": "Everything else",
}

_COMMENT = re.compile(r"^(?P<indent>\s*)(?://|#)\s?(?P<text>.*)$")
_NAME = re.compile(r"(?:^|[\s*&])(?P<name>[A-Za-z_][\w:]*)\(|^(?:struct|class|def)\s+(?:\w+_API\s+)?(?P<type>\w+)")


@dataclass(frozen=True)
class Place:
    """One tag: the file (relative to the project), the line of the tag, what it marks ("": the file) and its text."""

    path: str
    line: int
    name: str
    text: str

    @property
    def chapter(self) -> str:
        """The key in CHAPTERS that this place belongs under."""
        return next(prefix for prefix in CHAPTERS if not prefix or self.path.startswith(prefix + "/"))


def places(project: Path) -> list[Place]:
    """Returns all places in the order of the page."""
    found: list[Place] = []
    for name in SOURCES:
        root = project / name
        files = sorted(root.rglob("*")) if root.is_dir() else [root]
        for file in files:
            if file.is_file() and file.suffix in SUFFIXES:
                lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
                found += _places_in(lines, file.relative_to(project).as_posix())
    order = list(CHAPTERS)
    return sorted(found, key=lambda place: (order.index(place.chapter), place.path, place.line))


def page(project: Path) -> str:
    """Returns the text of docs/porting.md, with a new list."""
    all_places = places(project)
    file = project / "docs" / "porting.md"
    by_hand = file.read_text(encoding="utf-8").partition(HEAD.partition("\n")[0])[0] if file.exists() else ""
    out = [by_hand + HEAD]
    for prefix, title in CHAPTERS.items():
        chapter = [place for place in all_places if place.chapter == prefix]
        if chapter:
            out.append(f"### {title}\n")
            out += [f"- {_link(place)}: {place.text}" for place in chapter]
            out.append("")
    return "\n".join(out)


def _link(place: Place) -> str:
    link = f"[{place.path}](../{place.path})"
    return f"{link}, `{place.name}`" if place.name else link


def _places_in(lines: list[str], path: str) -> Iterator[Place]:
    for number, line in enumerate(lines):
        start = _COMMENT.match(line)
        if start is None or not start["text"].startswith(TAG):
            continue
        text = [start["text"].removeprefix(TAG).strip()]
        end = number + 1
        while end < len(lines) and (more := _COMMENT.match(lines[end])) is not None:
            if not more["text"].strip() or more["text"].startswith(TAG):
                break
            text.append(more["text"].strip())
            end += 1
        sentence = " ".join(text)
        yield Place(path, number + 1, _marked(lines, number, end), sentence[:1].upper() + sentence[1:])


def _marked(lines: list[str], start: int, end: int) -> str:
    """Finds the function or type after a comment, or around an indented comment. Line numbers start at 0."""
    if lines[start].startswith(" "):
        candidates = [line for line in reversed(lines[:start]) if line and line[0] not in " #/}"]
    else:
        candidates = [line for line in lines[end : end + 3] if not line.startswith("template")]
    for line in candidates[:1]:
        if (match := _NAME.search(line)) and not line.startswith("TORCH_LIBRARY"):
            return match["name"] or match["type"]
    return ""


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the places, write nothing")
    options = parser.parse_args()
    project = Path(__file__).resolve().parent.parent
    if options.list:
        for place in places(project):
            print(f"{place.path}:{place.line}: {place.text}")
        return
    (project / "docs" / "porting.md").write_text(page(project), encoding="utf-8")


if __name__ == "__main__":
    main()
