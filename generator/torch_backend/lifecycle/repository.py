"""The template's git repository: its versions, and its files in each version."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from packaging.version import InvalidVersion, Version

from torch_backend.errors import UserError
from torch_backend.git import Git
from torch_backend.project import Project
from torch_backend.source import PACKAGED, Versions, find_source

_SHORT = {"gh:": "https://github.com/", "gl:": "https://gitlab.com/"}


def parse_version(text: str) -> Version | None:
    """Parses a tag or a heading such as ``v1.2.0``; None if it is not a version."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


@dataclass(frozen=True)
class Revision:
    """A commit of the template. ``name`` is its tag, or without a tag git's description."""

    commit: str
    name: str


@dataclass(frozen=True)
class Repository:
    """A bare clone of the template, made for one command.

    Attributes:
        address: the address that it was cloned from and that projects record.
        folder: the clone.
        packaged: whether the installed torch-backend contains it.
    """

    address: str
    folder: Path
    packaged: bool = False

    @property
    def git(self) -> Git:
        """Git, run in the clone."""
        return Git(self.folder)

    def tags(self, *options: str) -> dict[Version, str]:
        """Returns the tags that are versions, oldest first. ``options`` are options of ``git tag --list``."""
        found = {
            version: tag for tag in self.git.text("tag", "--list", *options).split() if (version := parse_version(tag))
        }
        return dict(sorted(found.items()))

    def latest(self, current: Revision) -> Revision:
        """Returns the default target of an update.

        It is the version that an installed torch-backend renders. In a repository it is the newest tag that is a
        version and not a pre-release, or without such a tag the newest commit of the branch with the project's commit.

        Args:
            current: the revision that the project was made from.

        Raises:
            UserError: several branches contain the project's commit, or none does.
        """
        if self.packaged:
            return self.revision("HEAD")
        final = [tag for version, tag in self.tags().items() if not version.is_prerelease]
        return self.revision(final[-1] if final else self._branch(current))

    def _branch(self, current: Revision) -> str:
        """Returns the branch that contains a revision: the default branch if it does, else the only other one.

        Raises:
            UserError: several branches contain it, or none does.
        """
        listed = self.git.text("for-each-ref", "--contains", current.commit, "--format=%(refname:short)", "refs/heads")
        holding = listed.split()
        default = self.git.found("symbolic-ref", "--quiet", "--short", "HEAD")
        if default in holding or len(holding) == 1:
            return default if default and default in holding else holding[0]
        if default is None and self.git.succeeds("merge-base", "--is-ancestor", current.commit, "HEAD"):
            return "HEAD"  # the repository has a commit checked out, not a branch
        some = f"several of its branches hold {current.name} ({', '.join(holding)})"
        none = f"none of its branches holds {current.name}"
        raise UserError(
            f"The template at {self.address} has no tag that is a version, and {some if holding else none}: "
            "name the branch or the commit to update to with --ref.",
            2,
        )

    def revision(self, ref: str) -> Revision:
        """Looks up a tag, a branch or a commit.

        Raises:
            UserError: the name does not exist.
        """
        commit = self._commit(ref)
        if not commit:
            known = ", ".join(list(self.tags().values())[-5:])
            raise UserError(
                f"The template at {self.address} has no version {ref}"
                + (f"; the newest are {known}." if known else "; it has no tag that is a version."),
                2,
            )
        tagged = [ref] if ref in self.tags().values() else list(self.tags("--points-at", commit).values())
        return Revision(commit, tagged[-1] if tagged else self.git.text("describe", "--tags", "--always", commit))

    def _commit(self, ref: str) -> str | None:
        """Returns the commit of a tag, a branch, a commit, or a version that ends in one, as 0.0.0.post47+b2758cc."""
        if ref.startswith("-"):
            return None
        if commit := self.git.found("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}"):
            return commit
        version = parse_version(ref)
        parts = (version.local or "").split(".") if version else []
        hashes = [part.removeprefix("g") for part in parts if re.fullmatch(r"g?[0-9a-f]{7,40}", part)]
        return self.git.found("rev-parse", "--verify", "--quiet", f"{hashes[0]}^{{commit}}") if hashes else None

    def contains(self, later: Revision, earlier: Revision) -> bool:
        """Returns whether ``earlier`` is ``later`` or an ancestor of it."""
        return self.git.succeeds("merge-base", "--is-ancestor", earlier.commit, later.commit)

    def between(self, old: Revision, new: Revision) -> dict[Version, str]:
        """Returns the versions in the history of ``new`` but not of ``old``, oldest first."""
        return self.tags("--merged", new.commit, "--no-merged", old.commit)

    def read(self, revision: Revision, path: str) -> str | None:
        """Returns the text of a file in a revision; None if it has no such file."""
        return self.git.found("show", f"{revision.commit}:{path}")

    def config(self, revision: Revision) -> dict[str, Any]:
        """Returns the content of copier.yml in a revision."""
        loaded = yaml.safe_load(self.read(revision, "copier.yml") or "{}")
        return loaded if isinstance(loaded, dict) else {}


