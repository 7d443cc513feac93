# ruff: noqa: D301  click reads the \b in the docstrings
"""The commands that look at a project: doctor, status, list-ops; and the completion of commands in a shell."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class

from torch_backend.errors import UserError
from torch_backend.interpreter import find_python
from torch_backend.project import Project

from .doctor import Check, diagnose
from .operators import Coverage, count, coverage, states
from .printing import heading, print_check, print_counts, print_operators, print_status
from .status import read_status

PROGRAM = "torch-backend"


def _common_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --project, --python, --json and --time-limit."""
    options = (
        click.option(
            "--project",
            "folder",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            metavar="DIR",
            help="The project's folder, or one in it; default: the current one.",
        ),
        click.option(
            "--python",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="The Python with torch and the built package; default: the first that has the project's torch, of the "
            "one that runs this command, that of the active environment, and that of the project's .venv.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts."),
        click.option(
            "--time-limit",
            type=click.FloatRange(min=0, min_open=True),
            default=120,
            show_default=True,
            metavar="SECONDS",
            help="For each process that is started.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


@click.command()
@_common_options
def doctor(folder: Path | None, python: Path | None, as_json: bool, time_limit: float) -> None:
    """Check what a build needs, and what a built backend registers.

    Looks at the compiler, CMake and Ninja, Python and its headers, torch, and other backends that are installed; says
    how to mend what is wrong. In a project it compares with what that project needs. If its package is installed, it
    also loads it in a process of its own, and names the registration that is missing: device module, guard, hooks,
    allocator, generator, kernels.

    \b
    Examples:
      torch-backend doctor                            in a project, or anywhere before there is one
      torch-backend doctor --python .venv/bin/python  for another environment
      torch-backend doctor --json | jq '.checks[] | select(.state == "fail")'

    Exit code: 0 if nothing fails (warnings do not count), 1 if something does, 2 if the command is used wrongly.
    """
    project = _project_or_none(folder)
    interpreter = find_python(project, python)
    checks: list[Check] = []
    if not as_json:
        where = (
            f"the project {project.package_name} in {project.root}" if project else "the environment; not in a project"
        )
        click.echo(f"Looking at {where}")
    for check in diagnose(project, interpreter, time_limit):
        if not as_json:
            if not checks or checks[-1].group != check.group:
                heading(check.group)
            print_check(check)
        checks.append(check)
    failures = [check for check in checks if check.state == "fail"]
    if as_json:
        _print_json(
            {
                "project": str(project.root) if project else None,
                "python": str(interpreter),
                "ok": not failures,
                "checks": [check.to_json() for check in checks],
            }
        )
    else:
        warnings = sum(check.state == "warn" for check in checks)
        click.secho(f"\n{len(checks)} checks, {warnings} warnings, {len(failures)} failures", bold=True)
    sys.exit(1 if failures else 0)


def _project_or_none(folder: Path | None) -> Project | None:
    """The project; None outside of one, unless a folder was named."""
    if folder is not None:
        return Project.find(folder)
    try:
        return Project.find(Path.cwd())
    except UserError as error:
        if "is not in a project" in str(error):
            return None
        raise


@click.command()
@_common_options
@click.option("--static", is_flag=True, help="Read the sources only; do not load the built package.")
@click.option("-v", "--verbose", is_flag=True, help="Name each function, and give each tag's whole text.")
def status(
    folder: Path | None, python: Path | None, as_json: bool, time_limit: float, static: bool, verbose: bool
) -> None:
    """Say how far a port is.

    \b
    Seam       functions in csrc/device that still use the emulated SDK, or are not written yet, by file
    PORTING:   the tags left in the sources, each a place to replace; delete the tag when it is done
    Operators  native, emulated, on the CPU: as the sources register them, and as the built package has them

    Also the template's version, the features and the torch versions of the project.

    \b
    Examples:
      torch-backend status --static      without loading the package
      torch-backend status --json | jq .seam.emulated

    Exit code: 0, or 2 if there is no project. A package that is not built or does not load is reported.
    """
    project = Project.find(folder or Path.cwd())
    found = read_status(project, None if static else find_python(project, python), time_limit)
    if as_json:
        _print_json(found.to_json())
    else:
        print_status(found, verbose=verbose)


# The template has the states. It is read when one is given: the other commands do without.


def _check_states(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(click.Choice(list(states())).convert(state, option, context)) for state in given)


def _complete_state(context: click.Context, option: click.Parameter, incomplete: str) -> list[str]:
    return [state for state in states() if state.startswith(incomplete)]


@click.command("list-ops")
@click.argument("pattern", required=False)
@click.option(
    "--state",
    "only",
    metavar="STATE",
    multiple=True,
    callback=_check_states,
    shell_complete=_complete_state,
    help="Only operators in this state; may be given several times.",
)
@click.option("--summary", is_flag=True, help="Only how many there are in each state.")
@click.option("-v", "--verbose", is_flag=True, help="Say why, too.")
@_common_options
def list_ops(
    pattern: str | None,
    only: tuple[str, ...],
    summary: bool,
    verbose: bool,
    folder: Path | None,
    python: Path | None,
    as_json: bool,
    time_limit: float,
) -> None:
    """List every ATen operator of the installed torch with its state on the device.

    PATTERN is an operator (add: all its overloads), an overload (add.Tensor), or has the wildcards * and ? (quote
    them). The package has to be built and installed: it is loaded in a process of its own and asked.

    \b
    native     a kernel of the device's own
    emulated   PyTorch's CPU kernel, in place on device memory
    cpu        PyTorch's CPU kernel, with copies to the host and back
    composite  taken apart by PyTorch into other operators
    none       cannot run on the device

    \b
    Examples:
      torch-backend list-ops gelu
      torch-backend list-ops '*softmax*' --state emulated --state cpu
      torch-backend list-ops --summary

    Exit code: 0, 1 if no operator fits or the package does not load, 2 if it is not installed.
    """
    project = Project.find(folder or Path.cwd())
    found = coverage(project, find_python(project, python), time_limit)
    selected = found.select(pattern, only)
    counts = count(selected)
    if as_json:
        shown: dict[str, Any] = {"torch": found.torch, "source": found.source, "counts": counts}
        if not summary:
            shown["operators"] = {name: asdict(operator) for name, operator in selected.items()}
        _print_json(shown)
    elif summary:
        click.echo(f"{len(selected)} overloads of torch {found.torch} on {project.device_name}, says {found.source}:")
        print_counts(counts)
    elif selected:
        print_operators(selected, verbose=verbose)
        click.echo(f"{len(selected)} of {len(found.operators)} overloads", err=True)
    if not selected:
        raise UserError(_nothing(found, pattern, only))


def _nothing(found: Coverage, pattern: str | None, only: Sequence[str]) -> str:
    in_states = f" in the state {' or '.join(only)}" if only else ""
    if pattern is None:
        return f"No ATen operator is{in_states}."
    if only and found.select(pattern):
        return f"{pattern!r} fits {len(found.select(pattern))} overloads, none of them{in_states}."
    near = found.similar(pattern)
    hint = f" Nearest: {', '.join(near)}." if near else ""
    return f"No ATen operator of torch {found.torch} fits {pattern!r}.{hint}"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands and options in a shell.

    \b
    bash:  echo 'eval "$(torch-backend completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(torch-backend completion zsh)"' >> ~/.zshrc
    fish:  torch-backend completion fish > ~/.config/fish/completions/torch-backend.fish
    """
    made = get_completion_class(shell)
    if made is None:
        raise UserError(f"click has no completion for {shell}.", 2)
    click.echo(made(context.find_root().command, {}, PROGRAM, "_TORCH_BACKEND_COMPLETE").source())


def register(group: click.Group) -> None:
    """Adds the commands to the command line."""
    for command in (doctor, status, list_ops, completion):
        group.add_command(command)
    alias = click.Command(
        "coverage",
        params=list_ops.params,
        callback=list_ops.callback,
        help=list_ops.help,
        short_help="The same as list-ops.",
    )
    group.add_command(alias)
