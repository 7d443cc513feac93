"""The committed render in examples/: written by `make examples`, checked by `make examples-check`."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from torch_backend.errors import UserError
from torch_backend.render import File, Tree, read_tree, render_tree, write_file
from torch_backend.source import Source

from .backport import Report, backport, remove_file
from .layout import GENERATED
from .trees import describe_difference, read_project


@dataclass
class Sync:
    """The files that were written and removed; paths are relative to the example."""

    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Example:
    """A rendered project kept in the repository: ``examples/<name>/``, with its answers in ``examples/<name>.yml``."""

    source: Source
    folder: Path

    @property
    def answers(self) -> dict[str, Any]:
        """The answers from which the example is rendered."""
        path = self.folder.with_suffix(".yml")
        try:
            loaded: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UserError(f"{path} is missing: it holds the answers that the example is rendered with.", 2) from None
        return loaded

    def check(self) -> str:
        """Returns the diff between the committed example and a fresh render; empty if they are equal."""
        rendered = render_tree(self.source, self.answers)
        return describe_difference(read_project(self.folder), rendered, "example", "template, rendered")

    def render(self, *, force: bool = False) -> Sync:
        """Renders the example in place, and writes only files whose content or run bit changes.

        Removes files that the template no longer renders. Other files, such as build outputs, stay.

        Args:
            force: overwrite edits of the example that were not carried back.

        Raises:
            UserError: such edits exist.
        """
        rendered = render_tree(self.source, self.answers)
        current = read_project(self.folder) if self.folder.exists() else {}
        ours = self._last_render()
        gone = [path for path in current if path not in rendered and path in ours]
        stale = [path for path, file in rendered.items() if path in current and current[path] != file]
        if not force:
            edited = [path for path in [*stale, *gone] if _digest(current[path]) not in ours.get(path, [])]
            if edited:
                listing = "\n".join(f"  {path}" for path in edited)
                raise UserError(
                    f"Edited in {self.folder}, and not in the template:\n{listing}\n"
                    "Carry the edits over with `make backport`, or drop them: `torch-backend render-example --force`."
                )
        sync = Sync()
        for path in gone:
            remove_file(self.folder, path)
            sync.removed.append(path)
        for path, file in rendered.items():
            if current.get(path) != file:
                write_file(self.folder / path, file)
                sync.written.append(path)
        self._remember(rendered)
        return sync

    def backport(self, *, dry_run: bool = False) -> Report:
        """Carries edits made in the example back into the template, see the module ``backport``."""
        tree = read_project(self.folder)
        report = backport(self.source, self.answers, tree, dry_run=dry_run)
        if not dry_run:
            for path in GENERATED & report.rendered.keys():
                if tree.get(path) != report.rendered[path]:
                    write_file(self.folder / path, report.rendered[path])
            self._remember(report.rendered)
        return report

    # Two states may be overwritten: the last render, whose digests are in a file in build/, and the committed files.

    @property
    def _memory(self) -> Path:
        return self.source.root / "build" / f"example-{self.folder.name}.json"

    def _remember(self, rendered: Tree) -> None:
        self._memory.parent.mkdir(exist_ok=True)
        digests = {path: _digest(file) for path, file in rendered.items()}
        self._memory.write_text(json.dumps(digests, indent=1), encoding="utf-8")

    def _last_render(self) -> Mapping[str, list[str]]:
        """Returns the digests of each file: of its last render and of its committed content."""
        known: dict[str, list[str]] = {}
        if self._memory.exists():
            for path, digest in json.loads(self._memory.read_text(encoding="utf-8")).items():
                known.setdefault(path, []).append(digest)
        for path, file in _committed(self.folder).items():
            known.setdefault(path, []).append(_digest(file))
        return known


def _digest(file: File) -> str:
    return hashlib.sha256(file.content).hexdigest()


def _committed(folder: Path) -> Tree:
    """Returns the folder's files in git's HEAD; nothing without a repository or a commit."""
    listing = subprocess.run(
        ["git", "-C", str(folder.parent), "ls-tree", "-r", "-z", "--name-only", "HEAD", f"{folder.name}/"],
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode != 0:
        return {}
    unchanged = subprocess.run(
        ["git", "-C", str(folder.parent), "diff", "-z", "--name-only", "--relative", "HEAD", "--", folder.name],
        capture_output=True,
        text=True,
        check=False,
    )
    edited = set(unchanged.stdout.split("\0"))
    names = [n for n in listing.stdout.split("\0") if n and n not in edited and (folder.parent / n).is_file()]
    return {name.removeprefix(f"{folder.name}/"): file for name, file in read_tree(folder.parent, names).items()}
