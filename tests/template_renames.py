"""Finds files of the template that were renamed without an entry in migrations.yml.

``python -m tests.template_renames [OLD [NEW]]`` prints them as lines for that file; by default between the oldest
commit that is carried over and the work tree, whose new files have to be known to git (``git add``).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import PurePosixPath

from torch_backend.lifecycle import migrations

from .running import ROOT, git

OLDEST = "b2758cc2a64176207952c9cc7ec48ac2e5f4501e"  # projects made from here on are carried over

# What git takes for a renamed file and is not: the old file's content went elsewhere, or nowhere.
NOT_RENAMED: set[tuple[str, str]] = {
    ("python/{{ package_name }}/csrc/Ipc.h", "csrc/runtime/ipc/Ipc.h"),
    ("python/{{ package_name }}/csrc/Ipc.cpp", "csrc/device/substitutes/Ipc.cpp"),
}


def why_no_history() -> str:
    """Returns why git cannot read the oldest commit, as the reason of a skip; empty if git can."""
    if not (ROOT / ".git").exists():
        return f"This folder is not a git checkout, so it does not hold the commit {OLDEST[:7]}."

    def succeeds(*arguments: str) -> bool:
        return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False).returncode == 0

    if not succeeds("cat-file", "-e", f"{OLDEST}^{{commit}}") and (
        git(ROOT, "rev-parse", "--is-shallow-repository").strip() == "true"
    ):
        return f"The clone is shallow and does not hold the commit {OLDEST[:7]}: `git fetch --unshallow` completes it."
    return ""


def rendered(path: str) -> str:
    """The path that a file of the template has in a project; names stay placeholders."""
    path = re.sub(r"{%.*?%}", "", path.removeprefix("template/"))
    return path.removesuffix(".jinja")


def renamed(old: str, new: str | None = None) -> list[tuple[str, str]]:
    """Returns the files that moved or were renamed between two commits, as paths in a project."""
    command = ["git", "-C", str(ROOT), "diff", "-z", "-M", "-l0", "--name-status", old, *([new] if new else [])]
    fields = iter(
        os.fsdecode(subprocess.run([*command, "--", "template"], capture_output=True, check=True).stdout).split("\0")
    )
    pairs: list[tuple[str, str]] = []
    gone: set[str] = set()
    come: set[str] = set()
    for kind in fields:
        if kind.startswith("R"):
            pairs.append((rendered(next(fields)), rendered(next(fields))))
        elif kind:
            {"D": gone, "A": come}.get(kind, set()).add(rendered(next(fields)))
    by_name = {PurePosixPath(path).name: path for path in sorted(come)}
    pairs += [(path, by_name[name]) for path in gone - come if (name := PurePosixPath(path).name) in by_name]
    return sorted((before, after) for before, after in pairs if before != after)


def without_migration(old: str = OLDEST, new: str | None = None) -> list[tuple[str, str]]:
    """Returns the renames that migrations.yml of the work tree does not list."""
    steps = migrations.parse((ROOT / migrations.FILE).read_text(encoding="utf-8"))
    made = [pair for step in steps for pair in step.renames.items()]
    moved = [(before, after) for before, after in renamed(old, new) if (before, after) not in NOT_RENAMED]
    return [(before, after) for before, after in moved if migrations.rename(before, made) != after]


if __name__ == "__main__":
    for before, after in without_migration(*sys.argv[1:3]):
        quote = '"' if "{" in before + after else ""
        print(f"    {quote}{before}{quote}: {quote}{after}{quote}")
