"""The commands for work on the template itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from torch_backend.errors import UserError
from torch_backend.source import find_source

from . import reserved
from .demo import demo
from .example import Example
from .formatting import format_cpp
from .line_length import long_lines
from .lint import lint, require_clean
from .names import Names
from .trace import trace


@click.command("demo")
@click.option(
    "--folder", type=click.Path(path_type=Path), default=Path("build/demo"), show_default=True, help="Scratch folder."
)
def demo_command(folder: Path) -> None:
    """Render a project named Acme, build it, and train on its device."""
    demo(find_source(), folder.absolute())


def _example_option(command: Callable[..., Any]) -> Callable[..., Any]:
    option = click.option(
        "--example", "folder", type=click.Path(path_type=Path), help="Folder of the example; default examples/openreg."
    )
    return option(command)


def _example(folder: Path | None) -> Example:
    source = find_source()
    return Example(source, folder.absolute() if folder else source.root / "examples" / "openreg")


@click.command("render-example")
@_example_option
@click.option("--force", is_flag=True, help="Drop edits made in the example that are not in the template.")
def render_example_command(folder: Path | None, force: bool) -> None:
    """Re-render the committed example, touching only files that change."""
    sync = _example(folder).render(force=force)
    for path in sync.removed:
        click.echo(f"removed {path}")
    for path in sync.written:
        click.echo(f"wrote {path}")
    if not sync.removed and not sync.written:
        click.echo("The example is up to date.")


@click.command("check-example")
@_example_option
def check_example_command(folder: Path | None) -> None:
    """Fail with a diff if the committed example is not what the template renders."""
    difference = _example(folder).check()
    if difference:
        raise UserError(
            f"{difference}\n\nThe example and the template differ. If the example is right, run `make backport`; "
            "if the template is, run `make examples`."
        )
    click.echo("The example is what the template renders.")


@click.command("backport")
@_example_option
@click.option("--dry-run", is_flag=True, help="Prove that it works, and write nothing.")
def backport_command(folder: Path | None, dry_run: bool) -> None:
    """Carry edits made in the example back into the template."""
    report = _example(folder).backport(dry_run=dry_run)
    for word, paths in (("changed", report.changed), ("added", report.added), ("removed", report.removed)):
        for path in paths:
            click.echo(f"{word} template/{path.as_posix()}")
    for finding in report.guesses:
        click.echo(str(finding), err=True)
    if report.guesses:
        click.echo("Guessed; where that is wrong, edit the line in template/, which keeps it from then on.", err=True)
    if report.empty:
        click.echo("The template renders the example already.")
    elif not dry_run:
        click.echo("The template now renders exactly the example.")


@click.command("lint-template")
@_example_option
def lint_template_command(folder: Path | None) -> None:
    """Check template files for corrupted placeholders and names of the example, and all files for long lines."""
    example = _example(folder)
    names = Names(trace(example.source, example.answers).values)
    require_clean([*lint(example.source, names.leftover), *long_lines(example.source.root)])
    click.echo("The template files are clean.")


@click.command("format-cpp", hidden=True)
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
@click.option("--check", is_flag=True, help="Change nothing, fail if a file would change.")
def format_cpp_command(folder: Path, check: bool) -> None:
    """Run clang-format over the C and C++ files of a project."""
    count = format_cpp(folder, check=check)
    click.echo(f"{count} C and C++ files {'are' if check else 'now are'} formatted.")


@click.command("reserved", hidden=True)
def reserved_command() -> None:
    """Regenerate the list of reserved names with the installed torch and g++, which takes some minutes."""
    example = _example(None)
    path = example.source.root / "includes" / "reserved.jinja"
    names = reserved.Names(example)
    reserved.write(path, reserved.merge(reserved.read(path), names.installed | names.declared))
    click.echo(f"wrote {path}")


def _only_in_a_checkout(name: str) -> click.Command:
    """Returns a hidden command that says where the command of this name works."""

    def refuse(_: tuple[str, ...]) -> None:
        raise UserError(
            f"`torch-backend {name}` works on the template itself, and this torch-backend is installed without its "
            "repository: clone the repository, and run `make` there.",
            2,
        )

    anything = click.Argument(["_"], nargs=-1, type=click.UNPROCESSED)
    settings = {"ignore_unknown_options": True}
    return click.Command(name, settings, refuse, params=[anything], hidden=True, add_help_option=False)


def _is_checkout() -> bool:
    try:
        return find_source().is_checkout
    except UserError:
        return False


def register(group: click.Group) -> None:
    """Adds the commands to the command line. An installed package shows none of them."""
    there = _is_checkout()
    for command in (
        demo_command,
        render_example_command,
        check_example_command,
        backport_command,
        lint_template_command,
        format_cpp_command,
        reserved_command,
    ):
        group.add_command(command if there else _only_in_a_checkout(str(command.name)))
