"""Runs the families of checks in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from torch_backend.project import Project

from . import backends, compiler, python, registrations, tools
from .context import Context
from .report import Check

FAMILIES: dict[str, Callable[[Context], Iterator[Check]]] = {
    "Python and torch": python.checks,
    "Compiler": compiler.checks,
    "Tools": tools.checks,
    "Installed backends": backends.checks,
    "Registrations": registrations.checks,
}


def diagnose(project: Project | None, python_path: Path, time_limit: float) -> Iterator[Check]:
    """Yields each check when it is done.

    Args:
        project: the project; None to check only the environment.
        python_path: the interpreter to check.
        time_limit: of each started process, in seconds.

    Raises:
        UserError: the interpreter cannot be started, or the project's files cannot be read.
    """
    context = Context.gather(project, python_path, time_limit)
    for group, family in FAMILIES.items():
        for check in family(context):
            yield replace(check, group=group)
