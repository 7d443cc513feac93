"""Calls of git that end in a sentence when they fail, and do not depend on hooks or on who calls."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import UserError

# Set where git itself has called us, as in a hook; they would point our calls at the caller's repository.
_INHERITED = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_COMMON_DIR")

_QUIET = (f"core.hooksPath={os.devnull}", "commit.gpgSign=false", "core.quotePath=false", "core.safecrlf=false")


@dataclass(frozen=True)
class Git:
    """git, run in a folder."""

    folder: Path

    def call(
        self, *arguments: str | Path, given: bytes | None = None, extra: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs git whatever its exit code is.

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
            UserError: it failed; the text is git's.
        """
        done = self.call(*arguments, given=given, extra=extra)
        if done.returncode != 0:
            words = (done.stderr or done.stdout).decode(errors="replace").strip()
            raise UserError(f"git {arguments[0]} failed: {words or f'exit code {done.returncode}'}", 2)
        return done.stdout

    def text(self, *arguments: str | Path) -> str:
        """The output of a command that must succeed, without the last line end."""
        return os.fsdecode(self.run(*arguments)).rstrip("\n")

    def found(self, *arguments: str | Path) -> str | None:
        """The output of a command, None if it fails."""
        done = self.call(*arguments)
        return os.fsdecode(done.stdout).rstrip("\n") if done.returncode == 0 else None

    def succeeds(self, *arguments: str | Path) -> bool:
        """True if the command ends with exit code 0."""
        return self.call(*arguments).returncode == 0


def fields(output: bytes) -> list[str]:
    """Splits what a command printed with ``-z``."""
    return [os.fsdecode(part) for part in output.split(b"\0") if part]
