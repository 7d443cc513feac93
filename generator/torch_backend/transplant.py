"""Moves a merged project over the real one: all of it, or nothing.

New content is first written beside the project's files, where a full disk does no harm; then files only change their
names, which needs no space and can be undone.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from .errors import UserError
from .git import Git
from .merge import Merged

STAGING = ".torch-backend-"
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def interruptible() -> Iterator[None]:
    """Makes a request to end the process an exception, so that scratch folders are removed."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = {number: signal.signal(number, stop) for number in _SIGNALS}
    except ValueError:  # not the main thread, which alone gets signals
        yield
        return
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, signal.SIG_DFL if old is None else old)


def point_of_no_return() -> None:
    """Ignores requests to end the process until ``interruptible`` ends: half of the work would be worse."""
    with suppress(ValueError):
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def transplant(merged: Merged, project: Path) -> None:
    """Gives the project the merged files, and git the conflicts, as a merge that waits to be resolved.

    Raises:
        UserError: a file is in the way; nothing has changed.
        OSError: a file cannot be written; nothing has changed.
    """
    for path, kind in merged.changes.items():
        if kind == "A" and os.path.lexists(project / path) and not (project / path).is_dir():
            raise UserError(
                f"{path} would be overwritten, and git ignores it: move it away first. Nothing was changed.", 2
            )
    conflicts = _prepare_index(merged, project)
    with tempfile.TemporaryDirectory(prefix=STAGING, dir=project) as staging:
        new, old = Path(staging) / "new", Path(staging) / "old"
        for path, kind in merged.changes.items():
            if kind != "D":
                (new / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(merged.folder / path, new / path, follow_symlinks=False)
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
                _prune(target.parent, project)
            raise


def _swap(changes: dict[str, str], project: Path, new: Path, old: Path, done: list[tuple[Path, Path]]) -> None:
    """Moves old files out, then new ones in. ``done`` gets each move as soon as it is made."""

    def move(source: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
        done.append((source, target))

    for path in changes:
        if os.path.lexists(project / path) and not ((project / path).is_dir() and not (project / path).is_symlink()):
            move(project / path, old / path)
            _prune((project / path).parent, project)
    for path, kind in changes.items():
        if kind != "D":
            move(new / path, project / path)


def _prune(folder: Path, top: Path) -> None:
    """Removes folders that have become empty."""
    with suppress(OSError):
        while folder != top and top in folder.parents:
            folder.rmdir()
            folder = folder.parent


def _prepare_index(merged: Merged, project: Path) -> bytes:
    """Stores what the conflicts refer to in the project's repository.

    Returns:
        What ``git update-index --index-info`` is to be given.
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
