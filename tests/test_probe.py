"""Asking another Python: whichever way it ends, what it had said before is known."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from torch_backend import probe
from torch_backend.errors import UserError
from torch_backend.probe import find_python, run_probe

PYTHON = Path(sys.executable)


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of ``inside/``."""
    folder = tmp_path / "scripts"
    folder.mkdir()
    monkeypatch.setattr(probe, "SCRIPTS", folder)
    return folder


def write(scripts: Path, body: str) -> None:
    code = "import os, signal, sys, time\ndef report(*arguments):\n"
    (scripts / "ask.py").write_text(code + "".join(f"    {line}\n" for line in body.splitlines()))


def test_what_is_reported_comes_back(scripts: Path) -> None:
    write(scripts, "print('noise')\nyield 'arguments', arguments\nyield 'umlaut', 'ä\\n'")
    outcome = run_probe(PYTHON, "ask", "one", "two words")
    assert outcome.items == [["arguments", ["one", "two words"]], ["umlaut", "ä\n"]]
    assert (outcome.failure, outcome.errors, outcome.reason) == ("", "", "")


def test_variables(scripts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GONE", "1")
    monkeypatch.setenv("KEPT", "2")
    write(scripts, "yield [os.environ.get(name) for name in ('GONE', 'KEPT', 'NEW')]")
    assert run_probe(PYTHON, "ask", variables={"GONE": None, "NEW": "3"}).items == [[None, "2", "3"]]


@pytest.mark.parametrize(
    ("end", "failure"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was ended by SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "was ended by SIGKILL"),
        ("os._exit(7)", "ended with exit code 7"),
        ("time.sleep(600)", "did not end within 2 seconds and was killed"),
    ],
)
def test_items_of_a_process_that_dies(scripts: Path, end: str, failure: str) -> None:
    write(scripts, f"yield 1\nyield 2\n{end}\nyield 3")
    outcome = run_probe(PYTHON, "ask", time_limit=2 if "sleep" in end else 60)
    assert (outcome.items, outcome.failure) == ([1, 2], failure)


def test_a_grandchild_that_lives_on_does_not_keep_us(scripts: Path) -> None:
    write(scripts, "import subprocess\nsubprocess.Popen(['sleep', '20'])\nyield 'done'")
    outcome = run_probe(PYTHON, "ask", time_limit=10)
    assert (outcome.items, outcome.failure) == (["done"], "")


def test_reason_is_the_first_of_chained_exceptions(scripts: Path) -> None:
    write(
        scripts,
        "try:\n    raise ImportError('the cause')\nexcept ImportError as error:\n"
        "    raise RuntimeError('many\\nlines') from error\nyield",
    )
    outcome = run_probe(PYTHON, "ask")
    assert (outcome.failure, outcome.reason) == ("ended with exit code 1", "ImportError: the cause")


def test_nothing_is_imported_from_the_current_folder(
    scripts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shadow.py").touch()
    monkeypatch.chdir(tmp_path)
    write(scripts, "import importlib.util\nyield importlib.util.find_spec('shadow') is None")
    assert run_probe(PYTHON, "ask").items == [True]


def test_an_interpreter_that_is_none(scripts: Path, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("not a program")
    broken.chmod(0o755)
    write(scripts, "yield 1")
    with pytest.raises(UserError, match="cannot be started"):
        run_probe(broken, "ask")


def test_which_python_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = tmp_path / "venv"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.setenv("VIRTUAL_ENV", str(environment))
    assert find_python() == PYTHON  # it has torch
    assert find_python(environment) == find_python(environment / "bin" / "python") == environment / "bin" / "python"
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert find_python() == environment / "bin" / "python"
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "gone"))
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    assert find_python() == PYTHON
    with pytest.raises(UserError, match="is not a Python interpreter"):
        find_python(tmp_path)
