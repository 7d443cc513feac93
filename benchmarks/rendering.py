"""Measures the time of a new project: `torch-backend new`, and plain `copier copy` of the same template.

For comparison it measures copier with a template of as many empty files, which is the least time for both.
Run it with the interpreter of `.venv`, on a machine that does nothing else: `.venv/bin/python benchmarks/rendering.py`.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from torch_backend.source import find_source

NEW = ("torch_backend", "new", "--defaults", "--no-git", "--vendor-name", "Acme")
COPY = ("copier", "copy", "--defaults", "--quiet")


def seconds(*arguments: str | Path) -> float:
    """Returns the wall time of a command, with the start of Python."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    """Print the median of each command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="interleaved measurements (default: %(default)s)")
    rounds = parser.parse_args().rounds
    with find_source().snapshot() as snapshot, tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        copy_template = (*COPY, "--data", "vendor_name=Acme", snapshot.root)
        seconds(*copy_template, scratch / "first")
        paths = [path.relative_to(scratch / "first") for path in (scratch / "first").rglob("*") if path.is_file()]
        empty = scratch / "empty"
        for path in paths:
            (empty / path).parent.mkdir(parents=True, exist_ok=True)
            (empty / path).touch()
        (empty / "copier.yml").write_text("_min_copier_version: '9'\n")
        commands: dict[str, tuple[str | Path, ...]] = {
            "torch-backend new": NEW,
            "copier copy": copy_template,
            "copier copy of empty files": (*COPY, empty),
        }
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(rounds):
            for index, (name, command) in enumerate(commands.items()):
                taken[name].append(seconds(*command, scratch / f"{index}-{number}"))
    print(f"{len(paths)} files, median of {rounds} rounds")
    for name, times in taken.items():
        print(f"{name}: {statistics.median(times):.2f} s")


if __name__ == "__main__":
    main()
