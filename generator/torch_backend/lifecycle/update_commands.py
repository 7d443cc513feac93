"""The commands that change an existing project: update, add-feature, remove-feature."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from torch_backend.project import Project

from .changelog import printable
from .features import FeatureChange, change_features
from .merge import Merged
from .undo import abort
from .update import check, update


def located(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that say where the project and its template are."""
    for option in (
        click.option(
            "--template", "address", help="The present address of the template's repository, if it has moved."
        ),
        click.option(
            "--project",
            "folder",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            default=Path(),
            help="The project's folder or a folder in it; default: the current folder.",
        ),
    ):
        command = option(command)
    return command


def _shared(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of all these commands."""
    return located(
        click.option("--dry-run", is_flag=True, help="Show the changes as a diff, and change nothing.")(command)
    )


@click.command("update")
@_shared
@click.option("--ref", help="Version (git tag, branch or commit) to update to; by default the newest.")
@click.option(
    "--check", "only_check", is_flag=True, help="Only report whether there is a newer version; exit code 1 if so."
)
@click.option("--json", "as_json", is_flag=True, help="With --check: print JSON.")
@click.option("--abort", "take_back", is_flag=True, help="Undo the last update or change of features.")
@click.option(
    "--data", "pairs", multiple=True, metavar="QUESTION=ANSWER", help="Answer a new question, or change an answer."
)
@click.option("--defaults", is_flag=True, help="Ask no questions; use the defaults of new questions.")
def update_command(
    folder: Path,
    address: str | None,
    ref: str | None,
    only_check: bool,
    as_json: bool,
    take_back: bool,
    dry_run: bool,
    pairs: tuple[str, ...],
    defaults: bool,
) -> None:
    """Update the project to a newer version of the template, keeping your edits.

    The project must be in git with everything committed. What both you and the template have edited at the same place
    is left as a conflict, as `git merge` leaves it, and the exit code is 1. In files that a port writes, as those of
    csrc/device, your text stays, and what the template has there is shown. Whatever goes wrong on the way, the project
    stays as it was. Until you commit, --abort undoes the update; it changes no file that the update has not changed.

    The newest version is the newest git tag such as v1.2.0. A template without such tags has a version with each
    commit: the project is taken to the newest one of its branch. An installed torch-backend takes it to what it
    renders.
    """
    project = Project.find(folder)
    if as_json and not only_check:
        raise click.UsageError("--json needs --check.")
    if only_check and (ref or dry_run):
        raise click.UsageError("--check cannot be combined with --ref or --dry-run.")
    if take_back:
        if only_check or ref or dry_run or address or pairs or defaults:
            raise click.UsageError("--abort needs no other option than --project.")
        _abort(project)
        return
    if only_check:
        status = check(project, address)
        current = status.labels[status.current]
        if as_json:
            click.echo(json.dumps(vars(status) | {"out_of_date": status.out_of_date}, indent=2))
        elif status.out_of_date:
            versions = ", ".join(status.labels[name] for name in status.newer)
            click.echo(f"The project is at {current}; newer: {versions}. Run `torch-backend update`.")
        else:
            click.echo(f"The project is at {current}; there is no newer version.")
        sys.exit(int(status.out_of_date))
    if wrong := [pair for pair in pairs if "=" not in pair]:
        raise click.UsageError(f"--data {wrong[0]}: write QUESTION=ANSWER, such as num_devices=4.")
    data = dict(pair.split("=", 1) for pair in pairs)
    done = update(project, ref=ref, address=address, data=data, defaults=defaults, dry_run=dry_run)
    if done.merged is None:
        click.echo(f"The project is at {done.old}; there is nothing to update.")
        return
    same = done.old == done.new
    click.echo(f"At {done.new} of the template.\n" if same else f"From {done.old} to {done.new} of the template.\n")
    if done.news:
        click.echo(f"{done.news}\n")
    for note in done.notes:
        click.echo(f"Note: {note}\n")
    _report(done.merged, dry_run, "Answer the template anew" if same else f"Update the template to {done.new}")


def _abort(project: Project) -> None:
    done = abort(project.root)
    if done.kept:
        click.echo("You had edited these files since the update:")
        for path in done.edited:
            click.echo(f"  {path}")
        click.echo(f"`git show {done.kept}` has your edits.")
    counts = [(len(done.restored), "restored"), (len(done.removed), "removed")]
    words = ", ".join(f"{number} {word}" for number, word in counts if number) or "none had been changed"
    click.echo(f"The update is undone. Files: {words}.")


@click.command("add-feature")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@_shared
def add_feature_command(names: tuple[str, ...], folder: Path, address: str | None, dry_run: bool) -> None:
    """Add optional parts of the template to the project, without changing the template version.

    The project must be in git with everything committed.
    """
    project = Project.find(folder)
    _report_features(change_features(project, add=names, address=address, dry_run=dry_run), "Add", dry_run)


@click.command("remove-feature")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@_shared
@click.option("--force", is_flag=True, help="Remove files that you have edited too; git still has them.")
def remove_feature_command(
    names: tuple[str, ...], folder: Path, address: str | None, dry_run: bool, force: bool
) -> None:
    """Remove optional parts of the template from the project.

    If you have edited files of such a part, the command names them and removes nothing, unless --force is given. Files
    that you have added stay. The project must be in git with everything committed.
    """
    project = Project.find(folder)
    done = change_features(project, remove=names, address=address, force=force, dry_run=dry_run)
    _report_features(done, "Remove", dry_run)


def _report_features(done: FeatureChange, verb: str, dry_run: bool) -> None:
    for sentence in done.sentences:
        click.echo(sentence)
    if done.merged is not None:
        _report(done.merged, dry_run, f"{verb} {', '.join(done.changed)}")


def _report_ownership(merged: Merged) -> None:
    """Says what was replaced in the vendor's text, and where that text stays though the template has changed."""
    if merged.replaced:
        click.echo("\nReplaced in what you have written, since the template has other names now:")
        for path, pairs in sorted(merged.replaced.items()):
            click.echo(f"  {path}:")
            for (old, new), number in sorted(pairs.items()):
                click.echo(f"    {old} -> {new}{f' ({number} times)' if number > 1 else ''}")
    if merged.kept:
        click.echo(
            "\nYour text stays in these files, which a port writes. What the template has changed at the same places "
            "is not in them; look whether your text needs it:"
        )
        for path, diff in merged.kept.items():
            click.echo(f"  {path}{':' if diff else ' is no longer in the template.'}")
            for line in diff.splitlines():
                click.echo(f"    {printable(line)}")


def _report(merged: Merged, dry_run: bool, message: str) -> None:
    """Prints the changes, the conflicts and the next steps; exits with code 1 if there are conflicts."""
    conflicts = merged.conflicts
    if dry_run:
        click.echo(merged.diff)
    kinds = [kind for path, kind in merged.changes.items() if path not in conflicts]
    counts = [(kinds.count("A"), "added"), (kinds.count("D"), "removed")]
    counts.insert(0, (len(kinds) - sum(number for number, _ in counts), "changed"))
    words = ", ".join(f"{number} {word}" for number, word in counts if number) or "none changed"
    click.echo(f"Files: {words}{', if you run it without --dry-run' if dry_run else ''}.")
    _report_ownership(merged)
    if conflicts:
        click.echo(f"\nConflicts in {len(conflicts)} file{'s' if len(conflicts) > 1 else ''}:")
        for path, reason in conflicts.items():
            click.echo(f"  {path}: {reason}")
    if dry_run:
        click.echo("Nothing was changed.")
    elif conflicts:
        click.echo(
            "\nNext: edit each of these files (search for <<<<<<<), then `git add` it, or `git rm` it.\n"
            "When `git status` shows no more conflicts, build, test, and run\n"
            f'`git add --all . && git commit -m "{message}"`.\n'
            "To undo this, run `torch-backend update --abort`."
        )
    else:
        click.echo(
            f'\nNext: check `git status`, build, test, and run `git add --all . && git commit -m "{message}"`.\n'
            "To undo this, run `torch-backend update --abort`."
        )
    if conflicts:
        sys.exit(1)
