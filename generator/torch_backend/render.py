"""Renders the template. Only this module uses copier, and never with unsafe=True."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from copier import run_copy
from copier.errors import CopierAnswersInterrupt, CopierError, CopierWarning, InteractiveSessionError
from jinja2 import TemplateError, TemplateSyntaxError
from plumbum import ProcessExecutionError
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import DummyInput
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.utils import is_dumb_terminal

from .errors import UserError, describe
from .source import Source

ANSWERS_FILE = ".copier-answers.yml"
SUFFIX = ".jinja"


def explain(error: BaseException) -> UserError:  # noqa: PLR0911 -- one for each kind of error
    """Turns an exception of copier into a message for the user."""
    text = str(error)
    if isinstance(error, ProcessExecutionError):
        lines = str(error.stderr or error.stdout).strip().splitlines()
        return UserError(f"git cannot read the template: {lines[-1] if lines else f'exit code {error.retcode}'}", 2)
    if isinstance(error, InteractiveSessionError):
        plain = " (TERM=dumb)" if is_dumb_terminal() else ""
        return UserError(
            f"There is no terminal for questions{plain}: pass --defaults and answers as options (--data with update).",
            2,
        )
    if isinstance(error, (CopierAnswersInterrupt, KeyboardInterrupt)):
        return UserError("Interrupted; nothing was written.", 130)
    if isinstance(error, TemplateSyntaxError):
        return UserError(f"{error.filename or 'a template file'}:{error.lineno}: {text}")
    if match := re.match(r"Validation error for question '(\w+)': (.*)", text, re.DOTALL):
        return UserError(f"{match[1]}: {match[2]}", 2)
    if match := re.match(r"Invalid choice for '(\w+)': (.*) is not in \[(.*)\]", text, re.DOTALL):
        return UserError(f"{match[1]}: {match[2]} is not offered: type one of {match[3]}.", 2)
    return UserError(text or type(error).__name__, 2)


def copy(
    source: Source | str,
    target: Path,
    answers: Mapping[str, Any],
    *,
    defaults: bool = True,
    ref: str | None = None,
    suggestions: Mapping[str, Any] | None = None,
) -> None:
    """Renders into a folder that does not exist or is empty.

    Args:
        source: the template, or its address.
        target: the folder.
        answers: answers to questions, which are then not asked.
        defaults: use the defaults of all other questions instead of asking them.
        ref: version of the template.
        suggestions: defaults that replace those of the template.

    Raises:
        UserError: an answer is refused, or the template is broken; the target is unchanged.
    """
    address = str(source.root) if isinstance(source, Source) else source
    try:
        with warnings.catch_warnings(), _questions():
            warnings.simplefilter("ignore", CopierWarning)
            run_copy(
                address,
                target,
                data=dict(answers),
                user_defaults=dict(suggestions or {}),
                defaults=defaults,
                vcs_ref=ref,
                quiet=True,
                unsafe=False,
            )
    except (CopierError, TemplateError, ValueError, TypeError, ProcessExecutionError, KeyboardInterrupt) as error:
        raise explain(error) from error


def _questions() -> AbstractContextManager[Any]:
    """Stops questions on a terminal that cannot move its cursor: copier would print control sequences as text."""
    return create_app_session(input=DummyInput(), output=DummyOutput()) if is_dumb_terminal() else nullcontext()


def record_origin(project: Path, address: str, version: str | None) -> None:
    """Replaces the template's address and version in the answers file, which copier took from a copy.

    Args:
        project: the rendered project.
        address: the address to record.
        version: the version; None if the template has none.
    """
    path = project / ANSWERS_FILE
    text = re.sub(r"^(_src_path|_commit):.*\n( .*\n)*", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    heading, answers = text.split("\n", 1)
    recorded = ({"_commit": version} if version else {}) | {"_src_path": address}
    origin = yaml.safe_dump(recorded, width=10**6, allow_unicode=True)
    path.write_text(f"{heading}\n{origin}{answers}", encoding="utf-8")


@dataclass(frozen=True)
class File:
    """A rendered file: what drift is measured by."""

    content: bytes
    executable: bool

    @property
    def text(self) -> str | None:
        """The content as text, None if it is binary."""
        if b"\0" in self.content:
            return None
        try:
            return self.content.decode("utf-8")
        except UnicodeDecodeError:
            return None


Tree = dict[str, File]


def read_tree(folder: Path, names: list[str] | None = None) -> Tree:
    """Reads files below a folder, by POSIX path relative to it; all of them, or those named."""
    if names is None:
        names = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]
    return {name: File((folder / name).read_bytes(), os.access(folder / name, os.X_OK)) for name in sorted(names)}


def write_file(path: Path, file: File) -> None:
    """Writes content and run bit."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.content)
    path.chmod(path.stat().st_mode | 0o111 if file.executable else path.stat().st_mode & ~0o111)


def render_tree(source: Source, answers: Mapping[str, Any]) -> Tree:
    """Renders the template as it lies in the working folder. Nothing in the result depends on where that is."""
    with source.snapshot() as snapshot, tempfile.TemporaryDirectory(prefix="torch-backend-") as folder:
        target = Path(folder) / "project"
        copy(snapshot, target, answers)
        tree = read_tree(target)
    if file := tree.get(ANSWERS_FILE):
        # Where and from which commit a test render was made is of no use to anybody, and would differ each time.
        lines = file.content.decode().splitlines(keepends=True)
        kept = [line for line in lines if not line.startswith(("_src_path:", "_commit:"))]
        tree[ANSWERS_FILE] = File("".join(kept).encode(), file.executable)
    return tree


def create_project(
    target: Path, render: Callable[[Path], None], approve: Callable[[Path], None] = lambda rendered: None
) -> None:
    """Makes a new project; all of it appears at once, or nothing does.

    Args:
        target: its folder.
        render: renders into a folder that does not exist.
        approve: gets the rendered project, which it may add to, before it takes its place; raises to stop.

    Raises:
        UserError: the target holds something already, or an answer is refused.
    """
    target = target.absolute()
    empty = target.is_dir() and all(path.name == ".git" for path in target.iterdir())
    if target.exists() and not empty:
        raise UserError(
            f"{target} exists and is not empty: name a folder that does not exist yet; nothing was written.", 2
        )
    made = next((path for path in (*reversed(target.parents), target) if not path.exists()), None)
    moved: list[Path] = []
    try:
        place = target if empty else target.parent
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=place) as folder:
            rendered = Path(folder) / "project"
            render(rendered)
            approve(rendered)
            if not empty:
                rendered.rename(target)
                return
            for path in sorted(rendered.iterdir()):
                moved.append(target / path.name)
                path.rename(target / path.name)
    except BaseException as error:
        for path in [made] if made else moved:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.exists():
                path.unlink()
        if isinstance(error, OSError):
            raise UserError(f"Cannot write {target}: {describe(error)}", 2) from error
        raise
