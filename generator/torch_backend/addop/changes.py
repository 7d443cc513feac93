"""Changes of several files of a project: all of them or none."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from torch_backend.errors import UserError
from torch_backend.project import Project

PORTING = Path("docs") / "porting.py"
PORTING_PAGE = Path("docs") / "porting.md"


@contextmanager
def all_or_nothing(project: Project) -> Iterator[ExitStack]:
    """Undoes what was done if a step fails. Each step adds a callback that undoes it.

    Raises:
        UserError: a step failed; the project is unchanged.
    """
    with ExitStack() as undo:
        try:
            yield undo
        except (OSError, subprocess.CalledProcessError) as error:
            reason = getattr(error, "stderr", None) or error
            raise UserError(f"{project.root} cannot be changed: {reason}. Nothing was changed.") from error
        undo.pop_all()


def create(path: Path, text: str, undo: ExitStack) -> None:
    """Writes a new file."""
    with path.open("x", encoding="utf-8", newline="\n") as file:
        undo.callback(path.unlink)
        file.write(text)


def replace(path: Path, text: str, undo: ExitStack) -> None:
    """Replaces the text of a file."""
    before = path.read_bytes()
    undo.callback(path.write_bytes, before)
    path.write_text(text, encoding="utf-8", newline="\n")


def remove(path: Path, undo: ExitStack) -> None:
    """Removes a file."""
    before = path.read_bytes()
    undo.callback(path.write_bytes, before)
    path.unlink()


def write_porting_page(project: Project, python: Path, undo: ExitStack) -> None:
    """Has the project write the list of its porting page anew, if it has the page."""
    page = project.root / PORTING_PAGE
    if page.is_file() and (project.root / PORTING).is_file():
        replace(page, page.read_text(encoding="utf-8"), undo)
        subprocess.run([str(python), str(project.root / PORTING)], check=True, capture_output=True, text=True)