def expand(address: str, project: Path) -> str:
    """Turns an address as copier records it into one that git understands.

    Args:
        address: a git address, a path, or copier's short form of either.
        project: the folder for relative paths; then its parent and the current folder are tried.
    """
    for short, long in _SHORT.items():
        if address.startswith(short):
            return f"{long}{address.removeprefix(short).strip('/').removesuffix('.git')}.git"
    address = address.removeprefix("git+")
    if re.match(r"[\w+.-]+://|[\w.-]+@[\w.-]+:", address):
        return address
    path = Path(address).expanduser()
    places = [path] if path.is_absolute() else [project / path, project.parent / path, Path.cwd() / path]
    return str(next((place.resolve() for place in places if place.exists()), path))


@dataclass(frozen=True)
class _Place:
    """A possible location of a project's template.

    Attributes:
        address: the address that the project records.
        location: the location that git clones.
        packaged: whether the installed torch-backend contains it.
        advice: what to do if it is missing or too old.
    """

    address: str
    location: str
    packaged: bool
    advice: str


def _places(project: Project, address: str | None) -> list[_Place]:
    """Returns the locations to try, in order. The installed torch-backend comes first, because it needs no network.

    Raises:
        UserError: the project does not record its template.
    """
    recorded = address or project.template_address
    if not recorded or not project.template_version:
        raise UserError(
            "The project does not record the version of its template, because it was rendered from a folder and not "
            "from a clean git repository. It cannot be updated: render it again from a git address, and carry your "
            "edits over.",
            2,
        )
    moved = "If it has moved, name its address with --template."
    elsewhere = _Place(recorded, expand(recorded, project.root), False, moved)
    source = find_source()
    versions = source.versions
    by_package = Versions.is_packaged(recorded)
    if address or not (by_package or (versions and recorded == versions.home)):
        return [elsewhere]
    newer = "Install a newer torch-backend, or name the address of the template's git repository with --template."
    if versions is not None:
        own = _Place(versions.address, str(versions.bundle), True, newer)
        return [own] if by_package else [own, elsewhere]
    if source.is_checkout and source.git("rev-parse", "HEAD") is not None:
        return [_Place(PACKAGED, str(source.root), False, newer)]
    raise UserError(
        "The project was made by an installed torch-backend, and this one contains no versions of the template: it was "
        f"not built from a whole git checkout. {newer}",
        2,
    )


@contextmanager
def open_repository(project: Project, address: str | None = None) -> Iterator[tuple[Repository, Revision]]:
    """Clones the template of a project into a temporary folder.

    Args:
        project: the rendered project.
        address: the template's present address, if it has moved.

    Yields:
        The clone, and the revision that the project was made from.

    Raises:
        UserError: the project does not record its template, or the template does not exist.
    """
    *first, last = _places(project, address)
    with tempfile.TemporaryDirectory(prefix="torch-backend-") as scratch:
        for place in first:
            with suppress(UserError):
                found = _clone(place, Path(scratch) / "packaged.git", str(project.template_version))
                break
        else:
            found = _clone(last, Path(scratch) / "template.git", str(project.template_version))
        yield found


def _clone(place: _Place, folder: Path, version: str) -> tuple[Repository, Revision]:
    """Clones the template, and looks up a version.

    Raises:
        UserError: the template or the version does not exist.
    """
    done = Git(folder.parent).call("clone", "--quiet", "--bare", "--", place.location, folder)
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        reason = lines[-1] if lines else "no reason given"
        raise UserError(
            f"The template at {place.address} cannot be read as a git repository ({reason}). {place.advice}", 2
        )
    repository = Repository(place.address, folder, place.packaged)
    try:
        return repository, Revision(repository.revision(version).commit, version)
    except UserError as error:
        raise UserError(
            f"The template at {place.address} has no version {version}, the project's version. {place.advice}",
            2,
        ) from error
