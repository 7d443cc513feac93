"""Reads the description of operators from the project's torch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from torch_backend.errors import UserError
from torch_backend.inside.schemas import NO_SAMPLES
from torch_backend.interpreter import AUTOLOAD, Outcome, ask, require_python
from torch_backend.project import Project


def python_with_schemas(project: Project, chosen: Path | None) -> Path:
    """Returns an interpreter with torch of the project's release series and the modules to read its schemas.

    Raises:
        UserError: there is no such interpreter.
    """
    return require_python(project, chosen, ["torchgen", "yaml"], "Operators are looked up in", "pyyaml")


def describe(python: Path, names: list[str], *, samples: bool = True) -> dict[str, dict[str, Any]]:
    """Returns the report of ``inside/schemas`` for each name, with or without samples made from the schemas.

    Raises:
        UserError: the process failed.
    """
    answers: dict[str, dict[str, Any]] = {}
    left = list(names)
    with click.progressbar(length=len(names), label="Looking up operators", file=sys.stderr) as bar:

        def show(number: int) -> None:
            bar.update(len(answers) + number - bar.pos)

        while left:
            outcome = _ask(python, show, *([] if samples else [NO_SAMPLES]), *left)
            answers |= dict(outcome.items) if outcome.crashed else _answers(python, outcome)
            left = [name for name in left if name not in answers]
            if outcome.crashed and left:
                # Some CPU kernels crash with arguments that were made from a schema: these operators get no samples.
                answers |= _answers(python, _ask(python, show, NO_SAMPLES, left.pop(0)))
    return answers


def _ask(python: Path, show: Callable[[int], None], *arguments: str) -> Outcome:
    return ask(python, "schemas", *arguments, time_limit=None, variables={AUTOLOAD: "0"}, progress=show)


def _answers(python: Path, outcome: Outcome) -> dict[str, dict[str, Any]]:
    if outcome.failure:
        raise UserError(f"The schemas of torch cannot be read with {python}:\n{outcome.errors.strip()[-2000:]}", 2)
    return dict(outcome.items)
