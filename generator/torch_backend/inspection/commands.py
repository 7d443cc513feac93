# ruff: noqa: D301  click reads the \b in the docstrings
"""The commands that inspect a project: doctor, status, list-ops; and shell completion."""

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
            help="The project's folder or a folder in it; default: the current folder.",
        ),
        click.option(
            "--python",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="The Python with torch and the built package. Default: the first of these that has the project's "
            "torch: this command's Python, the active environment's Python, the Python of the project's .venv.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts."),
        click.option(
            "--time-limit",
            type=click.FloatRange(min=0, min_open=True),
            default=120,
            show_default=True,
            metavar="SECONDS",
            help="Time limit of each started process.",
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
    """Check the requirements of a build and the registrations of a built backend.

    Checks the compiler, CMake and Ninja, Python and its headers, torch, and other installed backends. Each finding says
    how to fix it. In a project, the requirements are those of the project. If the project's package is installed, the
    command also loads it in a separate process and names missing registrations: device module, guard, hooks, allocator,
    generator, kernels.

    \b
    Examples:
      torch-backend doctor                            in a project or outside of one
      torch-backend doctor --python .venv/bin/python  for another environment
      torch-backend doctor --json | jq '.checks[] | select(.state == "fail")'

    Exit code: 0 if no check fails (warnings do not count), 1 if a check fails, 2 if the command is used wrongly.
    """
    project = _project_or_none(folder)
    interpreter = find_python(project, python)
    checks: list[Check] = []
    if not as_json:
        where = (
            f"the project {project.package_name} in {project.root}" if project else "the environment; not in a project"
        )
        click.echo(f"Checking {where}")
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
    """Returns the project, or None outside of a project if no folder was named."""
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
@click.option("--static", is_flag=True, help="Only read the sources; leave the operators out.")
@click.option("-v", "--verbose", is_flag=True, help="List each function, and print the whole text of each tag.")
def status(
    folder: Path | None, python: Path | None, as_json: bool, time_limit: float, static: bool, verbose: bool
) -> None:
    """Report the progress of a port.

    \b
    Port       the steps of docs/porting.md in their order, and what is left of each
    Seam       functions in csrc/device that still use the emulated SDK or are not written, by file
    Declined   the optional capabilities that the port declines, with its reasons
    PORTING:   tags left in the sources; each marks a place to replace, delete the tag when you have ported it
    Operators  native, host body, emulated, on the CPU: in the built package

    Also prints the template's version, the features and the torch versions of the project.

    \b
    Examples:
      torch-backend status --static      the seam and the tags, without a build
      torch-backend status --json | jq .seam.emulated

    Exit code: 0, or 2 if there is no project. The report says if the package is not built or does not load.
    """
    project = Project.find(folder or Path.cwd())
    found = read_status(project, None if static else find_python(project, python), time_limit)
    if as_json:
        _print_json(found.to_json())
    else:
        print_status(found, verbose=verbose)


# The states are read from the template, only when an option needs them.


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
    help="List only operators in this state; the option can be repeated.",
)
@click.option("--summary", is_flag=True, help="Print only the number of operators in each state.")
@click.option("-v", "--verbose", is_flag=True, help="Print the reason of each state.")
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
    them). The package must be built and installed. The command loads it in a separate process.

    \b
    native     the device's own kernel
    host body  a kernel in the project's sources whose body still computes on the host
    emulated   PyTorch's CPU kernel, in place on device memory
    cpu        PyTorch's CPU kernel, with copies to the host and back
    composite  PyTorch computes it from other operators
    none       cannot run on the device

    \b
    Examples:
      torch-backend list-ops gelu
      torch-backend list-ops '*softmax*' --state emulated --state cpu
      torch-backend list-ops --state 'host body' --verbose
      torch-backend list-ops --summary

    Exit code: 0, 1 if no operator matches or the package does not load, 2 if it is not installed.
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
        click.echo(f"{len(selected)} overloads of torch {found.torch} on {project.device_name}, from {found.source}:")
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
        return f"{pattern!r} matches {len(found.select(pattern))} overloads, none of them{in_states}."
    near = found.similar(pattern)
    hint = f" Nearest: {', '.join(near)}." if near else ""
    return f"No ATen operator of torch {found.torch} matches {pattern!r}.{hint}"


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
