"""Lists the files of a project in a work tree and compares two sets of files."""

from __future__ import annotations

import difflib
import subprocess
from pathlib import Path

from torch_backend.render import Tree, read_tree

from .layout import IGNORED


def project_files(folder: Path) -> list[str]:
    """Returns the files of a project: those that git does not ignore, or without git all except known build outputs."""
    command = ["git", "-C", str(folder), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "."]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        names = done.stdout.split("\0") if done.returncode == 0 else []
    except FileNotFoundError:
        names = []
    if not any(names):
        names = [p.relative_to(folder).as_posix() for p in folder.rglob("*")]
    return sorted({name for name in names if name and not IGNORED.search(name) and (folder / name).is_file()})


def read_project(folder: Path) -> Tree:
    """Reads the files of a project, see ``project_files``."""
    return read_tree(folder, project_files(folder))


def describe_difference(old: Tree, new: Tree, old_name: str, new_name: str, limit: int = 400) -> str:
    """Returns a unified diff of two trees, of at most ``limit`` lines; empty if they are equal."""
    out: list[str] = []
    for path in sorted(old.keys() | new.keys()):
        a, b = old.get(path), new.get(path)
        if a == b:
            continue
        if a is None or b is None:
            out.append(f"only in {new_name if a is None else old_name}: {path}")
            continue
        if a.executable != b.executable:
            out.append(f"{path}: run bit {'set' if a.executable else 'missing'} in {old_name}, not so in {new_name}")
        if a.content != b.content:
            if a.text is None or b.text is None:
                out.append(f"{path}: binary files differ")
            else:
                lines = difflib.unified_diff(
                    a.text.splitlines(),
                    b.text.splitlines(),
                    f"{old_name}/{path}",
                    f"{new_name}/{path}",
                    lineterm="",
                    n=2,
                )
                out += list(lines) or [f"{path}: line ends differ"]
    if len(out) > limit:
        out = [*out[:limit], f"... and {len(out) - limit} lines more"]
    return "\n".join(out)
