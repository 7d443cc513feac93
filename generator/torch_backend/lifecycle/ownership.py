"""The vendor's text: it gets the template's new names, and in files of a port it wins over the template."""

from __future__ import annotations

import difflib
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch_backend.errors import UserError
from torch_backend.git import Git

# The files that a port writes. A rendered project's README.md calls them the port's.
WRITTEN_BY_VENDORS = ("csrc/device/*.cpp", "csrc/device/Handles.h", "csrc/device/Kernel.h", "cmake/DeviceLibrary.cmake")

Replaced = Counter[tuple[str, str]]
Rewrite = Callable[[str], tuple[str, Replaced]]

_CONFLICT = re.compile(
    r"^<{7} .*\n(?:.*\n)*?^\|{7} .*\n(?P<base>(?:.*\n)*?)^={7}\n(?P<theirs>(?:.*\n)*?)^>{7} .*\n",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Entry:
    """A file in a tree, as git lists it."""

    mode: str
    sha: str


Entries = dict[str, Entry]


def rewritten(git: Git, entries: Entries, rewrite: Rewrite) -> tuple[Entries, dict[str, Replaced]]:
    """Puts the new names into every text file.

    Returns:
        The files, and the replaced words of each changed file.
    """
    files = {path: entry for path, entry in entries.items() if entry.mode.startswith("100")}
    texts = _read(git, {entry.sha for entry in files.values()})
    result, replaced = dict(entries), {}
    for path, entry in files.items():
        text = texts.get(entry.sha)
        if text is None:
            continue
        changed, what = rewrite(text)
        if what:
            sha = git.run("hash-object", "-w", "--stdin", given=changed.encode()).decode().strip()
            result[path], replaced[path] = Entry(entry.mode, sha), what
    return result, replaced


def _read(git: Git, shas: set[str]) -> dict[str, str]:
    """Returns the blobs that are text."""
    output = git.run("cat-file", "--batch", given="".join(f"{sha}\n" for sha in sorted(shas)).encode())
    found, position = {}, 0
    while position < len(output):
        end = output.index(b"\n", position)
        sha, _, size = output[position:end].decode().split(" ")
        content = output[end + 1 : end + 1 + int(size)]
        position = end + 1 + int(size) + 1
        if b"\0" not in content:
            try:
                found[sha] = content.decode("utf-8")
            except UnicodeDecodeError:
                continue
    return found


def merged_for_vendor(git: Git, stages: Mapping[int, Entry]) -> tuple[bytes, str]:
    """Merges a file that both sides have edited; where they disagree, the vendor's text stays.

    Args:
        git: the scratch repository.
        stages: 1 for the old template, 2 for the project, 3 for the new template.

    Returns:
        The file, and the diff of the template's changes at those places.

    Raises:
        UserError: git cannot merge them.
    """
    with tempfile.TemporaryDirectory(prefix="torch-backend-") as scratch:
        names = {1: "base", 2: "ours", 3: "theirs"}
        for stage, name in names.items():
            (Path(scratch) / name).write_bytes(git.run("cat-file", "blob", stages[stage].sha))
        # The user's git settings could select other markers.
        merge = ("-c", "merge.conflictStyle=merge", "merge-file", "-p", "ours", "base", "theirs")
        done = Git(Path(scratch)).call(*merge, "--diff3")
        if done.returncode < 0 or done.returncode >= 128:
            raise UserError(f"git cannot merge a file: {done.stderr.decode(errors='replace').strip()}", 2)
        kept = Git(Path(scratch)).call(*merge, "--ours").stdout
    places = []
    for match in _CONFLICT.finditer(os.fsdecode(done.stdout)):
        lines = difflib.unified_diff(match["base"].splitlines(), match["theirs"].splitlines(), lineterm="", n=1)
        places.append("\n".join(line for line in lines if not line.startswith(("--- ", "+++ "))))
    return kept, "\n".join(places)
