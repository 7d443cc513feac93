"""`torch-backend update --abort`: the update is undone, and everything else stays."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .running import ROOT, commit_all, git
from .test_cli import run
from .versions import EVENT, STREAM, Template, busy, edit, originals, project, snapshot, template

__all__ = ["busy", "originals", "project", "template"]


@pytest.fixture
def repository(busy: Path, tmp_path: Path) -> Path:
    """A repository with the project in a subfolder, and with uncommitted work elsewhere."""
    root = tmp_path / "repository"
    (root / "src").mkdir(parents=True)
    git(root, "init", "--quiet", "--initial-branch=main")
    (root / "src" / "model.py").write_text("old\n")
    shutil.rmtree(busy / ".git")
    shutil.move(busy, root / "backend")
    commit_all(root, "All")
    (root / "src" / "model.py").write_text("not committed\n")
    (root / "notes.txt").write_text("not in git\n")
    return root


def abort(project: Path) -> str:
    result = run("update", "--abort", "--project", str(project))
    assert result.exit_code == 0, result.output
    return result.output


def test_a_project_in_a_subfolder_is_undone_and_nothing_else(repository: Path) -> None:
    before = snapshot(repository)
    done = run("update", "--project", str(repository / "backend"))
    assert done.exit_code == 1, done.output
    assert "To undo this, run `torch-backend update --abort`." in done.output
    assert "reset" not in done.output
    assert snapshot(repository) != before
    assert (repository / "notes.txt").read_text() == "not in git\n"
    assert abort(repository / "backend") == "The update is undone. Files: 4 restored, 5 removed.\n"
    assert snapshot(repository) == before
    assert not (repository / "backend" / "news").exists()


def test_what_was_edited_after_the_update_is_kept(busy: Path) -> None:
    run("update", "--project", str(busy))
    (busy / STREAM).write_text("resolved with care\n")
    (busy / "news" / "3.txt").write_text("my news\n")
    (busy / "mine.txt").write_text("a new file\n")
    output = abort(busy)
    assert f"You had edited these files since the update:\n  {STREAM}\n  news/3.txt\n" in output
    assert (busy / STREAM).read_text() == "the vendor's\n"
    assert (busy / "mine.txt").read_text() == "a new file\n"
    kept = git(busy, "rev-parse", "refs/torch-backend/aborted").strip()
    assert f"`git show {kept[:12]}` has your edits." in output
    assert git(busy, "show", f"{kept}:{STREAM}") == "resolved with care\n"
    assert git(busy, "show", f"{kept}:news/3.txt") == "my news\n"
    assert git(busy, "status", "--porcelain") == "?? mine.txt\n"


def test_after_an_abort_the_update_runs_again(busy: Path) -> None:
    first = run("update", "--project", str(busy)).output
    state = snapshot(busy)
    abort(busy)
    assert run("update", "--project", str(busy)).output == first
    assert snapshot(busy) == state


def test_a_change_of_features_is_undone(busy: Path) -> None:
    before = snapshot(busy)
    assert run("remove-feature", "docs", "--project", str(busy)).exit_code == 0
    assert not (busy / "docs").exists()
    abort(busy)
    assert snapshot(busy) == before


@pytest.mark.parametrize("renamed", [0, 1, 4, 8])
def test_a_killed_update_is_undone(busy: Path, renamed: int) -> None:
    before = snapshot(busy)
    code = (
        "import os, pathlib, signal\n"
        "from torch_backend.cli import main\n"
        "from torch_backend.lifecycle import transplant\n"
        f"left, rename = [{renamed}], pathlib.Path.rename\n"
        "def killed(self, target):\n"
        "    if left[0] == 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    left[0] -= 1\n"
        "    return rename(self, target)\n"
        "swap = transplant._swap\n"
        "def patched(*arguments):\n"
        "    pathlib.Path.rename = killed\n"
        "    return swap(*arguments)\n"
        "transplant._swap = patched\n"
        f"main(['update', '--project', {str(busy)!r}])\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "generator")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert list(busy.glob(".torch-backend-*"))
    refused = run("update", "--project", str(busy))
    assert refused.exit_code == 2
    assert "Run `torch-backend update --abort` first" in refused.output
    abort(busy)
    assert snapshot(busy) == before


def test_a_committed_update_is_left_to_git(busy: Path) -> None:
    run("update", "--project", str(busy))
    (busy / STREAM).write_text("resolved\n")
    commit_all(busy, "Update")
    before = snapshot(busy)
    result = run("update", "--abort", "--project", str(busy))
    assert result.exit_code == 2
    assert "`git revert`" in result.output
    assert snapshot(busy) == before


def test_without_an_update_there_is_nothing_to_abort(project: Path) -> None:
    result = run("update", "--abort", "--project", str(project))
    assert (result.exit_code, "nothing to abort" in result.output) == (2, True)
    with_more = run("update", "--abort", "--check", "--project", str(project))
    assert (with_more.exit_code, "needs no other option" in with_more.output) == (2, True)


def test_an_added_file_that_was_deleted_since_is_no_error(template: Template, project: Path) -> None:
    edit(project, EVENT, "mine\n")
    template.write("template/news.txt", "News.\n")
    template.release("v1.1.0")
    before = snapshot(project)
    assert run("update", "--project", str(project)).exit_code == 0
    (project / "news.txt").unlink()
    assert abort(project) == "The update is undone. Files: 1 restored, 1 removed.\n"
    assert snapshot(project) == before
