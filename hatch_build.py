"""Adds the template's versions to the wheel, so that an installed package updates projects without a network.

The versions are a git bundle of the checkout's history. git and copier read it like a repository. If a build cannot
determine its commit, it adds no bundle and prints the reason.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PARTS = ("copier.yml", "includes", "template", "CHANGELOG.md", "migrations.yml")
BUNDLE, ORIGIN = "versions.bundle", "origin.json"
INSIDE = {"wheel": "torch_backend/bundled/", "sdist": "versions/"}


class VersionsHook(BuildHookInterface[Any]):
    """Writes the bundle, and the file that names the commit of the packaged template."""

    scratch: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds both files to the package. An editable install uses the checkout instead."""
        if version == "editable":
            return
        root = Path(self.root)
        folder = root / "versions"  # in an unpacked sdist
        if not (folder / BUNDLE).is_file():
            self.scratch = tempfile.TemporaryDirectory(prefix="torch-backend-")
            folder = Path(self.scratch.name)
            if reason := write_versions(root, folder):
                self.app.display_warning(f"Projects made by this package cannot be updated by the next: {reason}.")
                return
        for name in (BUNDLE, ORIGIN):
            build_data["force_include"][str(folder / name)] = INSIDE[self.target_name] + name

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Removes the files that were made for the archive."""
        if self.scratch:
            self.scratch.cleanup()


def write_versions(root: Path, folder: Path) -> str:
    """Writes the bundle, and a file with its commit and address.

    Args:
        root: the checkout.
        folder: the folder of both files.

    Returns:
        The reason why they were not written; else empty.
    """
    if git(root, "rev-parse", "--show-prefix") != "":
        return f"{root} is not the top of a git checkout"
    if git(root, "rev-parse", "--is-shallow-repository") != "false":
        return "the checkout is shallow; `git fetch --unshallow --tags` completes it"
    commit = git(root, "rev-parse", "--verify", "HEAD^{commit}")
    if commit is None:
        return "the checkout has no commit"
    if git(root, "status", "--porcelain", "--", *PARTS) != "":
        return "the template has changes that are not committed"
    tags = (git(root, "tag", "--merged", "HEAD") or "").splitlines()
    pointing = (git(root, "tag", "--points-at", "HEAD", "--sort=version:refname") or "").splitlines()
    here = [tag for tag in pointing if re.match(r"v?\d", tag)]
    name = here[-1] if here else git(root, "describe", "--tags", "--always", "HEAD")
    bundle = folder / BUNDLE
    if git(root, "-c", "pack.threads=1", "bundle", "create", "--quiet", str(bundle), "HEAD", *tags) is None:
        return "git cannot write its history"
    origin = {"commit": commit, "version": name, "address": public_address(git(root, "remote", "get-url", "origin"))}
    (folder / ORIGIN).write_text(json.dumps(origin, indent=2) + "\n", encoding="utf-8")
    return ""


def public_address(remote: str | None) -> str | None:
    """Returns the address of a repository without user name and password; None if it is not a network address."""
    if remote is None:
        return None
    if match := re.fullmatch(r"(https?://)(?:[^/@]*@)?([^?#]+)", remote):
        return f"git+{match[1]}{match[2]}" if not match[2].endswith(".git") else f"{match[1]}{match[2]}"
    return remote if re.match(r"(ssh://|git://|[\w.-]+@[\w.-]+:)", remote) else None


def git(root: Path, *arguments: str) -> str | None:
    """Returns the output of a git command in a folder; None if it fails or git is missing."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False, env=environment
        )
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
