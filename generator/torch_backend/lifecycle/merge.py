"""Merges a new render of the template with a project's edits, in a scratch repository.

The old render, the project and the new render become three trees of git, and git merges them. git follows renamed
files, keeps binary files, and reports a conflict if the vendor edited a file that the template removed. `copier update`
applies patches instead, and silently drops the vendor's edits in these cases.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch_backend.errors import UserError
from torch_backend.git import IDENTITY, Git, fields
from torch_backend.render import ANSWERS_FILE

from .ownership import Entries, Entry, Replaced, Rewrite, merged_for_vendor, rewritten

_REASONS = {
    (1, 2, 3): "edited on both sides",
    (2, 3): "added on both sides",
    (1, 2): "edited by you, removed from the template",
}


@dataclass(frozen=True)
class Merged:
    """The result of a merge.

    Attributes:
        folder: a separate work tree with the merged project.
        base: the tree of the project before the merge.
        changes: path to A (added), D (deleted), M or T (changed), compared with ``base``.
        diff: the changes as text.
        unmerged: path to stage (1 old template, 2 the project, 3 new template) to file, for each conflict.
        replaced: path to the replaced words, in lines that the vendor has written.
        kept: path to the diff of the template's changes that gave way to the vendor's text; empty if the template no
            longer has the file.
    """

    folder: Path
    base: str
    changes: dict[str, str]
    diff: str = field(repr=False)
    unmerged: dict[str, dict[int, Entry]] = field(default_factory=dict)
    replaced: dict[str, Replaced] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)

    @property
    def conflicts(self) -> dict[str, str]:
        """The paths with a conflict, and the kind of each conflict."""
        return {path: _REASONS.get(tuple(sorted(stages)), "renamed") for path, stages in self.unmerged.items()}

    def without(self, paths: Iterable[str]) -> Merged:
        """Returns the merge without these files and their conflicts."""
        gone = set(paths)
        for path in gone:
            (self.folder / path).unlink()
        kept = {path: stages for path, stages in self.unmerged.items() if path not in gone}
        result = compare(self.folder, self.base, kept)
        return replace(result, replaced=self.replaced, kept=self.kept)


class Scratch:
    """A repository that reads the project's objects and writes only its own."""

    def __init__(self, folder: Path, project: Path) -> None:
        folder.mkdir()
        self.git = Git(folder)
        self._indexes = 0
        there = Git(project)
        self.git.run(
            "init", "--quiet", "--template=", f"--object-format={there.text('rev-parse', '--show-object-format')}"
        )
        objects = project / there.text("rev-parse", "--git-path", "objects")
        (folder / ".git" / "objects" / "info").mkdir(parents=True, exist_ok=True)
        (folder / ".git" / "objects" / "info" / "alternates").write_text(f"{objects.resolve()}\n", encoding="utf-8")
        prefix = there.text("rev-parse", "--show-prefix").rstrip("/")
        self.project_tree = there.text("rev-parse", f"HEAD:{prefix}")

    def index(self) -> dict[str, str]:
        """Returns the environment for a command with a new index."""
        self._indexes += 1
        return {"GIT_INDEX_FILE": str(self.git.folder / ".git" / f"index-{self._indexes}")}

    def entries(self, tree: str) -> Entries:
        """Returns the files of a tree by path."""
        found = {}
        for line in fields(self.git.run("ls-tree", "-r", "-z", "--full-tree", tree)):
            about, path = line.split("\t", 1)
            mode, _, sha = about.split(" ")
            found[path] = Entry(mode, sha)
        return found

    def store(self, folder: Path) -> Entries:
        """Stores the files of a folder as objects."""
        extra = self.index()
        self.git.run(f"--work-tree={folder}", "add", "--all", "--force", ".", extra=extra)
        return self.entries(self.git.run("write-tree", extra=extra).decode().strip())

    def commit(self, entries: Entries, *parents: str) -> str:
        """Writes a commit with these files."""
        extra = self.index()
        lines = "".join(f"{entry.mode} {entry.sha}\t{path}\0" for path, entry in entries.items())
        self.git.run("update-index", "-z", "--index-info", given=os.fsencode(lines), extra=extra)
        tree = self.git.run("write-tree", extra=extra).decode().strip()
        links = [word for parent in parents for word in ("-p", parent)]
        return self.git.run("commit-tree", tree, *links, "-m", "torch-backend", extra=IDENTITY).decode().strip()

    def matching(self, entries: Iterable[str], patterns: Iterable[str]) -> set[str]:
        """Returns the paths that match patterns in the syntax of .gitignore."""
        excludes = [f"--exclude={pattern}" for pattern in patterns]
        if not excludes:
            return set()
        extra = self.index()
        empty = self.git.run("hash-object", "-w", "--stdin").decode().strip()
        lines = "".join(f"100644 {empty}\t{path}\0" for path in entries)
        self.git.run("update-index", "-z", "--index-info", given=os.fsencode(lines), extra=extra)
        return set(fields(self.git.run("ls-files", "-z", "--cached", "--ignored", *excludes, extra=extra)))


