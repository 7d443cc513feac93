"""The data of the checks, collected once."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch_backend.interpreter import Outcome, ask
from torch_backend.project import Project

from .requirements import Requirements, of_project, of_template


@dataclass(frozen=True)
class Context:
    """The data of the checks.

    Attributes:
        project: the project; None outside of a project.
        python: the interpreter that builds and runs the backend.
        requirements: the requirements of a build.
        facts: the facts about that interpreter from ``inside/environment.py``, by name.
        outcome: the result of the process that reported them.
        time_limit: of each started process, in seconds.
    """

    project: Project | None
    python: Path
    requirements: Requirements
    facts: dict[str, Any]
    outcome: Outcome = field(repr=False)
    time_limit: float

    @classmethod
    def gather(cls, project: Project | None, python: Path, time_limit: float) -> Context:
        """Collects the data with the interpreter.

        Raises:
            UserError: the interpreter cannot be started, or the project's files cannot be read.
        """
        requirements = of_project(project) if project else of_template()
        outcome = ask(python, "environment", *([project.package_name] if project else []), time_limit=time_limit)
        return cls(project, python, requirements, dict(outcome.items), outcome, time_limit)

    def command(self, *arguments: str) -> str:
        """Returns a call of the interpreter, as a shell takes it."""
        return shlex.join([str(self.python), *arguments])

    def which(self, *names: str) -> list[Path]:
        """Finds programs by name. As in a build, programs beside the interpreter precede those on the PATH."""
        path = os.pathsep.join([str(self.python.parent), os.environ.get("PATH", "")])
        found = [shutil.which(name, path=folder) for name in names for folder in path.split(os.pathsep) if folder]
        return list(dict.fromkeys(Path(program) for program in found if program))

    def output(self, *command: str) -> str | None:
        """Returns the output of a program; None if it fails or exceeds the time limit."""
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", check=False, timeout=self.time_limit
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout if done.returncode == 0 else None
