"""Gives operators back to emulation: removes what add-op has written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch_backend.errors import UserError
from torch_backend.git import Git
from torch_backend.project import Project

from .changes import all_or_nothing, remove, replace, write_porting_page
from .operator_list import LIST, with_again
from .registered import kernels
from .spelling import NATIVE, kernel_path, test_paths


@dataclass(frozen=True)
class Removed:
    """What was removed for one operator; paths are relative to the project.

    Attributes:
        name: the operator, such as ``gelu``.
        functions: the overloads that have no kernel of their own any more.
        files: the removed files.
    """

    name: str
    functions: list[str]
    files: list[Path]

    def to_json(self) -> dict[str, Any]:
        """Returns the same data as plain values."""
        return {"name": self.name, "functions": self.functions, "files": [path.as_posix() for path in self.files]}


def remove_operators(
    project: Project, names: Sequence[str], *, python: Path, force: bool = False, dry_run: bool = False
) -> list[Removed]:
    """Removes the kernel and the test of each operator, and puts it back on the list of emulated ones.

    Args:
        project: the project.
        names: the names that were given to add-op, with or without ``aten::``.
        python: the interpreter for docs/porting.py.
        force: remove files that git cannot give back.
        dry_run: change nothing.

    Raises:
        UserError: an operator has no kernel by add-op, or git cannot give a file back. Nothing is removed then.
    """
    present = kernels(project.root)
    removed, problems = [], []
    for name in dict.fromkeys(name.removeprefix("aten::") for name in names):
        kernel = kernel_path(name)
        test = next((path for path in test_paths(name) if (project.root / path).is_file()), None)
        if not (project.root / kernel).is_file():
            problems.append(_without_file(name, kernel, present))
        elif test is None:
            problems.append(
                f"{kernel.as_posix()} has no test {test_paths(name)[0].as_posix()}, so add-op did not write it: "
                "remove it by hand."
            )
        else:
            functions = sorted(schema for schema, path in present.items() if path == kernel.as_posix())
            removed.append(Removed(name, functions, [kernel, test]))
    files = [path for operator in removed for path in operator.files]
    if not force:
        problems += [
            f"{path.as_posix()} has changes that are not committed, so git could not give them back: commit it, "
            "or pass --force."
            for path in files
            if not _committed(project, path)
        ]
    if problems:
        raise UserError("\n".join([*problems, "Nothing was removed."]), 1)
    if not dry_run:
        _remove(project, removed, files, python)
    return removed


def _without_file(name: str, kernel: Path, present: dict[str, str]) -> str:
    """Returns why an operator without the file of add-op cannot be removed."""
    places = {path for schema, path in present.items() if name in (schema, schema.split(".")[0].rstrip("_"))}
    other = sorted(
        path for path in places if path.startswith(NATIVE.as_posix()) and Path(path).stem.startswith(kernel.stem)
    )
    if other:
        return f"aten::{name} has kernels in {', '.join(other)}: give the name of the overload, as to add-op."
    if places:
        return f"aten::{name} has its kernel in {', '.join(sorted(places))}, not by add-op: remove it by hand."
    return f"aten::{name} has no kernel: there is no {kernel.as_posix()}."


def _committed(project: Project, path: Path) -> bool:
    git = Git(project.root)
    there = git.succeeds("cat-file", "-e", f"HEAD:./{path.as_posix()}")
    return there and git.succeeds("diff", "--quiet", "HEAD", "--", f":(literal){path.as_posix()}")


def _remove(project: Project, removed: list[Removed], files: list[Path], python: Path) -> None:
    """Removes files and changes the list and the page; puts everything back if one step fails."""
    listed = with_again(project, {schema for operator in removed for schema in operator.functions})
    with all_or_nothing(project) as undo:
        for path in files:
            remove(project.root / path, undo)
        replace(project.root / LIST, listed, undo)
        write_porting_page(project, python, undo)
