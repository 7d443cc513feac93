"""`torch-backend update` refused, failing or interrupted: the project is as it was."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from torch_backend.lifecycle.interruption import interruptible, point_of_no_return
from torch_backend.source import Source

from .conftest import render_into
from .running import commit_all, git
from .test_cli import run
from .versions import Template, busy, edit, originals, project, snapshot, template, with_a_signal_at_call

__all__ = ["busy", "originals", "project", "template"]


def test_a_project_without_a_recorded_version_is_refused(source: Source, tmp_path: Path) -> None:
    project = render_into(source, tmp_path / "project")
    commit_all(project, "rendered")
    result = run("update", "--project", str(project))
    assert result.exit_code == 2
    assert "does not record the version" in result.output


@pytest.mark.parametrize("kind", ["edited", "new file", "no repository", "not tracked"])
def test_uncommitted_edits_are_refused(template: Template, project: Path, kind: str) -> None:
    template.append("template/README.md.jinja", "\nNews.\n")
    template.release("v1.1.0")
    if kind == "edited":
        (project / "README.md").write_text("mine\n")
        expected = "not committed:\n   M README.md\nCommit them"
    elif kind == "new file":
        (project / "mine.txt").write_text("mine\n")
        expected = "?? mine.txt"
    elif kind == "no repository":
        shutil.rmtree(project / ".git")
        expected = "is not in a git repository"
    else:
        git(project, "rm", "--quiet", "-r", "--cached", ".")
        (project / ".gitignore").write_text("*\n")
        git(project, "commit", "--quiet", "--message", "empty")
        expected = "git does not track"
    files = {path: path.read_bytes() for path in project.rglob("*") if path.is_file() and ".git" not in path.parts}
    result = run("update", "--project", str(project))
    assert result.exit_code == 2, result.output
    assert expected in result.output
    assert {path: path.read_bytes() for path in files} == files


def test_an_ignored_file_is_not_overwritten(template: Template, project: Path) -> None:
    edit(project, ".gitignore", "/local.txt\n")
    (project / "local.txt").write_text("mine\n")
    template.write("template/local.txt", "the template's\n")
    template.release("v1.1.0")
    before = snapshot(project)
    result = run("update", "--project", str(project))
    assert result.exit_code == 2
    assert "local.txt would be overwritten" in result.output
    assert snapshot(project) == before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # copier leaves a folder open
def test_a_broken_template_leaves_the_project_as_it_was(template: Template, project: Path) -> None:
    template.append("template/README.md.jinja", "\n{{ no_such_name }}\n")
    template.release("v1.1.0")
    before = snapshot(project)
    result = run("update", "--project", str(project))
    assert result.exit_code == 2
    assert "no_such_name" in result.output
    assert "Traceback" not in result.output
    assert snapshot(project) == before


@pytest.mark.parametrize("function", ["copy2", "rename", "index"])
@pytest.mark.parametrize("after", [0, 3])
def test_a_full_disk_leaves_the_project_as_it_was(
    busy: Path, monkeypatch: pytest.MonkeyPatch, function: str, after: int
) -> None:
    calls = 0
    copy2, rename = shutil.copy2, Path.rename

    def fail_once() -> None:
        nonlocal calls
        calls += 1
        if calls == after + 1:
            raise OSError(28, "No space left on device")

    def copy2_until(*arguments: object, **options: object) -> object:
        fail_once()
        return copy2(*arguments, **options)  # type: ignore[call-overload]

    def rename_until(self: Path, target: Path) -> Path:
        fail_once()
        return rename(self, target)

    if function == "copy2":
        monkeypatch.setattr(shutil, "copy2", copy2_until)
    elif function == "rename":
        monkeypatch.setattr(Path, "rename", rename_until)
    else:
        (busy / ".git" / "index.lock").write_text("")
    before = snapshot(busy)
    result = run("update", "--project", str(busy))
    assert result.exit_code == 2, result.output
    if function == "index":
        assert "index.lock" in result.output
    else:
        assert result.output.startswith("No space left on device. Free some space, or ")
        assert result.output.endswith(" The project is unchanged.\n")
    assert snapshot(busy) == before
    assert not list(busy.glob(".torch-backend-*"))


@pytest.mark.parametrize(
    ("number", "name"), [(3, "INT"), (6, "TERM"), (20, "INT"), (40, "HUP"), (55, "INT"), (70, "INT")]
)
def test_interrupted_midway_the_project_is_as_it_was(busy: Path, tmp_path: Path, number: int, name: str) -> None:
    before = snapshot(busy)
    environment = with_a_signal_at_call(tmp_path, number, name)
    command = [sys.executable, "-m", "torch_backend", "update", "--defaults", "--project", str(busy)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    calls = len((tmp_path / "calls").read_text().splitlines())
    assert calls >= number, "the signal came"
    assert "Traceback" not in done.stderr
    assert done.returncode == 130, done.stderr
    assert "Interrupted. The project is unchanged." in done.stderr
    assert snapshot(busy) == before
    assert not list(busy.glob(".torch-backend-*"))
    assert not [path.name for path in (tmp_path / "temporary").iterdir() if path.name.startswith("torch-backend-")]


def test_a_signal_while_files_change_places_comes_too_late(busy: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    with interruptible():
        point_of_no_return()
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    assert run("update", "--project", str(busy)).exit_code == 1


def test_what_a_killed_update_leaves_is_explained(busy: Path) -> None:
    (busy / ".torch-backend-abc").mkdir()
    result = run("update", "--project", str(busy))
    assert result.exit_code == 2
    assert "Run `torch-backend update --abort` first: an earlier update" in result.output
    assert "reset --hard" not in result.output
    assert (
        run("update", "--abort", "--project", str(busy)).output
        == "The update is undone. Files: none had been changed.\n"
    )
    assert not list(busy.glob(".torch-backend-*"))
