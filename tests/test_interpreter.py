"""Questions to another Python: items that it sent before it ended are kept, however it ends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from torch_backend import interpreter
from torch_backend.errors import UserError
from torch_backend.interpreter import ask, find_python, require_python
from torch_backend.project import Project

from .fakes import install

PYTHON = Path(sys.executable)


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of ``inside/``."""
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.setattr(interpreter, "INSIDE", folder)
    return folder


def write(scripts: Path, body: str) -> None:
    code = "import os, signal, sys, time\ndef report(*arguments):\n"
    (scripts / "ask.py").write_text(code + "".join(f"    {line}\n" for line in body.splitlines()))


def test_what_is_reported_comes_back(scripts: Path) -> None:
    write(scripts, "print('noise')\nyield 'arguments', arguments\nyield 'umlaut', 'ä\\n'")
    outcome = ask(PYTHON, "ask", "one", "two words")
    assert outcome.items == [["arguments", ["one", "two words"]], ["umlaut", "ä\n"]]
    assert (outcome.failure, outcome.errors, outcome.reason, outcome.crashed) == ("", "", "", False)


def test_variables_are_set_and_removed_for_the_process(scripts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GONE", "1")
    monkeypatch.setenv("KEPT", "2")
    write(scripts, "yield [os.environ.get(name) for name in ('GONE', 'KEPT', 'NEW')]")
    assert ask(PYTHON, "ask", variables={"GONE": None, "NEW": "3"}).items == [[None, "2", "3"]]


@pytest.mark.parametrize(
    ("end", "failure"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was ended by SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "was ended by SIGKILL"),
        ("os._exit(7)", "ended with exit code 7"),
        ("time.sleep(600)", "did not end within 2 seconds and was killed"),
    ],
)
def test_items_before_a_crash_are_kept(scripts: Path, end: str, failure: str) -> None:
    write(scripts, f"yield 1\nyield 2\n{end}\nyield 3")
    outcome = ask(PYTHON, "ask", time_limit=2 if "sleep" in end else 60)
    assert (outcome.items, outcome.failure, outcome.crashed) == ([1, 2], failure, True)


def test_a_grandchild_that_lives_on_is_not_waited_for(scripts: Path) -> None:
    write(scripts, "import subprocess\nsubprocess.Popen(['sleep', '20'])\nyield 'done'")
    outcome = ask(PYTHON, "ask", time_limit=10)
    assert (outcome.items, outcome.failure) == (["done"], "")


def test_reason_is_the_first_of_chained_exceptions(scripts: Path) -> None:
    write(
        scripts,
        "try:\n    raise ImportError('the cause')\nexcept ImportError as error:\n"
        "    raise RuntimeError('many\\nlines') from error\nyield",
    )
    outcome = ask(PYTHON, "ask")
    assert (outcome.failure, outcome.reason) == ("ended with exit code 1", "ImportError: the cause")
    assert not outcome.crashed


def test_nothing_is_imported_from_the_current_folder(
    scripts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shadow.py").touch()
    monkeypatch.chdir(tmp_path)
    write(scripts, "import importlib.util\nyield importlib.util.find_spec('shadow') is None")
    assert ask(PYTHON, "ask").items == [True]


def test_a_file_that_is_no_interpreter_is_an_error(scripts: Path, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("not a program")
    broken.chmod(0o755)
    write(scripts, "yield 1")
    with pytest.raises(UserError, match="cannot be started"):
        ask(broken, "ask")


def environment_with(folder: Path, version: str | None) -> Path:
    """An environment whose Python has a torch of some version, or none."""
    site = folder / "site"
    site.mkdir(parents=True)
    if version is not None:
        install(site, "torch", version=version)
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec {PYTHON} -S "$@"\n')
    python.chmod(0o755)
    return python


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project for torch 1.13."""
    root = tmp_path / "project"
    root.mkdir()
    return Project(root, {"device_name": "acme", "package_name": "torch_acme", "torch_minor": "1.13"})


@pytest.fixture
def active(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the active environment, which is not there yet. The Python that runs the command has no torch."""
    monkeypatch.setattr(sys, "executable", str(environment_with(tmp_path / "running", None)))
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    return tmp_path / "active"


def test_the_commands_own_python_is_used_if_it_has_torch() -> None:
    assert find_python() == PYTHON


def test_the_chosen_python_is_used(tmp_path: Path, project: Project) -> None:
    python = environment_with(tmp_path / "chosen", None)
    assert find_python(project, python) == find_python(None, tmp_path / "chosen") == python
    for wrong in (project.root, tmp_path / "gone"):
        with pytest.raises(UserError, match="is not a Python interpreter"):
            find_python(None, wrong)


def test_the_first_python_with_the_projects_torch_is_used(active: Path, project: Project) -> None:
    running = Path(sys.executable)
    assert find_python(project) == running  # nobody has torch
    other = environment_with(active, "2.0.1")
    assert find_python(project) == find_python() == other  # a torch is better than none
    local = environment_with(project.root / ".venv", "1.13.1")
    assert find_python(project) == local
    assert find_python() == other


def test_the_error_says_why_each_python_is_unfit(active: Path, project: Project) -> None:
    running, other = Path(sys.executable), environment_with(active, "2.0.1")
    with pytest.raises(UserError) as caught:
        require_python(project, None, ["yaml"], "Operators are looked up in", "pyyaml")
    assert str(caught.value).splitlines() == [
        "Operators are looked up in an installed torch 1.13, and no Python has it:",
        f"  {running}: it has no module torch",
        f"  {other}: it has no module yaml",
        'Install it there (pip install "torch==1.13.*" pyyaml), or name an interpreter that has it with --python.',
    ]
    with pytest.raises(UserError, match=r"torch 2\.0\.1, and the project needs 1\.13"):
        require_python(project, other, [], "Operators are looked up in", "")
    right = environment_with(project.root / ".venv", "1.13.1")
    assert require_python(project, None, [], "Operators are looked up in", "") == right
