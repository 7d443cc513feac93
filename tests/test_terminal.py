"""Colours, questions on a plain terminal, Ctrl-C, and a full disk: no control sequences and no traceback."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from torch_backend.errors import describe

from .running import ROOT
from .test_cli import run


def command(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the command at the end of a pipe."""
    path = os.pathsep.join(filter(None, [variables.pop("PYTHONPATH", ""), str(ROOT / "generator")]))
    return subprocess.run(
        [sys.executable, "-m", "torch_backend", *arguments],
        env=os.environ | variables | {"PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def on_a_terminal(*arguments: str, **variables: str) -> tuple[int, str]:
    """Runs the command on a terminal. Returns its exit code and what the terminal shows."""
    pty = pytest.importorskip("pty")
    terminal, other_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "torch_backend", *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT / "generator"), "NO_COLOR": "", "TERM": "xterm"} | variables,
        stdin=other_end,
        stdout=other_end,
        stderr=other_end,
    )
    os.close(other_end)
    shown = b""
    try:
        while part := os.read(terminal, 65536):
            shown += part
    except OSError as error:
        assert error.errno == errno.EIO, "the process has ended"  # noqa: PT017
    os.close(terminal)
    return process.wait(timeout=120), shown.decode()


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
    ids=["xterm", "NO_COLOR", "dumb"],
)
def test_colours_go_with_the_terminal(tmp_path: Path, variables: dict[str, str], coloured: bool) -> None:
    assert run("new", str(tmp_path / "p"), "--defaults", "--no-git").exit_code == 0
    code, shown = on_a_terminal("status", "--static", "--project", str(tmp_path / "p"), **variables)
    assert code == 0
    assert "PORTING: " in shown
    assert ("\x1b[" in shown) == coloured, shown


def test_a_plain_terminal_gets_no_control_sequences(tmp_path: Path) -> None:
    code, shown = on_a_terminal("new", str(tmp_path / "p"), TERM="dumb")
    assert code == 2
    options = "pass --defaults and answers as options (--data with update)."
    assert shown == f"There is no terminal for questions (TERM=dumb): {options}\r\n"
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize("module", ["click", "copier", "yaml"])
def test_an_interrupt_during_the_imports_has_no_traceback(tmp_path: Path, module: str) -> None:
    (tmp_path / f"{module}.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
    )
    done = command("doctor", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


def test_an_interrupt_of_any_command_has_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("torch_backend.inspection.commands.find_python", interrupted)
    result = run("doctor")
    assert (result.exit_code, result.output.splitlines()[-1]) == (130, "Interrupted.")


def test_a_full_disk_has_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: str, target: str, **options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))

    monkeypatch.setattr("torch_backend.source.Source.is_clean_checkout", lambda source: False)  # it is copied first
    monkeypatch.setattr(shutil, "copy2", full)
    result = run("new", str(tmp_path / "p"), "--defaults")
    assert result.exit_code == 2
    (line,) = result.output.splitlines()
    assert line.startswith("No space left on device: ")
    assert line.endswith(". Free some space, or name a folder for temporary files in TMPDIR.")
    assert not list(tmp_path.iterdir())


def test_the_first_of_several_files_is_named(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    for name in ("a", "b"):
        (tmp_path / "from" / name).symlink_to(tmp_path / "none")
    with pytest.raises(shutil.Error) as caught:
        shutil.copytree(tmp_path / "from", tmp_path / "to")
    text = describe(caught.value)
    assert text.startswith("No such file or directory: ")
    assert "\n" not in text
    assert "TMPDIR" not in text


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "torch_backend", "--help"],
            env=os.environ | {"PYTHONPATH": str(ROOT / "generator")},
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.stderr == ""
