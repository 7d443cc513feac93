"""The documentation holds: links and paths exist, quoted code is in the sources, and the Python examples run.

A fenced block whose first line is a comment with nothing but a path quotes that file; ``...`` in a comment of its own
leaves lines out. Every other block in Python is an example. Those of one page run in their order, in one process that
has imported torch.
"""

from __future__ import annotations

import importlib
import os
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from abilities import skip_without
from conftest import MODULE, PROJECT, RunPython

PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
OPTIONAL = ("docs", "benchmarks", ".github", "third_party")  # folders that the project may have been rendered without
SUFFIXES = (".md", ".py", ".pyi", ".c", ".cpp", ".h", ".def", ".in", ".txt", ".cmake", ".toml")
NEEDS = {"graphs": ("graphs",), "multiprocessing": ("sharing",)}  # page -> what the device needs for its examples


pytestmark = pytest.mark.no_device
all_pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@dataclass(frozen=True)
class Block:
    """A fenced block: the language, the number of its first line in the page, and its lines."""

    language: str
    line: int
    lines: list[str]

    @property
    def quoted(self) -> str:
        """The path that the block quotes from, or an empty string."""
        match = re.fullmatch(r"(?://|#) ([\w./-]+\.\w+)", self.lines[0]) if self.lines else None
        return match[1] if match else ""

    def chunks(self) -> Iterator[list[str]]:
        """Yields the runs of lines that the quoted file must hold."""
        text = re.sub(r"(?m)^\s*(?://|#) \.\.\.$", "\0", "\n".join(self.lines[1:]))
        for chunk in text.split("\0"):
            if chunk.strip():
                yield chunk.strip("\n").split("\n")


def split(page: Path) -> tuple[list[tuple[int, str]], list[Block]]:
    """Returns the lines of prose with their numbers, and the fenced blocks."""
    prose: list[tuple[int, str]] = []
    blocks: list[Block] = []
    inside = False
    indent = ""  # of a block within a list
    for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), 1):
        if line.lstrip().startswith("```"):
            inside = not inside
            indent = line[: len(line) - len(line.lstrip())]
            if inside:
                blocks.append(Block(line.strip().removeprefix("```"), number + 1, []))
        elif inside:
            blocks[-1].lines.append(line.removeprefix(indent))
        else:
            prose.append((number, line))
    return prose, blocks


@cache
def project_files() -> frozenset[str]:
    """The names of all files of the project, without folders and build outputs."""
    names: set[str] = set()
    for folder, folders, files in os.walk(PROJECT):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in ("build", "dist")]
        names.update(files)
        assert folder
    return frozenset(names)


def slug(heading: str) -> str:
    """Returns the anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def may_be_missing(path: str) -> bool:
    folder = path.split("/")[0]
    return folder == "build" or (folder in OPTIONAL and not (PROJECT / folder).exists())


@all_pages
def test_every_link_has_a_target(page: Path) -> None:
    prose, _ = split(page)
    broken = []
    for number, line in prose:
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if not file.exists():
                if not may_be_missing(os.path.relpath(file, PROJECT)):
                    broken.append(f"line {number}: {target}")
            elif anchor:
                headings = [text.lstrip("# ") for _, text in split(file)[0] if text.startswith("#")]
                if anchor not in map(slug, headings):
                    broken.append(f"line {number}: {target} (no such heading)")
    assert not broken


@all_pages
def test_every_path_exists(page: Path) -> None:
    prose, _ = split(page)
    missing = []
    for number, line in prose:
        for text in re.findall(r"`([^`]+)`", line):
            if not re.fullmatch(r"[\w.*-]+(/[\w.*-]+)*/?", text) or may_be_missing(text):
                continue
            if "/" in text and not any(PROJECT.glob(text.rstrip("/"))):
                missing.append(f"line {number}: {text}")
            if "/" not in text and text.endswith(SUFFIXES) and text not in SUFFIXES and text not in project_files():
                missing.append(f"line {number}: {text}")
    assert not missing


@all_pages
def test_quotes_are_in_the_sources(page: Path) -> None:
    wrong = []
    for block in split(page)[1]:
        if not block.quoted:
            continue
        file = PROJECT / block.quoted
        source = file.read_text(encoding="utf-8").split("\n") if file.exists() else []
        for chunk in block.chunks():
            wanted = textwrap.dedent("\n".join(chunk))
            starts = [n for n, line in enumerate(source) if line.strip() == chunk[0].strip()]
            if not any(textwrap.dedent("\n".join(source[n : n + len(chunk)])) == wanted for n in starts):
                wrong.append(f"line {block.line}: not in {block.quoted}:\n{wanted}")
    assert not wrong, "\n".join([f"{page.name} quotes code that is not there any more:", *wrong])


@all_pages
def test_every_example_runs(page: Path, run_python: RunPython) -> None:
    if MODULE.device_count() == 0:
        pytest.skip("the examples need a device")
    for ability in NEEDS.get(page.stem, ()):
        skip_without(ability)
    examples = [b for b in split(page)[1] if b.language == "python" and not b.quoted]
    if not examples:
        pytest.skip("no examples on this page")
    done = run_python("\n".join(["import torch", *("\n".join(block.lines) for block in examples)]))
    assert done.returncode == 0, done.stderr


def test_index_leads_to_every_page() -> None:
    index = PROJECT / "docs" / "index.md"
    if not index.exists():
        pytest.skip("this project has no docs")
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", index.read_text(encoding="utf-8")))
    assert linked == {page.name for page in PAGES[1:]} - {"index.md"}


def test_porting_tags_stand_only_where_a_port_edits() -> None:
    """A tag in any other file would lead to edits that conflict with updates of the template."""
    edited = ("csrc/device/", "csrc/aten/native/", "cmake/DeviceLibrary.cmake")
    replaced = ("csrc/aten/Attention.cpp", "csrc/aten/Convolution.cpp", "csrc/aten/Copy.cpp")
    sources = [path for folder in ("csrc", "python", "cmake") for path in (PROJECT / folder).rglob("*")]
    tagged = {
        path.relative_to(PROJECT).as_posix()
        for path in [*sources, PROJECT / "CMakeLists.txt"]
        if path.suffix in SUFFIXES and re.search(r"(?m)^\s*(?://|#) ?PORTING:", path.read_text(encoding="utf-8"))
    }
    assert tagged, "no tag was found"
    assert not [path for path in sorted(tagged) if not path.startswith((*edited, *replaced))]


def test_porting_page_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    docs = PROJECT / "docs"
    if not docs.exists():
        pytest.skip("this project has no docs")
    monkeypatch.syspath_prepend(str(docs))
    porting = importlib.import_module("porting")
    written = (docs / "porting.md").read_text(encoding="utf-8")
    assert written == porting.page(PROJECT), "run `python docs/porting.py`"
