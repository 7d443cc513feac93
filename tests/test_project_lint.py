"""`torch-backend lint`: where a project differs from its template, and what updates and merges have left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from .running import commit_all, git
from .test_cli import run
from .versions import EVENT, STREAM, Template, busy, edit, originals, project, snapshot, template

__all__ = ["busy", "originals", "project", "template"]


def lint(project: Path, *arguments: str) -> Result:
    return run("lint", "--project", str(project), *arguments)


OWNERS = """
| kind | files | what to do |
|---|---|---|
| the port's | `csrc/device/*.cpp` | change them |
| yours | `README.md`, and files that you add | change them |
| shared | `CMakeLists.txt` | keep edits small |
| the template's | `csrc/runtime/`, `csrc/device/` | leave them |
"""


@pytest.fixture
def owned(template: Template, project: Path) -> Path:
    """A project whose README.md names the owners of files."""
    template.append("template/README.md.jinja", OWNERS)
    template.release("v1.1.0")
    assert run("update", "--project", str(project)).exit_code == 0
    commit_all(project, "Update")
    return project


def test_without_owners_nothing_is_compared(project: Path) -> None:
    edit(project, STREAM, "mine\n")
    done = lint(project)
    assert done.exit_code == 0
    assert done.output.startswith("warning: README.md: this version of it does not name the owners of files")
    assert done.output.endswith("0 errors, 1 warnings\n")


def test_a_fresh_project_has_nothing_to_find(owned: Path) -> None:
    project = owned
    before = snapshot(project)
    done = lint(project, "--strict")
    assert (done.exit_code, done.output) == (0, "0 errors, 0 warnings\n")
    assert snapshot(project) == before


def test_files_of_the_template_are_compared_and_others_are_not(owned: Path) -> None:
    project = owned
    edit(project, STREAM, "mine\n")
    (project / EVENT).unlink()
    edit(project, "csrc/runtime/Mine.h", "mine\n")
    for path in ("README.md", "CMakeLists.txt", "csrc/device/Memory.cpp"):
        edit(project, path, "mine\n")
    done = lint(project)
    assert done.exit_code == 0
    assert done.output == (
        f"warning: {EVENT}: it is missing, although it is the template's: an update does not bring it back\n"
        f"warning: {STREAM}: it is the template's, and edited: move your edit into a file of your own, if you can\n"
        "0 errors, 2 warnings\n"
    )
    assert lint(project, "--strict").exit_code == 1
    told = json.loads(lint(project, "--json").output)
    assert [(finding["level"], finding["path"]) for finding in told["findings"]] == [
        ("warning", EVENT),
        ("warning", STREAM),
    ]


def test_line_ends_are_no_difference(owned: Path) -> None:
    project = owned
    text = (project / STREAM).read_bytes()
    (project / STREAM).write_bytes(text.replace(b"\n", b"\r\n"))
    assert lint(project).output == "0 errors, 0 warnings\n"


def test_what_an_update_leaves_is_an_error(busy: Path) -> None:
    assert run("update", "--project", str(busy)).exit_code == 1
    (busy / "README.md.orig").write_text("old\n")
    (busy / ".torch-backend-abc").mkdir()
    done = lint(busy)
    assert done.exit_code == 1
    lines = done.output.splitlines()
    assert "error: .torch-backend-abc/: a killed update left it: run `torch-backend update --abort`" in lines
    assert "error: README.md.orig: a merge left it: take what you need from it, and delete it" in lines
    assert f"error: {STREAM}: it has conflict markers: edit it, and run `git add` on it" in lines
    assert lines[-1].startswith("3 errors, ")
    run("update", "--abort", "--project", str(busy))
    (busy / "README.md.orig").unlink()
    assert git(busy, "status", "--porcelain") == ""
    assert lint(busy).exit_code == 0


def test_a_project_without_a_template_is_refused(template: Template, project: Path) -> None:
    template.root.rename(template.root.with_name("elsewhere"))
    done = lint(project)
    assert done.exit_code == 2
    assert "Traceback" not in done.output
    assert lint(project, "--template", str(template.root.with_name("elsewhere"))).exit_code == 0


@pytest.mark.parametrize("option", ["--strict", "--json"])
def test_outside_of_a_project_it_is_refused(tmp_path: Path, option: str) -> None:
    assert lint(tmp_path, option).exit_code == 2
