"""A pytest plugin that writes down what became of each test, line by line, so that it is known even if the process dies.

A run goes on after the last test in the file: run.py starts it again after a crash.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from claims import parse

FILE = "CONFORMANCE_RECORD"
"""The environment variable that names the file."""


def read(file: Path) -> dict[str, tuple[str, str]]:
    """Return the state of each test in the file, ``passed``, ``failed``, ``excepted``, ``skipped`` or ``crashed``, and a message."""
    states: dict[str, tuple[str, str]] = {}
    for line in file.read_text().splitlines() if file.exists() else []:
        name, state, message = json.loads(line)
        states[name] = (state, message)
    return states


def write(name: str, state: str, message: str) -> None:
    with Path(os.environ[FILE]).open("a") as file:
        file.write(json.dumps([name, state, message]) + "\n")


def name_of(item: pytest.Item) -> str | None:
    """Return the name of a test by which claims are made; None for other tests in the folder."""
    return str(parse(str(item.path), item.name)) if isinstance(getattr(item, "cls", None), type) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    done = read(Path(os.environ[FILE]))
    config.hook.pytest_deselected(items=[item for item in items if name_of(item) in done])
    items[:] = [item for item in items if name_of(item) not in done]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if name := name_of(item):
        write(name, "crashed", "the process ended in it")
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    name = name_of(item)
    if name and (report.when == "call" or report.outcome != "passed"):
        write(name, *_state(report))
    return report


def _state(report: pytest.TestReport) -> tuple[str, str]:
    if hasattr(report, "wasxfail"):
        return "excepted", str(report.wasxfail)
    if report.skipped:
        return "skipped", report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    if report.passed:
        return "passed", ""
    crash = getattr(report.longrepr, "reprcrash", None)
    message = crash.message if crash else str(report.longrepr)
    return "failed", message
