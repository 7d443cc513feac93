"""Creates a new project: asks questions, shows the names, writes the files, and makes the first commit."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import yaml

from torch_backend.errors import UserError
from torch_backend.git import Git
from torch_backend.project import Project
from torch_backend.render import copy, create_project, record_origin
from torch_backend.source import PACKAGED, Source

from .answers import require_asked, require_types
from .interruption import interruptible, point_of_no_return

_DECORATION = {"torch", "pytorch", "backend"}
_GIVE_ADDRESS = "pass the address of the template's git repository with --template."
_UNVERSIONED = (
    "The template is neither a clean git checkout nor a package built from one, so the project records no version and "
    f"`torch-backend update` cannot update it. For a project that can be updated, {_GIVE_ADDRESS}"
)


@dataclass(frozen=True)
class New:
    """The parameters of a new project.

    Attributes:
        folder: the project's folder, which does not exist or is empty.
        template: this template, or the address of another one.
        answers: answers to questions, which are then not asked.
        ref: version of the template; the default is the work tree, or the newest version at an address.
        defaults: ask no questions.
        git: create a git repository with a first commit.
        dry_run: show the names and the files, and write nothing.
    """

    folder: Path
    template: Source | str
    answers: Mapping[str, Any]
    ref: str | None = None
    defaults: bool = False
    git: bool = True
    dry_run: bool = False


class _ChangeAnswersError(Exception):
    """The user wants to change answers, which are the argument."""


def vendor_from(name: str) -> str | None:
    """Derives the vendor from a folder's name: Acme from ``torch_acme`` or ``acme``; None if that is not possible."""
    words = re.split(r"[-_. ]+", name)
    words = [word for word in words if word.lower() not in _DECORATION]
    text = " ".join(word.capitalize() if word.islower() else word for word in words)
    return text if re.fullmatch(r"[A-Za-z][A-Za-z0-9]*( [A-Za-z][A-Za-z0-9]*)*", text) and len(text) <= 24 else None


def describe(answers: Mapping[str, Any]) -> str:
    """Lists the names of a project, one in each line."""
    device, package = answers["device_name"], answers["package_name"]
    rows = [
        ("vendor", answers.get("vendor_name")),
        ("device", f'torch.device("{device}"), torch.{device}, C++ namespace {device}'),
        ("package", f"import {package}, lib{package}.so"),
    ]
    variables = f"{package.upper()}_*"
    if "sdk_name" in answers:
        sdk, prefix = answers["sdk_name"], answers["sdk_prefix"]
        rows.append(("SDK", f"lib{sdk}.so, <{sdk}/{sdk}.h>, functions {prefix}Malloc, ..."))
        variables += f", {sdk.upper()}_*"
    elif answers.get("device_library") == "external":
        rows.append(("SDK", "your own: cmake/DeviceLibrary.cmake finds it, csrc/device calls it"))
    rows.append(("environment", variables))
    return "\n".join(f"  {what:<12} {value}" for what, value in rows)


def create(new: New) -> None:
    """Renders the project, shows its names, asks for confirmation on a terminal, and makes the first commit.

    Raises:
        UserError: the project cannot be created, or the user declines; nothing is written.
    """
    folder = new.folder.absolute()
    guess = vendor_from(folder.name)
    above = _repository_above(folder)
    notes: list[str] = []

    source = new.template if isinstance(new.template, Source) else None
    versions = source.versions if source else None
    require_types(new.answers, source.questions if source else {})

    def approve(rendered: Path) -> None:
        if versions:
            recorded = Project.find(rendered).template_version if new.ref else None
            record_origin(rendered, versions.address, recorded or versions.name)
        elif source and not Project.find(rendered).template_version:
            record_origin(rendered, PACKAGED, None)  # copier has recorded the folder of the snapshot
        answers = Project.find(rendered).answers
        require_asked(new.answers, answers, source.config if source else {})
        click.echo(f"The names of the project:\n\n{describe(answers)}\n")
        if new.dry_run:
            files = sorted(path.relative_to(rendered).as_posix() for path in rendered.rglob("*") if path.is_file())
            click.echo(f"{len(files)} files:\n\n  " + "\n  ".join(files) + "\n")
            raise UserError("Nothing was written.", 0)
        if not new.defaults and sys.stdin.isatty():
            _confirm(new.folder, answers)
        if new.git:
            notes.extend(_start_history(rendered, above, str(answers.get("_commit", "")), new.folder))
        point_of_no_return()

    def render(template: Source | str, ref: str | None) -> None:
        def once(given: Mapping[str, Any], suggestions: Mapping[str, Any]) -> None:
            create_project(
                folder,
                lambda to: copy(template, to, given, defaults=new.defaults, ref=ref, suggestions=suggestions),
                approve,
            )

        _until_approved(once, new.answers, {"vendor_name": guess} if guess else {})

    try:
        with interruptible():
            if not isinstance(new.template, Source):
                render(new.template, new.ref)
            elif versions and new.ref:
                render(str(versions.bundle), new.ref)
            elif new.ref and new.template.git("rev-parse", "HEAD") is None:
                raise UserError(f"This template has no versions, so --ref {new.ref} is unknown: {_GIVE_ADDRESS}", 2)
            elif new.ref or new.template.is_clean_checkout():
                render(new.template, new.ref or "HEAD")
            else:
                with new.template.snapshot() as snapshot:
                    render(snapshot, None)
                if not versions:
                    notes.append(_UNVERSIONED)
    except (KeyboardInterrupt, click.Abort) as error:
        raise UserError("Interrupted; nothing was written.", 130) from error
    for note in notes:
        click.echo(note, err=True)


