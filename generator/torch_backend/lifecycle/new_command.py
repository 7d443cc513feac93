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
        questions = find_source().questions
    except UserError:
        questions = {}
    for name, details in reversed(questions.items()):
        help_text = str(details["help"])
        choices = details.get("choices", {})
        if details.get("multiselect"):
            help_text += f", comma-separated ({', '.join(choices.values())}; empty for none)"
        elif isinstance(choices, dict) and choices:
            help_text += f" ({'; '.join(choices)})"
        elif isinstance(choices, list):
            help_text += f" ({', '.join(choices)})"
        command = click.option(f"--{name.replace('_', '-')}", name, help=help_text)(command)
    return command


@click.command("new")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--defaults", is_flag=True, help="Ask no questions; use the defaults of questions without an option.")
@click.option("--answers", "answers_file", type=click.Path(exists=True, path_type=Path), help="YAML file with answers.")
@click.option("--template", help="Address of another template repository.")
@click.option("--ref", help="Version (git tag, branch or commit) of the template.")
@click.option("--git/--no-git", default=True, show_default=True, help="Create a git repository with a first commit.")
@_question_options
def new_command(
    folder: Path,
    defaults: bool,
    answers_file: Path | None,
    template: str | None,
    ref: str | None,
    git: bool,
    **options: str | None,
) -> None:
    """Render a new project into FOLDER.

    FOLDER must not exist, or must be empty. The default of the vendor name comes from its name: Acme from torch_acme or
    acme. The command shows all names before it writes anything. If an answer is refused or you interrupt the command,
    nothing is written.
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
    create(New(folder, source, answers, ref=ref, defaults=defaults, git=git))
    click.echo(f"Rendered {folder}. Next:\n")
    for step in next_steps(folder):
        click.echo(f"  {step}")
    click.echo("\nIts README.md explains how to test the project and what to replace first.")
