"""The command that adds operators to a project."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click

from torch_backend.project import Project

from .adding import add_operators, build_steps, run_steps, summary


@click.command("add-op")
@click.argument("operators", nargs=-1, required=True, metavar="OPERATOR...")
@click.option("--project", "folder", type=click.Path(path_type=Path), default=Path(), help="Folder of the project.")
@click.option(
    "--python",
    type=click.Path(path_type=Path),
    help="Interpreter with the project's torch; default: the same as of status.",
)
@click.option("--build", is_flag=True, help="Build the project for that interpreter, and run the new tests.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts; the output of a build goes to stderr.")
def add_op_command(operators: tuple[str, ...], folder: Path, python: Path | None, build: bool, as_json: bool) -> None:
    """Add a kernel and a test for each OPERATOR to a project, and remove it from the list of emulated operators.

    An OPERATOR is a whole family, such as gelu or sum, or one overload with its in-place and out variants, such as
    add.Tensor. The kernel has the right signatures and computes correct values with PyTorch's CPU kernel. Until you
    write the device's code, list-ops calls the operator a host body. PORTING marks the place for that code. No file is
    overwritten. If a step fails, nothing is written.
    """
    project = Project.find(folder)
    added, interpreter = add_operators(project, list(operators), python)
    steps = build_steps(interpreter, added)
    if as_json:
        if build:
            run_steps(project, steps, to_stderr=True)
        found = {
            "project": str(project.root),
            "python": str(interpreter),
            "built": build,
            "next": [] if build else steps,
        }
        click.echo(json.dumps(found | {"operators": [operator.to_json() for operator in added]}, indent=2))
        return
    for operator in added:
        click.echo(summary(operator))
    if build:
        run_steps(project, steps)
        return
    click.echo(f"Next:\n\n  cd {project.root}")
    for step in steps:
        click.echo(f"  {shlex.join(step)}")
    click.echo(
        "\nThen write the device's code where the new file says PORTING, and register it without fallback::hostBody.\n"
        "Until then the operator runs on the host, and list-ops calls it a host body."
    )
