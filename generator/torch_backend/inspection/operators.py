"""How each operator of the installed torch runs on a project's device."""

from __future__ import annotations

import difflib
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from torch_backend.errors import UserError
from torch_backend.interpreter import Outcome, ask
from torch_backend.project import Project
from torch_backend.source import template_module

STATES = "python/{{ package_name }}/{{ device_name }}/_states.py"


def states() -> dict[str, str]:
    """Returns the states of the template with their meanings; a port moves operators towards the first state."""
    found: dict[str, str] = template_module(STATES).STATES
    return found


@dataclass(frozen=True)
class Operator:
    """How an overload runs: one of ``states()``, and the reason."""

    state: str
    reason: str


@dataclass(frozen=True)
class Coverage:
    """Every overload by its full name, such as ``aten::add.Tensor``; the version of torch; the source of the data."""

    torch: str
    source: str
    operators: dict[str, Operator]

    def select(self, pattern: str | None = None, only: Iterable[str] = ()) -> dict[str, Operator]:
        """Returns the matching overloads.

        Args:
            pattern: a name (``add``: all its overloads), an overload (``add.Tensor``), or either with the wildcards
                ``*`` and ``?``; with or without ``aten::``.
            only: states; empty for all.
        """
        wanted = set(only)
        return {
            name: operator
            for name, operator in self.operators.items()
            if (not wanted or operator.state in wanted) and (pattern is None or fits(name, pattern))
        }

    def similar(self, pattern: str) -> list[str]:
        """Returns the names of operators with a similar spelling."""
        names = sorted({_short(name).split(".")[0] for name in self.operators})
        return difflib.get_close_matches(_short(pattern).split(".")[0], names)


def count(operators: Mapping[str, Operator]) -> dict[str, int]:
    """Counts the states, in the order of ``states()``."""
    counted = Counter(operator.state for operator in operators.values())
    return {state: counted[state] for state in states()}


def fits(name: str, pattern: str) -> bool:
    """Returns whether a pattern matches an overload's full name."""
    short, pattern = _short(name), _short(pattern)
    return fnmatchcase(short, pattern) or fnmatchcase(short.split(".")[0], pattern)


def _short(name: str) -> str:
    return name.removeprefix("aten::")


def coverage(project: Project, python: Path, time_limit: float) -> Coverage:
    """Loads the backend in a separate process and reads its coverage.

    Args:
        project: the project.
        python: the interpreter that the project's package is installed for.
        time_limit: in seconds.

    Raises:
        UserError: the package is not installed (exit code 2), does not load, or has no coverage.
    """
    outcome = ask(python, "operators", project.package_name, project.device_name, time_limit=time_limit)
    if outcome.failure:
        raise _explain(project, python, outcome)
    (_, torch, source), *rows = outcome.items
    if not source:
        raise UserError(
            f"{project.package_name} in {python} does not say how operators run: torch.{project.device_name}.operators "
            "has no coverage(). Update the project (torch-backend update) and build it again."
        )
    return Coverage(torch, source, {name: Operator(state, reason) for name, state, reason in rows})


def _explain(project: Project, python: Path, outcome: Outcome) -> UserError:
    for missing in (project.package_name, "torch"):
        if outcome.reason == f"ModuleNotFoundError: No module named '{missing}'":
            build = shlex.join([str(python), "-m", "pip", "install", "--no-build-isolation", "--editable", "."])
            return UserError(
                f"{missing} is not installed for {python}. In {project.root}, build and install the project:\n\n"
                f"  {build}\n\n"
                "If it is installed for another Python, name that Python: --python .venv/bin/python.",
                2,
            )
    reason = f": {outcome.reason}" if outcome.reason else ""
    return UserError(
        f"{project.package_name} does not load in {python}: the process {outcome.failure}{reason}\n"
        "Run `torch-backend doctor` to find the cause."
    )
