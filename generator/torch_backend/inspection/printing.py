"""Prints findings for people. For scripts the commands print JSON instead."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import click

from torch_backend.source import Versions

from .doctor.report import Check
from .operators import Operator, count, states
from .status import Status

COLORS = {
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
    "skip": "bright_black",
    "native": "green",
    "host body": "blue",
    "emulated": "cyan",
    "cpu": "yellow",
    "composite": "bright_black",
    "none": "red",
}
NAME_WIDTH = 18


def heading(text: str) -> None:
    """Prints a heading."""
    click.secho(f"\n{text}", bold=True)


def print_check(check: Check) -> None:
    """Prints a finding and, below it, its remedy."""
    click.echo(f"  {click.style(f'{check.state:<4}', COLORS[check.state])}  {check.name:<{NAME_WIDTH}} {check.found}")
    if check.mend and check.state != "ok":
        click.echo(f"        {'':<{NAME_WIDTH}} {click.style('->', bold=True)} {check.mend}")


def print_operators(operators: Mapping[str, Operator], *, verbose: bool) -> None:
    """Prints one overload a line; ``verbose`` with the reason."""
    width = max(map(len, operators), default=0)
    for name, operator in operators.items():
        reason = f" {operator.reason}" if verbose else ""
        state = click.style(f"{operator.state:<9}" if verbose else operator.state, COLORS.get(operator.state))
        click.echo(f"{name:<{width}}  {state}{reason}")


def print_counts(counts: Mapping[str, int], indent: str = "  ") -> None:
    """Prints the number of overloads in each state, and the meaning of the state."""
    width = max(len(str(number)) for number in counts.values())
    meanings = states()
    for state, number in counts.items():
        meaning = meanings.get(state, "")
        click.echo(f"{indent}{number:>{width}} {click.style(f'{state:<9}', COLORS.get(state))} {meaning}".rstrip())


def print_status(status: Status, *, verbose: bool) -> None:
    """Prints the progress of the port. ``verbose`` adds each function and the whole text of each tag."""
    project, answers = status.project, status.project.answers
    click.secho(f"{project.package_name}, device {project.device_name}, in {project.root}", bold=True)
    address = project.template_address
    origin = f" from {'an installed torch-backend' if Versions.is_packaged(address) else address}" if address else ""
    click.echo(f"  template  {project.template_version or 'version not recorded'}{origin}")
    click.echo(f"  torch     {status.torch or 'any'} (made for {answers.get('torch_minor')})")
    click.echo(f"  features  {', '.join(answers.get('features') or []) or 'none'}")
    _print_steps(status)
    _print_seam(status, verbose)
    _print_declined(status)
    _print_tags(status, verbose)
    if status.operators:
        heading(f"Operators: {len(status.operators.operators)} overloads of torch {status.operators.torch}")
        print_counts(count(status.operators.operators))
    else:
        heading("Operators: unknown")
        click.echo(textwrap.indent(status.unavailable, "  "))


def _print_steps(status: Status) -> None:
    """Prints the steps in the order of docs/porting.md, with what is left of those that are not done."""
    done = sum(not step.left for step in status.steps)
    heading(f"Port: {done} of {len(status.steps)} steps of docs/porting.md are done")
    for number, step in enumerate(status.steps, 1):
        state = click.style("open", fg="yellow") if step.left else click.style("done", fg="green")
        click.echo(f"  {state}  {number}. {step.title}")
        for line in step.left:
            click.echo(f"           {line}")


def _print_declined(status: Status) -> None:
    if status.seam.declined:
        heading(f"Declined: {len(status.seam.declined)} optional capabilities")
    for item in status.seam.declined:
        click.echo(f"  {item.name:<{NAME_WIDTH}} {item.reason or 'no reason given'}")


def _print_seam(status: Status, verbose: bool) -> None:
    seam = status.seam
    if seam.sdk is not None:
        heading(f"Seam: {seam.emulated} of {seam.functions} functions in csrc/device still use {seam.sdk}")
        _print_left({file.path: (file.emulated, file.functions) for file in seam.files}, verbose)
    elif seam.unwritten:
        heading(f"Seam: {seam.unwritten} of {seam.functions} functions in csrc/device are not written yet")
        _print_left({file.path: (file.unwritten, file.functions) for file in seam.files}, verbose)
    else:
        heading(f"Seam: {seam.functions} functions in csrc/device, no emulated SDK in third_party")


def _print_left(files: dict[str, tuple[list[str], list[str]]], verbose: bool) -> None:
    """Prints for each file how many of its functions are left to port."""
    for path, (left, functions) in files.items():
        color = "green" if not left else None
        click.secho(f"  {len(left):>3} of {len(functions):>3}  {path}", fg=color)
        if verbose and left:
            names = textwrap.fill(", ".join(left), 100, initial_indent=" " * 14, subsequent_indent=" " * 14)
            click.echo(names)


def _print_tags(status: Status, verbose: bool) -> None:
    heading(f"PORTING: {len(status.tags)} places to port")
    for tag in status.tags:
        text = tag.text if verbose else textwrap.shorten(tag.text, 90, placeholder=" ...")
        click.echo(f"  {click.style(f'{tag.path}:{tag.line}', fg='cyan')}  {text}")
