"""Calls of git. A failure raises a UserError. Hooks and the caller's git variables have no effect."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import UserError

# git sets these if it calls us, as in a hook. Our calls would then use the caller's repository.
_INHERITED = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_COMMON_DIR")

# The author of commits that only this command reads.
IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "torch-backend"), ("EMAIL", "torch-backend@localhost"))
}

_QUIET = (f"core.hooksPath={os.devnull}", "commit.gpgSign=false", "core.quotePath=false", "core.safecrlf=false")


@dataclass(frozen=True)
class Git:
    """git, run in a folder."""

    folder: Path

    def call(
        self, *arguments: str | Path, given: bytes | None = None, extra: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs git, and returns its exit code and output.

        Args:
            arguments: what follows ``git -C <folder>``.
            given: the standard input.
            extra: environment variables to set.

        Raises:
            UserError: git is not installed.
        """
        settings = [word for setting in _QUIET for word in ("-c", setting)]
        environment = {name: value for name, value in os.environ.items() if name not in _INHERITED}
        environment |= {"LC_ALL": "C", "GIT_LFS_SKIP_SMUDGE": "1"} | dict(extra or {})
        command = ["git", *settings, "-C", str(self.folder), *map(str, arguments)]
        try:
            return subprocess.run(command, input=given or b"", capture_output=True, env=environment, check=False)
        except FileNotFoundError as error:
            raise UserError("git is not installed, or not on the PATH: install it first.", 2) from error

    def run(self, *arguments: str | Path, given: bytes | None = None, extra: Mapping[str, str] | None = None) -> bytes:
        """Runs git and returns its output.

        Raises:
            UserError: git failed; the text is git's message.
        """
        done = self.call(*arguments, given=given, extra=extra)
        if done.returncode != 0:
            words = (done.stderr or done.stdout).decode(errors="replace").strip()
            raise UserError(f"git {arguments[0]} failed: {words or f'exit code {done.returncode}'}", 2)
        return done.stdout

    def text(self, *arguments: str | Path) -> str:
        """Returns the output of a command without the last line end. The command must succeed."""
        return os.fsdecode(self.run(*arguments)).rstrip("\n")

    def found(self, *arguments: str | Path) -> str | None:
        """Returns the output of a command, or None if the command fails."""
        done = self.call(*arguments)
        return os.fsdecode(done.stdout).rstrip("\n") if done.returncode == 0 else None

    def succeeds(self, *arguments: str | Path) -> bool:
        """Returns whether the command ends with exit code 0."""
        return self.call(*arguments).returncode == 0


def fields(output: bytes) -> list[str]:
    """Splits the output of a command with ``-z``."""
    return [os.fsdecode(part) for part in output.split(b"\0") if part]