def _until_approved(
    render: Callable[[Mapping[str, Any], Mapping[str, Any]], None],
    given: Mapping[str, Any],
    suggestions: Mapping[str, Any],
) -> None:
    """Calls a function with given answers and with defaults of the others, until the user changes no answer."""
    while True:
        try:
            return render(given, suggestions)
        except _ChangeAnswersError as change:
            given, suggestions = {}, change.args[0]


def _confirm(folder: Path, answers: Mapping[str, Any]) -> None:
    """Asks whether the project shall be written.

    Raises:
        UserError: it shall not.
        _ChangeAnswersError: all questions shall be asked again, with these answers as their defaults.
    """
    choice = click.prompt(
        f"Write it to {folder}? (yes, no, change the answers)",
        default="y",
        type=click.Choice(["y", "n", "c"], case_sensitive=False),
    )
    if choice == "n":
        raise UserError("Nothing was written.")
    if choice == "c":
        raise _ChangeAnswersError({name: value for name, value in answers.items() if not name.startswith("_")})


def next_steps(folder: Path) -> list[str]:
    """Returns the commands that build a new project, as a shell takes them."""
    needed = Project.find(folder).build_requirements
    install = [["pip", "install", *needed]] if needed else []
    commands = [["cd", str(folder)], *install, ["pip", "install", "--no-build-isolation", "--editable", "."]]
    return [shlex.join(command) for command in commands]


def load_answers(path: Path) -> dict[str, Any]:
    """Reads a file of answers.

    Raises:
        UserError: the file contains no answers.
    """
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path} cannot be read: {error}", 2) from error
    if not isinstance(loaded, dict):
        raise UserError(f"{path} contains no answers: write lines such as `vendor_name: Acme`.", 2)
    return loaded


def _repository_above(folder: Path) -> Path | None:
    """Returns the git repository that contains a folder or will contain it."""
    there = next(place for place in (folder, *folder.parents) if place.is_dir())
    try:
        top = Git(there).found("rev-parse", "--show-toplevel")
    except UserError:  # git is missing, which is reported later
        return None
    return Path(top) if top else None


def _start_history(rendered: Path, above: Path | None, version: str, folder: Path) -> list[str]:
    """Creates a git repository with one commit in the rendered project.

    Returns:
        What the user has to do if this is not possible.
    """
    message = f"Start from the template{f' {version}' if version else ''}"
    if above is not None:
        return [
            f"{folder} is in the git repository {above}: commit it there, since `torch-backend update` needs a commit."
        ]
    git = Git(rendered)
    try:
        git.run("init", "--quiet")
        git.run("add", "--all")
        if not git.succeeds("var", "GIT_AUTHOR_IDENT") or not git.succeeds("var", "GIT_COMMITTER_IDENT"):
            return [
                "git does not know your name, so nothing is committed yet. Run these in the project:\n\n"
                '  git config --global user.name "Your Name"\n'
                "  git config --global user.email you@example.com\n"
                f'  git commit --message "{message}"\n'
            ]
        git.run("commit", "--quiet", "--no-verify", "--message", message)
    except UserError as error:
        return [f"The project has no first commit, which `torch-backend update` needs: {error}"]
    return []
