"""Runs the commands of "A vendor's first hour" in README.md, and writes down what they print.

    python -m tests.first_hour [--folder DIR] [--tests "tests/test_device.py"]

They are run as they stand there, line by line, in an environment of their own in which torch-backend is not installed.
Nothing is downloaded: what the first line installs must be in the environment that runs this script. The address of
the repository is that of a scratch repository with this work tree as v0.1.0, and, for the update, a v0.2.0.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from torch_backend.environment import Environment, create_environment
from torch_backend.maintenance.trees import project_files

from .running import IDENTITY, ROOT, git

FOLDER = ROOT / "build" / "first_hour"
TRANSCRIPT = "transcript.txt"
HEADING = "## A vendor's first hour"
ADDRESS = "<address of this repository>"
WHOLE_SUITE = "pytest tests"
SHOWN = (6, 14)  # of a command's lines, at the start and at the end
# What README.md takes for granted is there already, so pip has to look nowhere.
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
GIT = IDENTITY | {"GIT_PAGER": "cat"}

NEWS = "// v0.2.0 of the template was here.\n"
NEWS_IN = "csrc/runtime/Stream.cpp"
KEPT = {
    "csrc/aten/native/Gelu.cpp": "// Acme: tanh is one instruction of the chip\n",
    NEWS_IN: "// Acme: the chip has 32 queues for each priority\n",
}


class StepError(Exception):
    """A command failed, or did not do what README.md promises."""


def commands(readme: str) -> list[str]:
    """The lines of the section's shell blocks."""
    section = readme.split(f"{HEADING}\n", 1)[1].split("\n## ", 1)[0]
    return [line for block in re.findall(r"```sh\n(.*?)```", section, re.DOTALL) for line in block.splitlines()]


def shorten(lines: list[str]) -> list[str]:
    """The first and the last lines of what a command printed."""
    first, last = SHOWN
    left_out = len(lines) - first - last
    return lines if left_out < 2 else [*lines[:first], f"... {left_out} lines ...", *lines[-last:]]


@dataclass
class Hour:
    """The commands' environment, the folder that they are in, and the transcript."""

    folder: Path
    environment: Environment
    cwd: Path
    lines: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Prints a line, and adds it to the transcript."""
        print(text, flush=True)
        self.lines.append(text)

    def run(self, command: str) -> str:
        """Runs a line in bash, in the folder where the one before has left it.

        Raises:
            StepError: its exit code is not 0.
        """
        self.say(f"\n$ {command}")
        here = self.folder / "cwd"
        # The commands find no repository above the scratch folder, such as this one.
        ceiling = {"GIT_CEILING_DIRECTORIES": f"{self.folder}:{self.folder.parent}"}
        started = time.monotonic()
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", f'{command}\ncode=$?\npwd > "{here}"\nexit $code'],
            cwd=self.cwd,
            env=self.environment.variables(OFFLINE | GIT | ceiling),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        lines = done.stdout.splitlines()
        for line in shorten(lines) if done.returncode == 0 else lines[-80:]:
            self.say(line)
        self.say(f"[{time.monotonic() - started:.1f} s]")
        if done.returncode != 0:
            raise StepError(f"exit code {done.returncode}: {command}")
        self.cwd = Path(here.read_text(encoding="utf-8").strip())
        return done.stdout


class Repository:
    """The scratch repository that the commands clone; its first version is this work tree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in project_files(ROOT):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
        git(folder, "init", "--quiet", "--initial-branch=main")
        self._release("v0.1.0")

    def release_news(self) -> None:
        """Makes the version that the project is updated to."""
        template = self.folder / "template" / f"{NEWS_IN}.jinja"
        template.write_text(NEWS + template.read_text(encoding="utf-8"), encoding="utf-8")
        changelog = self.folder / "CHANGELOG.md"
        text = changelog.read_text(encoding="utf-8")
        changelog.write_text(f"{text}\n## 0.2.0\n\n- A first line in Stream.cpp.\n", encoding="utf-8")
        self._release("v0.2.0")

    def _release(self, tag: str) -> None:
        git(self.folder, "add", "--all", "--force")
        git(self.folder, "commit", "--quiet", "--message", tag)
        git(self.folder, "tag", tag)


def fresh_environment(folder: Path) -> Environment:
    """An environment without torch-backend, that has the commands which a virtual environment has."""
    environment = create_environment(folder, without=("torch-backend",))
    for name in ("pip", "pytest"):
        script = environment.python.parent / name
        script.write_text(f'#!/bin/sh\nexec "{environment.python}" -m {name} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    return environment


def require(condition: bool, what: str) -> None:
    """Raises StepError unless the condition holds."""
    if not condition:
        raise StepError(what)


def check(command: str, printed: str, hour: Hour) -> None:
    """Looks whether a command did what README.md says it does, beyond its exit code."""
    if command.startswith("torch-backend coverage"):
        listed = {line.split()[0] for line in printed.splitlines() if line.endswith("  host body")}
        for name in ("gelu", "gelu_", "gelu.out", "gelu_backward", "gelu_backward.grad_input"):
            require(f"aten::{name}" in listed, f"aten::{name} is not listed as a host body")
    if command.startswith("torch-backend update"):
        require("From v0.1.0 to v0.2.0" in printed, "the update is not from v0.1.0 to v0.2.0")
        require("- A first line in Stream.cpp." in printed, "the changelog of v0.2.0 is not shown")
        for name, line in KEPT.items():
            require((hour.cwd / name).read_text(encoding="utf-8").endswith(line), f"the edit in {name} is lost")
        require((hour.cwd / NEWS_IN).read_text(encoding="utf-8").startswith(NEWS), f"no news in {NEWS_IN}")


@contextmanager
def recorded(hour: Hour) -> Iterator[None]:
    """Writes the transcript, however the hour ends."""
    started = time.monotonic()
    try:
        yield
        hour.say(f"\nEvery command did what README.md says, in {time.monotonic() - started:.0f} s.")
    except StepError as error:
        hour.say(f"\nFailed: {error}")
        raise
    finally:
        (hour.folder / TRANSCRIPT).write_text("\n".join(hour.lines) + "\n", encoding="utf-8")


def first_hour(folder: Path, tests: str | None = None) -> None:
    """Runs the commands.

    Args:
        folder: scratch folder; what an earlier run left there is replaced.
        tests: what `pytest` is given in place of the whole suite of the project.

    Raises:
        StepError: a step failed; the transcript says which.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    repository = Repository(folder / "template.git")
    hour = Hour(folder, fresh_environment(folder / "venv"), folder)
    with recorded(hour):
        for command in commands((ROOT / "README.md").read_text(encoding="utf-8")):
            if command.startswith("git -C ../torch-backend pull"):
                repository.release_news()
            runnable = command.replace(ADDRESS, str(repository.folder))
            if command == WHOLE_SUITE and tests:
                runnable = f"pytest {tests}"
            check(command, hour.run(runnable), hour)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description='Run the commands of "A vendor\'s first hour" in README.md.')
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"scratch folder; default {FOLDER}")
    parser.add_argument("--tests", help="what to run in place of the project's whole suite, as pytest takes it")
    arguments = parser.parse_args()
    try:
        first_hour(arguments.folder.absolute(), arguments.tests)
    except StepError as error:
        sys.exit(f"{error}; see {arguments.folder / TRANSCRIPT}")
    print(f"Transcript: {arguments.folder / TRANSCRIPT}")


if __name__ == "__main__":
    main()