def merge(
    scratch: Scratch,
    old: Path,
    new: Path,
    label: str,
    *,
    seeds: Iterable[str] = (),
    moved: Callable[[str], str] = lambda path: path,
    rewrite: Rewrite | None = None,
    written: Iterable[str] = (),
    omitted: Iterable[str] = (),
    follow_renames: bool = True,
) -> Merged:
    """Merges the differences between two renders into the project.

    Args:
        scratch: the repository to work in.
        old: the render of the template that the project was made from.
        new: the render of the target version.
        label: the name of the new render in conflict markers.
        seeds: patterns of seed files: an existing one belongs to the project.
        moved: returns the new path of a file that the template has moved.
        rewrite: replaces renamed words in a text.
        written: patterns of files that a vendor writes: where both sides changed a line, the project's text stays.
        omitted: files that the project does not get if they are new.
        follow_renames: let git find further renamed files, and carry edits over into them.

    Raises:
        UserError: git cannot merge.
    """
    git = scratch.git
    base, theirs = scratch.store(old), scratch.store(new)
    ours = scratch.entries(scratch.project_tree)
    base, ours = _move(base, moved), _move(ours, moved)
    seeded = scratch.matching(base.keys() | theirs.keys(), seeds)
    replaced: dict[str, Replaced] = {}
    if rewrite:
        (base, of_template), (ours, replaced) = rewritten(git, base, rewrite), rewritten(git, ours, rewrite)
        for path in (replaced.keys() & of_template.keys()) - seeded:
            replaced[path] = replaced[path] - of_template[path]  # the new render contains the rest
    for path in seeded:
        # New seeds are added. Existing ones do not change, and a seed that the vendor deleted stays deleted.
        if kept := base.get(path) or ours.get(path):
            theirs[path] = base[path] = kept
    for path in omitted:
        if path not in base:
            theirs.pop(path, None)
    answers = theirs[ANSWERS_FILE]
    base[ANSWERS_FILE] = theirs[ANSWERS_FILE] = ours[ANSWERS_FILE]

    root = scratch.commit(base)
    head, other = scratch.commit(ours, root), scratch.commit(theirs, root)
    name = re.sub(r"[^\w.-]+", "-", f"template-{label}").strip("-.")
    git.run("branch", name, other)
    git.run("checkout", "--quiet", "--detach", head)
    settings = ["-c", "merge.directoryRenames=false", "-c", "rerere.enabled=false", "-c", "merge.renames=true"]
    settings += ["-c", "merge.verifySignatures=false"]
    strategy = [] if follow_renames else ["-X", "no-renames"]
    done = git.call(*settings, "merge", "--no-commit", "--no-ff", "--quiet", *strategy, name, extra=IDENTITY)
    if done.returncode != 0 and not git.succeeds("rev-parse", "--quiet", "--verify", "MERGE_HEAD"):
        raise UserError(f"git cannot merge the new version: {(done.stderr + done.stdout).decode(errors='replace')}", 2)

    unmerged = _unmerged(git)
    stays = _keep_for_vendor(git, unmerged, scratch.matching(unmerged, written))
    for path in [path for path, stages in unmerged.items() if 2 not in stages and 1 in stages]:
        # A file that the vendor deleted stays deleted, although the template changed it.
        git.run("rm", "--quiet", "--force", "--", path)
        del unmerged[path]
    (git.folder / ANSWERS_FILE).write_bytes(git.run("cat-file", "blob", answers.sha))
    result = compare(git.folder, scratch.project_tree, unmerged)
    return replace(result, replaced={path: what for path, what in replaced.items() if what}, kept=stays)


def _keep_for_vendor(git: Git, unmerged: dict[str, dict[int, Entry]], paths: Iterable[str]) -> dict[str, str]:
    """Resolves conflicts in files that a vendor has written. See ``Merged.kept``."""
    kept = {}
    for path in sorted(paths):
        stages = unmerged[path]
        if stages.keys() == {1, 2, 3}:
            content, kept[path] = merged_for_vendor(git, stages)
            (git.folder / path).write_bytes(content)
            del unmerged[path]
        elif stages.keys() == {1, 2}:
            kept[path] = ""
            del unmerged[path]
    return kept


def compare(folder: Path, base: str, unmerged: dict[str, dict[int, Entry]]) -> Merged:
    """Compares the scratch repository's work tree with the project's tree."""
    git = Git(folder)
    extra = {"GIT_INDEX_FILE": str(folder / ".git" / "index-result")}
    git.run("read-tree", base, extra=extra)  # contains submodules, which are not checked out
    git.run("add", "--all", "--force", ".", extra=extra)
    tree = git.run("write-tree", extra=extra).decode().strip()
    listed = fields(git.run("diff-tree", "-r", "-z", "--no-renames", "--name-status", base, tree))
    changes = dict(zip(listed[1::2], listed[::2], strict=True))
    diff = git.run("diff-tree", "-r", "-p", "--no-renames", "--no-color", base, tree)
    return Merged(folder, base, changes, diff.decode("utf-8", errors="replace"), unmerged)


def _move(entries: Entries, moved: Callable[[str], str]) -> Entries:
    """Renames files, but never to a path that exists."""
    result = {path: entry for path, entry in entries.items() if moved(path) == path}
    for path, entry in entries.items():
        target = moved(path)
        result[target if target not in result else path] = entry
    return result


def _unmerged(git: Git) -> dict[str, dict[int, Entry]]:
    """Returns the conflicts in the index."""
    found: dict[str, dict[int, Entry]] = {}
    for line in fields(git.run("ls-files", "-z", "--unmerged")):
        about, path = line.split("\t", 1)
        mode, sha, stage = about.split(" ")
        found.setdefault(path, {})[int(stage)] = Entry(mode, sha)
    return found
