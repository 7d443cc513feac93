"""Replaces a project by the merged project, completely or not at all.

New files are first written to a staging folder in the project, so that a full disk changes nothing. Then files are only
renamed, which needs no disk space and can be undone.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from torch_backend.errors import UserError
from torch_backend.git import Git
from torch_backend.render import ANSWERS_FILE

from . import undo
from .interruption import point_of_no_return
from .merge import Merged


def transplant(merged: Merged, project: Path) -> None:
    """Writes the merged files to the project, and the conflicts to git's index.

    Raises:
        UserError: a file that git ignores would be overwritten; nothing has changed.
        OSError: a file cannot be written; nothing has changed.
    """
    for path, kind in merged.changes.items():
        if kind == "A" and os.path.lexists(project / path) and not (project / path).is_dir():
            raise UserError(
                f"{path} would be overwritten, and git ignores it: move it away first. Nothing was changed.", 2
            )
    conflicts = _prepare_index(merged, project)
    with tempfile.TemporaryDirectory(prefix=undo.STAGING, dir=project) as staging:
        new, old = Path(staging) / "new", Path(staging) / "old"
        for path, kind in merged.changes.items():
            if kind != "D":
                (new / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(merged.folder / path, new / path, follow_symlinks=False)
        old.mkdir()
        if ANSWERS_FILE in merged.changes:
            shutil.copy2(project / ANSWERS_FILE, old / ANSWERS_FILE)
        undo.record(project, merged.changes, new)
        point_of_no_return()
        done: list[tuple[Path, Path]] = []
        try:
            _swap(merged.changes, project, new, old, done)
            if conflicts:
                Git(project).run("update-index", "-z", "--index-info", given=conflicts)
        except BaseException:
            for source, target in reversed(done):
                source.parent.mkdir(parents=True, exist_ok=True)
                target.rename(source)
                undo.prune(target.parent, project)
            undo.forget(project)
            raise


def _swap(changes: dict[str, str], project: Path, new: Path, old: Path, done: list[tuple[Path, Path]]) -> None:
    """Moves old files out, then new files in. Appends each finished move to ``done``."""

    def move(source: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
        done.append((source, target))

    # The project has its answers file at all times: commands, and so `update --abort`, find the project by it.
    others = {path: kind for path, kind in changes.items() if path != ANSWERS_FILE}
    for path in others:
        if os.path.lexists(project / path) and not ((project / path).is_dir() and not (project / path).is_symlink()):
            move(project / path, old / path)
            undo.prune((project / path).parent, project)
    for path, kind in others.items():
        if kind != "D":
            move(new / path, project / path)
    if ANSWERS_FILE in changes:
        answers = project / ANSWERS_FILE
        done.append((answers, old / ANSWERS_FILE))
        move(new / ANSWERS_FILE, answers)


def _prepare_index(merged: Merged, project: Path) -> bytes:
    """Stores the files of the conflicts in the project's repository.

    Returns:
        The input for ``git update-index --index-info``.
    """
    git, scratch = Git(project), Git(merged.folder)
    prefix = git.text("rev-parse", "--show-prefix")
    lines = []
    for path, stages in merged.unmerged.items():
        lines.append(f"0 {'0' * 40}\t{prefix}{path}\0")
        for stage, entry in sorted(stages.items()):
            blob = scratch.run("cat-file", "blob", entry.sha)
            stored = git.run("hash-object", "-w", "--stdin", given=blob).decode().strip()
            lines.append(f"{entry.mode} {stored} {stage}\t{prefix}{path}\0")
    return os.fsencode("".join(lines))
