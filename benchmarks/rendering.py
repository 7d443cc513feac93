"""How long copier takes to render the template, and one with as many empty files: the ratio is what ours costs.

Run it with the interpreter of `.venv`, on a machine that does nothing else: `.venv/bin/python benchmarks/rendering.py`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from torch_backend.render import copy
from torch_backend.source import find_source


def seconds(template: Path, target: Path) -> float:
    """Wall time of one rendering, copier's calls of git included."""
    started = time.perf_counter()
    copy(str(template), target, {"vendor_name": "Acme"} if (template / "includes").exists() else {})
    return time.perf_counter() - started


def main() -> None:
    """Print medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="interleaved measurements (default: %(default)s)")
    rounds = parser.parse_args().rounds
    with find_source().snapshot() as snapshot, tempfile.TemporaryDirectory() as folder:
        template, scratch = Path(snapshot.root), Path(folder)
        seconds(template, scratch / "first")
        paths = [path.relative_to(scratch / "first") for path in (scratch / "first").rglob("*") if path.is_file()]
        empty = scratch / "empty"
        for path in paths:
            (empty / path).parent.mkdir(parents=True, exist_ok=True)
            (empty / path).touch()
        (empty / "copier.yml").write_text("_min_copier_version: '9'\n")
        ours, theirs = [], []
        for number in range(rounds):
            ours.append(seconds(template, scratch / f"ours-{number}"))
            theirs.append(seconds(empty, scratch / f"theirs-{number}"))
    mine, floor = statistics.median(ours), statistics.median(theirs)
    print(f"{len(paths)} files: {mine:.2f} s; as many empty files: {floor:.2f} s; ratio {mine / floor:.2f}")


if __name__ == "__main__":
    main()
