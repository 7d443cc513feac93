"""The commands that add operators to a project and remove them."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from torch_backend.interpreter import find_python
from torch_backend.project import Project

from .adding import add_operators, build_steps, run_steps, summary
from .removing import remove_operators


def _operators_of_a_project(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the arguments OPERATOR... and the option --project."""
    folder = click.option(
        "--project", "folder", type=click.Path(path_type=Path), default=Path(), help="Folder of the project."
    )
    return click.argument("operators", nargs=-1, required=True, metavar="OPERATOR...")(folder(command))


@click.command("add-op")
@_operators_of_a_project
@click.option(
    "--python",
    type=click.Path(path_type=Path),
    help="Interpreter with the project's torch; default: the same as of status.",
)
@click.option("--build", is_flag=True, help="Build the project for that interpreter, and run the new tests.")
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts; the output of a build goes to stderr.")
def add_op_command(
    operators: tuple[str, ...], folder: Path, python: Path | None, build: bool, dry_run: bool, as_json: bool
) -> None:
    """Add a kernel and a test for each OPERATOR to a project, and take it off the list of emulated operators.

    An OPERATOR is a whole family, such as gelu or sum, or one overload with its in-place and out variants, such as
    add.Tensor. The kernel has the right signatures and computes correct values with PyTorch's CPU kernel. Until you
    write the device's code, list-ops calls the operator a host body. PORTING marks the place for that code. No file is
    overwritten. An OPERATOR that cannot have a kernel is named with the reason, and the exit code is then 2; the others
    are written. `torch-backend remove-op` takes an operator back.
    """
    if build and dry_run:
        raise click.UsageError("--build cannot be combined with --dry-run.")
    project = Project.find(folder)
    done = add_operators(project, list(operators), python, dry_run=dry_run)
    steps = build_steps(done.python, done.added) if done.added else []
    if as_json:
        if build and steps:
            run_steps(project, steps, to_stderr=True)
        found = {
            "project": str(project.root),
            "python": str(done.python),
            "built": build and bool(steps),
            "next": [] if build or dry_run else steps,
            "operators": [operator.to_json() for operator in done.added],
            "refused": done.refused | done.existing,
        }
        click.echo(json.dumps(found, indent=2))
    else:
        for operator in done.added:
            click.echo(summary(operator, dry_run=dry_run))
    for problem in done.problems:
        click.echo(problem, err=True)
    if done.problems or dry_run:
        number = len(operators) - len(done.refused) - len(done.existing)
        verb = "would get" if dry_run else "got"
        words = f"{number} of {len(operators)} operators {verb} a kernel." if done.added else "Nothing was written."
        click.echo(words, err=as_json or bool(done.problems))
    if steps and not as_json and not dry_run:
        if build:
            run_steps(project, steps)
        else:
            _print_next(project, steps)
    sys.exit(2 if done.refused else 1 if done.existing else 0)


def _print_next(project: Project, steps: list[list[str]]) -> None:
    click.echo(f"Next:\n\n  cd {shlex.quote(str(project.root))}")
    for step in steps:
        click.echo(f"  {shlex.join(step)}")
    click.echo(
        "\nThen write the device's code where the new file says PORTING, and register it without fallback::hostBody.\n"
        "Until then the operator runs on the host, and list-ops calls it a host body."
    )


@click.command("remove-op")
@_operators_of_a_project
@click.option("--python", type=click.Path(path_type=Path), help="Interpreter for docs/porting.py; default: as status.")
@click.option("--force", is_flag=True, help="Remove files with changes that are not committed too.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
def remove_op_command(
    operators: tuple[str, ...], folder: Path, python: Path | None, force: bool, dry_run: bool
) -> None:
    """Give each OPERATOR back to emulation: remove what add-op has written for it.

    This removes the kernel and its test, puts the operator back on the list of emulated ones, and writes the list of
    docs/porting.md anew. OPERATOR is the name that add-op got. If a file has changes that are not committed, nothing is
    removed.
    """
    project = Project.find(folder)
    interpreter = find_python(project, python)
    for operator in remove_operators(project, operators, python=interpreter, force=force, dry_run=dry_run):
        click.echo(f"aten::{operator.name}: {', '.join(operator.functions)}")
        for path in operator.files:
            click.echo(f"  {'would remove' if dry_run else 'removed'} {path.as_posix()}")
    click.echo("Nothing was removed." if dry_run else "Next: build the project, and run its tests.")
