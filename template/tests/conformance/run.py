"""Run all of PyTorch's device-generic tests that this project has, and hold the outcome against what it claims.

The tests run in several processes, one after another or side by side; one that dies is started again after the test that
it died in. The exit code is 1 if a test fails that is no exception, passes that is one, or if fewer pass than claimed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeAlias

import torch

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]

import claims  # noqa: E402
import record  # noqa: E402
from claims import Name  # noqa: E402

PATIENCE = 900
"""Seconds without the end of a test after which a process is taken to hang."""

States: TypeAlias = dict[Name, tuple[str, str]]
"""The state of each test and a message, see ``record.read``."""
Counts: TypeAlias = dict[str, dict[str, dict[str, int]]]
"""How many tests pass, by suite, kind and dtype."""


def main() -> int:
    options = _options()
    options.results.mkdir(parents=True, exist_ok=True)
    for old in options.results.glob("[0-9][0-9][0-9].*"):
        if options.resume and old.suffix == ".jsonl":
            forget_failures(old)
        else:
            old.unlink()
    parts = range(options.parts) if options.part is None else [options.part]
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda index: run_part(index, options.parts, options.results, options.pytest), parts))
    states = collect(options.results)
    if not states:
        print(f"No test has run; the messages are in {options.results}/*.log.")
        return 1
    print(tables(states))
    whole = options.part is None and not options.pytest
    problems = failures(states) + (broken_claims(states) if whole else [])
    if options.update:
        update(states)
        problems = failures(states)
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems" if problems else "All claims hold.")
    return 1 if problems else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side (default: 1)")
    parser.add_argument("--parts", type=int, default=12, help="processes in all (default: 12)")
    parser.add_argument("--part", type=int, help="run only the part with this index")
    parser.add_argument("--results", type=Path, default=Path("build/conformance"), help="folder for the outcome")
    parser.add_argument(
        "--resume", action="store_true", help="keep what has passed by what is in that folder, run the rest"
    )
    parser.add_argument("--update", action="store_true", help="write the numbers of passing tests into claims.json")
    parser.add_argument("pytest", nargs="*", help="options for pytest, after --, such as -- -k 'values and float16'")
    options = parser.parse_args()
    if options.jobs < 1 or options.parts < 1 or not 0 <= (options.part or 0) < options.parts:
        parser.error("--jobs and --parts are at least 1, and --part is an index below --parts")
    if options.update and (options.part is not None or options.pytest):
        parser.error("--update needs the whole run: leave out --part and the options for pytest")
    return options


def forget_failures(file: Path) -> None:
    """Leave in a part's outcome the tests that need not run again."""
    done = {name: outcome for name, outcome in record.read(file).items() if outcome[0] not in ("failed", "crashed")}
    file.write_text("".join(json.dumps([name, *outcome]) + "\n" for name, outcome in done.items()))


def run_part(index: int, count: int, results: Path, options: list[str]) -> None:
    """Run every `count`-th entry of the databases, in as many processes as die on the way."""
    file = results / f"{index:03}.jsonl"
    while True:
        before = len(record.read(file))
        code = _run_process(index, count, file, options)
        if code in (0, 1, 5):  # of pytest: all passed, some failed, none left to run
            return
        if len(record.read(file)) == before:
            raise SystemExit(f"pytest ended with {code}: its messages are in {file.with_suffix('.log')}")


def _run_process(index: int, count: int, file: Path, options: list[str]) -> int:
    environment = os.environ | {
        claims.PART: f"{index}/{count}",
        record.FILE: str(file.resolve()),
        "PYTHONPATH": os.pathsep.join([str(FOLDER.parent), str(FOLDER), os.environ.get("PYTHONPATH", "")]),
        "PYTORCH_PRINT_REPRO_ON_FAILURE": "0",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "record", "--tb=short", *options, str(FOLDER)]
    with file.with_suffix(".log").open("a") as log:
        started = time.time()
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        while True:
            try:
                return process.wait(30)
            except subprocess.TimeoutExpired:
                active = max(started, file.stat().st_mtime if file.exists() else 0)
                if time.time() - active > PATIENCE:
                    process.kill()


