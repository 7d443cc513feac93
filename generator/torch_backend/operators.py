"""How each operator of the installed torch runs on a project's device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from .errors import UserError
from .probe import Outcome, run_probe
from .project import Project

# What each state means, in the order in which a port goes up the list.
STATES = {
    "native": "a kernel of the device's own",
    "emulated": "PyTorch's CPU kernel, in place on device memory",
    "cpu": "PyTorch's CPU kernel, with copies to the host and back",
    "composite": "taken apart by PyTorch into other operators",
    "none": "cannot run on the device",
}


@dataclass(frozen=True)
class Coverage:
    """The state of every overload, by name; which torch, and who told it."""

    torch: str
    source: str
    states: dict[str, str]

    def select(self, pattern: str | None = None, states: Iterable[str] = ()) -> dict[str, str]:
        """The overloads that fit.

        Args:
            pattern: a name (``add``: all its overloads), an overload (``add.Tensor``), or either with the wildcards
                ``*`` and ``?``; with or without ``aten::``.
            states: only those; empty for all.
        """
        wanted = set(states) or set(STATES)
        return {n: s for n, s in self.states.items() if s in wanted and (pattern is None or fits(n, pattern))}


def count(states: Iterable[str]) -> dict[str, int]:
    """Counts states, in the order of STATES; one that it does not know comes last."""
    counted = Counter(states)
    return {state: counted[state] for state in [*STATES, *sorted(counted.keys() - STATES.keys())]}


def fits(name: str, pattern: str) -> bool:
    """True if an overload's full name is meant by a pattern."""
    short = name.split("::", 1)[-1]
    pattern = pattern.removeprefix("aten::")
    return fnmatchcase(short, pattern) or fnmatchcase(short.split(".")[0], pattern)


class NotInstalledError(UserError):
    """The project's package cannot be imported because it is not there."""


def coverage(project: Project, python: Path, time_limit: float) -> Coverage:
    """Loads the backend in a process of its own and asks it.

    Raises:
        NotInstalledError: it is not installed.
        UserError: it does not load.
    """
    outcome = run_probe(python, "operators", project.package_name, project.device_name, time_limit=time_limit)
    if outcome.failure:
        raise _explain(project, python, outcome)
    (_, torch), (_, source), *states = outcome.items
    return Coverage(torch, source, dict(states))


def _explain(project: Project, python: Path, outcome: Outcome) -> UserError:
    package = project.package_name
    reason = outcome.reason
    if reason in (f"ModuleNotFoundError: No module named '{package}'", "ModuleNotFoundError: No module named 'torch'"):
        missing = reason.rsplit("'", 2)[1]
        return NotInstalledError(
            f"{missing} is not installed for {python}. In {project.root}, build and install the project:\n\n"
            f"  {python} -m pip install --no-build-isolation --editable .\n\n"
            "If it is installed for another Python, name that one: --python .venv/bin/python.",
            2,
        )
    return UserError(
        f"{package} does not load in {python}: the process {outcome.failure}"
        f"{f': {reason}' if reason else ''}\n`torch-backend doctor` says what is missing."
    )
