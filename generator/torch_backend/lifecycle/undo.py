"""Takes an update of a project back, in the project's folder alone.

Before an update changes a file, it records its changes in the git folder. Every changed file was committed, so git has
the text that `update --abort` returns to. A process that is killed half way leaves the record too.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from torch_backend.errors import UserError
from torch_backend.git import IDENTITY, Git

STAGING = ".torch-backend-"
KEPT = "refs/torch-backend/aborted"
_ADDED = "A"


@dataclass(frozen=True)
class Aborted:
    """What was taken back.

    Attributes:
        restored: files with their text from before the update.
        removed: files that the update had added.
        edited: files of both kinds that had been edited after the update.
        kept: the name of the commit that holds the edited files; empty if there are none.
    """

    restored: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)
    kept: str = ""


def record(project: Path, changes: Mapping[str, str], written: Path) -> None:
    """Writes down what is about to change.

    Args:
        project: the project.
        changes: path to A (added), D (deleted), M or T (changed).
        written: the folder with the new files.
    """
    git = Git(project)
    prints = {path: _fingerprint(written / path) for path, kind in changes.items() if kind != "D"}
    content = {"head": git.text("rev-parse", "HEAD"), "changes": dict(changes), "written": prints}
    place = _place(project)
    place.parent.mkdir(parents=True, exist_ok=True)
    # A record that is cut off would make an abort impossible.
    scratch = place.with_suffix(".new")
    scratch.write_text(json.dumps(content), encoding="utf-8")
    scratch.replace(place)


def forget(project: Path) -> None:
    """Removes the record."""
    _place(project).unlink(missing_ok=True)


def staging_folders(project: Path) -> list[Path]:
    """Returns the folders that killed updates have left in the project."""
    return sorted(path for path in project.glob(f"{STAGING}*") if path.is_dir())


def abort(project: Path) -> Aborted:
    """Returns the files that the last update has changed to the commit before it. Other files stay as they are.

    Files that were edited after the update are first stored in a commit of their own.

    Raises:
        UserError: there is nothing to abort, or the update is committed; the project is unchanged.
    """
    git = Git(project)
    place = _place(project)
    left = staging_folders(project)
    if not place.exists():
        if not left:
            raise UserError("No update of this project is under way: there is nothing to abort.", 2)
        # Killed before it changed a file: only its scratch folder is there.
        for folder in left:
            shutil.rmtree(folder)
        return Aborted()
    content = json.loads(place.read_text(encoding="utf-8"))
    head = git.text("rev-parse", "HEAD")
    if head != content["head"]:
        forget(project)
        raise UserError(
            f"You have committed since the update, so git takes it back: `git log {content['head'][:12]}..` shows the "
            "commits, and `git revert` undoes one. The project is unchanged.",
            2,
        )
    changes: dict[str, str] = content["changes"]
    before = [path for path, kind in changes.items() if kind != _ADDED]
    added = [path for path, kind in changes.items() if kind == _ADDED]
    edited = [path for path in changes if _edited(project, path, content["written"].get(path))]
    kept = _keep(git, project, edited) if edited else ""
    git.run("reset", "--quiet", "--pathspec-from-file=-", "--pathspec-file-nul", "HEAD", given=_listed(changes))
    for path in added:
        (project / path).unlink(missing_ok=True)
        prune((project / path).parent, project)
    if before:
        git.run("checkout", "HEAD", "--pathspec-from-file=-", "--pathspec-file-nul", given=_listed(before))
    for folder in left:
        shutil.rmtree(folder)
    forget(project)
    return Aborted(before, added, edited, kept)


def _place(project: Path) -> Path:
    """Returns the record's file: in the git folder, one for each project of a repository."""
    git = Git(project)
    prefix = git.text("rev-parse", "--show-prefix").strip("/").replace("/", "--") or "project"
    return project / git.text("rev-parse", "--git-path", f"torch-backend/{prefix}.json")


def _edited(project: Path, path: str, written: str | None) -> bool:
    """Returns whether a file is neither what the update has written nor what was there before."""
    place = project / path
    if not os.path.lexists(place) or place.is_dir():
        return False  # not written yet, or deleted since: git has the old text
    now = _fingerprint(place)
    if now == written:
        return False
    git = Git(project)
    # A killed update may not have reached the file.
    committed = git.succeeds("cat-file", "-e", f"HEAD:./{path}")
    return not (committed and git.succeeds("diff", "--quiet", "HEAD", "--", f":(literal){path}"))


def _keep(git: Git, project: Path, paths: Iterable[str]) -> str:
    """Stores the present text of files in a commit beside the branch, and returns its name."""
    index = {"GIT_INDEX_FILE": str(_place(project).with_suffix(".index"))}
    git.run("read-tree", "HEAD", extra=index)
    listed = _listed(paths)
    git.run("add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul", given=listed, extra=index)
    tree = git.run("write-tree", extra=index).decode().strip()
    Path(index["GIT_INDEX_FILE"]).unlink()
    text = "Edits after an update that was aborted"
    commit = git.run("commit-tree", tree, "-p", "HEAD", "-m", text, extra=IDENTITY).decode().strip()
    git.run("update-ref", "--create-reflog", KEPT, commit, extra=IDENTITY)
    return commit[:12]


def _fingerprint(path: Path) -> str:
    content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
    return hashlib.sha256(content).hexdigest()


def _listed(paths: Iterable[str]) -> bytes:
    return b"".join(b":(literal)" + os.fsencode(path) + b"\0" for path in paths)


def prune(folder: Path, top: Path) -> None:
    """Removes empty folders."""
    with suppress(OSError):
        while folder != top and top in folder.parents:
            folder.rmdir()
            folder = folder.parent
