"""The command `new`, with an option for each question of the template."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from torch_backend.errors import UserError
from torch_backend.source import Source, find_source

from .new import New, create, load_answers, next_steps


def _question_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds an option for every question of copier.yml."""
    try:
        source = find_source()
    except UserError:
        return command
    for name, details in reversed(source.questions.items()):
        help_text = str(details["help"])
        choices = details.get("choices", {})
        if details.get("multiselect"):
            help_text += f", comma-separated ({', '.join(choices.values())}; empty for none)"
        elif isinstance(choices, dict) and choices:
            help_text += f" ({'; '.join(choices)})"
        elif isinstance(choices, list):
            help_text += f" ({', '.join(choices)})"
        option = click.option(
            f"--{name.replace('_', '-')}", name, help=help_text, shell_complete=_completion(_values(source, details))
        )
        command = option(command)
    return command


def _values(source: Source, details: dict[str, Any]) -> list[str]:
    """Returns the values that a question offers."""
    choices = details.get("choices", {})
    if isinstance(choices, str):  # an expression over the releases
        return [str(value) for value in source.config["torch_releases"]["default"]]
    return [str(choice) for choice in (choices.values() if isinstance(choices, dict) else choices)]


def _completion(values: list[str]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Completes the last of the values, of which commas separate several."""

    def complete(context: click.Context, option: click.Parameter, incomplete: str) -> list[str]:
        *before, last = incomplete.split(",")
        return [",".join([*before, value]) for value in values if value.startswith(last) and value not in before]

    return complete


@click.command("new")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--defaults", is_flag=True, help="Ask no questions; use the defaults of questions without an option.")
@click.option("--answers", "answers_file", type=click.Path(exists=True, path_type=Path), help="YAML file with answers.")
@click.option("--template", help="Address of another template repository.")
@click.option("--ref", help="Version (git tag, branch or commit) of the template.")
@click.option("--dry-run", is_flag=True, help="Show the names and the files, and write nothing.")
@click.option("--git/--no-git", default=True, show_default=True, help="Create a git repository with a first commit.")
@_question_options
def new_command(
    folder: Path,
    defaults: bool,
    answers_file: Path | None,
    template: str | None,
    ref: str | None,
    dry_run: bool,
    git: bool,
    **options: str | None,
) -> None:
    """Render a new project into FOLDER.

    FOLDER must not exist, or must be empty. The default of the vendor name comes from its name: Acme from torch_acme or
    acme. Before the command writes anything, it shows all names, and you can change your answers. If an answer is
    refused or you interrupt the command, nothing is written.
    """
    source: Source | str = template or find_source()
    answers: dict[str, Any] = load_answers(answers_file) if answers_file else {}
    answers |= {name: value for name, value in options.items() if value is not None}
    if isinstance(answers.get("features"), str):
        answers["features"] = [part.strip() for part in answers["features"].split(",") if part.strip()]
    if isinstance(source, Source) and (unknown := answers.keys() - source.questions.keys()):
        raise UserError(
            f"No such question: {', '.join(sorted(unknown))}; the questions are {', '.join(source.questions)}.", 2
        )
    create(New(folder, source, answers, ref=ref, defaults=defaults, git=git, dry_run=dry_run))
    click.echo(f"Rendered {folder}. Next:\n")
    for step in next_steps(folder):
        click.echo(f"  {step}")
    click.echo("\nIts README.md explains how to test the project and what to replace first.")
