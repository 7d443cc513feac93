"""The command line: each command is a thin layer over a module of the same purpose."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from . import __version__
from .demo import demo
from .errors import UserError
from .example import Example
from .formatting import format_cpp
from .lint import lint, require_clean
from .names import Names
from .new_command import new_command
from .project import Project
from .project_commands import register as register_project_commands
from .source import find_source
from .trace import trace
from .update_commands import add_feature_command, remove_feature_command, update_command


class _Group(click.Group):
    """Prints a UserError as a sentence, and ends with its exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            click.echo(str(error), err=True)
            sys.exit(error.exit_code)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Makes PyTorch accelerator backends from a template, and maintains that template."""


main.add_command(new_command)
main.add_command(update_command)
main.add_command(add_feature_command)
main.add_command(remove_feature_command)
register_project_commands(main)


@main.command("add-op")
@click.argument("operators", nargs=-1, required=True, metavar="OPERATOR...")
@click.option("--project", "folder", type=click.Path(path_type=Path), default=Path(), help="Folder in the project.")
@click.option("--python", type=click.Path(path_type=Path), help="Interpreter with the project's torch.")
@click.option("--build", is_flag=True, help="Also build the project for that interpreter, and run the new tests.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts; what a build prints goes to stderr.")
def add_op(operators: tuple[str, ...], folder: Path, python: Path | None, build: bool, as_json: bool) -> None:
    """Give a project a kernel for each OPERATOR, with its entries in the list of operators and a test.

    An OPERATOR is a whole family, such as gelu or sum, or one overload with its in-place and out variants, such as
    add.Tensor. The kernel has the right signatures and computes the right numbers, by PyTorch's CPU kernel; the place
    for the device's own code is marked PORTING. No file is overwritten, and if anything fails, nothing is written.
    """
    from .addop import command

    project = Project.find(folder)
    added, interpreter = command.add_operators(project, list(operators), python)
    steps = command.build_steps(interpreter, added)
    if as_json:
        if build:
            command.run_steps(project, steps, to_stderr=True)
        found = {
            "project": str(project.root),
            "python": str(interpreter),
            "built": build,
            "next": [] if build else steps,
        }
        click.echo(json.dumps(found | {"operators": [operator.to_json() for operator in added]}, indent=2))
        return
    for operator in added:
        click.echo(command.summary(operator))
    click.echo("Listed as NATIVE in csrc/aten/operators.def.")
    if build:
        command.run_steps(project, steps)
        return
    click.echo(f"Next:\n\n  cd {project.root}")
    for step in steps:
        click.echo(f"  {shlex.join(step)}")
    click.echo("\nThen write the device's code where the new file says PORTING.")


@main.command("demo")
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


@main.command("render-example")
@_example_option
@click.option("--force", is_flag=True, help="Drop edits made in the example that are not in the template.")
def render_example(folder: Path | None, force: bool) -> None:
    """Re-render the committed example, touching only files that change."""
    sync = _example(folder).render(force=force)
    for path in sync.removed:
        click.echo(f"removed {path}")
    for path in sync.written:
        click.echo(f"wrote {path}")
    if not sync.removed and not sync.written:
        click.echo("The example is up to date.")


@main.command("check-example")
@_example_option
def check_example(folder: Path | None) -> None:
    """Fail with a diff if the committed example is not what the template renders."""
    difference = _example(folder).check()
    if difference:
        raise UserError(
            f"{difference}\n\nThe example and the template differ. If the example is right, run `make backport`; "
            "if the template is, run `make examples`."
        )
    click.echo("The example is what the template renders.")


@main.command("backport")
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


@main.command("lint-template")
@_example_option
def lint_template(folder: Path | None) -> None:
    """Check template files for stray or corrupted placeholders and left-over names."""
    example = _example(folder)
    names = Names(trace(example.source, example.answers).values)
    require_clean(lint(example.source, names.leftover))
    click.echo("The template files are clean.")


@main.command("format-cpp", hidden=True)
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
@click.option("--check", is_flag=True, help="Change nothing, fail if a file would change.")
def format_cpp_command(folder: Path, check: bool) -> None:
    """Run clang-format over the C and C++ files of a project."""
    count = format_cpp(folder, check=check)
    click.echo(f"{count} C and C++ files {'are' if check else 'now are'} formatted.")


@main.command(hidden=True)
def reserved() -> None:
    """Regenerate the list of reserved names with the installed torch."""
    from . import reserved as lists

    path = find_source().root / "includes" / "reserved.jinja"
    lists.write(path, lists.merge(lists.read(path), lists.collect()))
    click.echo(f"wrote {path}")


if __name__ == "__main__":
    main()