def collect(results: Path) -> States:
    """Return the outcome of all parts."""
    found: States = {}
    for file in sorted(results.glob("*.jsonl")):
        found |= {Name(*name.split(" ")): outcome for name, outcome in record.read(file).items()}
    return found


def passed(states: States) -> Counts:
    counts: Counts = {}
    for test, (state, _) in sorted(states.items()):
        if state == "passed":
            by_dtype = counts.setdefault(test.suite, {}).setdefault(test.kind, {})
            by_dtype[test.dtype] = by_dtype.get(test.dtype, 0) + 1
    return counts


def tables(states: States) -> str:
    """Return two tables: the outcome by suite and kind, and by suite and dtype."""
    rows = [("suite", "of", "passed", "excepted", "failed", "skipped", "")]
    for column in ("kind", "dtype"):
        groups: dict[tuple[str, str], Counter[str]] = {}
        for test, (state, _) in sorted(states.items()):
            groups.setdefault((test.suite, getattr(test, column)), Counter())[state] += 1
        rows += [("", "", "", "", "", "", "")]
        rows += [_row(suite, name, counts) for (suite, name), counts in groups.items()]
    rows += [_row("all", "", Counter(state for state, _ in states.values()))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _row(suite: str, name: str, counts: Counter[str]) -> tuple[str, ...]:
    failed = counts["failed"] + counts["crashed"]
    judged = counts["passed"] + counts["excepted"] + failed
    percent = f"{100 * counts['passed'] / judged:.2f}%" if judged else ""
    return (suite, name, str(counts["passed"]), str(counts["excepted"]), str(failed), str(counts["skipped"]), percent)


def failures(states: States) -> list[str]:
    """Return a line for each test that has failed."""
    bad = [(test, *outcome) for test, outcome in sorted(states.items()) if outcome[0] in ("failed", "crashed")]
    return [f"{state}: {test}: {' '.join(message.split())[:300]}" for test, state, message in bad]


def broken_claims(states: States) -> list[str]:
    """Return a line for each exception without a test, and for each number of passing tests that has fallen."""
    known = claims.load()
    names = [str(test) for test in states]
    lines = [
        f"{claims.FILE.name}: no test is named {pattern!r}: remove this exception"
        for pattern in [*known["exceptions"], *known["not_run"]]
        if not any(fnmatchcase(name, pattern) for name in names)
    ]
    if known.get("torch") != release(torch.__version__):
        print(f"The numbers in {claims.FILE.name} are those of torch {known.get('torch')}: they say nothing here.")
        return lines
    now = passed(states)
    for suite, kind, dtype, claimed in _flat(known["passed"]):
        count = now.get(suite, {}).get(kind, {}).get(dtype, 0)
        if count < claimed:
            lines.append(f"{suite} {kind} {dtype}: {count} tests pass, and {claimed} are claimed")
    return lines


def _flat(counts: Counts) -> Iterable[tuple[str, str, str, int]]:
    return [
        (suite, kind, dtype, count)
        for suite, kinds in counts.items()
        for kind, dtypes in kinds.items()
        for dtype, count in dtypes.items()
    ]


def release(version: str) -> str:
    """Return ``2.13.0`` for ``2.13.0+cpu``."""
    return version.partition("+")[0]


def update(states: States) -> None:
    """Write the numbers of passing tests into the claims, and print those that have fallen."""
    for line in broken_claims(states):
        print(f"no longer claimed: {line}")
    known: dict[str, Any] = claims.load() | {"torch": release(torch.__version__), "passed": passed(states)}
    copy = claims.FILE.with_suffix(".new")
    copy.write_text(json.dumps(known, indent=2) + "\n")
    shutil.move(copy, claims.FILE)


if __name__ == "__main__":
    sys.exit(main())
