"""A template with versions and a project of the first one, for tests of updates."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from .conftest import render_into, write_repository
from .running import ROOT, commit_all, git

STREAM = "csrc/runtime/Stream.h"
EVENT = "csrc/runtime/Event.h"


class Template:
    """The small template as a git repository, whose versions a test makes."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def append(self, name: str, text: str) -> None:
        self.write(name, (self.root / name).read_text(encoding="utf-8") + text)

    def release(self, tag: str, subject: str = "Release") -> None:
        commit_all(self.root, subject, tag=tag)


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the first version of the template and a project made from it; tests copy them."""
    folder = tmp_path_factory.mktemp("originals")
    source = write_repository(folder / "template", small=True).source
    commit_all(source.root, "First version", tag="v1.0.0")
    commit_all(render_into(source, folder / "torch_zed", vendor_name="Zed"), "rendered")
    return folder


@pytest.fixture
def template(originals: Path, tmp_path: Path) -> Template:
    shutil.copytree(originals / "template", tmp_path / "template")
    return Template(tmp_path / "template")


@pytest.fixture
def project(originals: Path, template: Template, tmp_path: Path) -> Path:
    """A project rendered from v1.0.0, in git."""
    folder = tmp_path / "torch_zed"
    shutil.copytree(originals / "torch_zed", folder)
    answers = (folder / ".copier-answers.yml").read_text(encoding="utf-8")
    edit(folder, ".copier-answers.yml", answers.replace(str(originals / "template"), str(template.root)))
    return folder


@pytest.fixture
def busy(template: Template, project: Path) -> Path:
    """A project whose update adds, removes, changes, and conflicts."""
    edit(project, STREAM, "the vendor's\n")
    template.write(f"template/{STREAM}.jinja", "the template's\n")
    template.append("template/README.md.jinja", "\nNews.\n")
    (template.root / "template" / f"{EVENT}.jinja").unlink()
    for number in range(5):
        template.write(f"template/news/{number}.txt", "News.\n")
    template.release("v1.1.0")
    return project


def edit(project: Path, name: str, text: str) -> None:
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    commit_all(project, f"edit {name}")


def snapshot(project: Path) -> dict[str, tuple[int, bytes]]:
    """Returns the state of a project: files, their modes, and the output of git status."""
    found = {
        path.relative_to(project).as_posix(): (path.stat().st_mode, path.read_bytes())
        for path in project.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(project).parts
    }
    found["git status"] = (0, git(project, "status", "--porcelain", "--ignored").encode())
    found["git log"] = (0, git(project, "log", "--format=%H", "--all").encode())
    return found


def with_a_signal_at_call(folder: Path, number: int, name: str) -> dict[str, str]:
    """Returns an environment whose git sends its caller a signal at the given call, and then runs."""
    real = shutil.which("git")
    wrapper = folder / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(
        f'#!/bin/sh\necho >> "{folder}/calls"\n'
        f'[ "$(wc -l < "{folder}/calls")" -ne {number} ] || kill -{name} $PPID\nexec "{real}" "$@"\n'
    )
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    temporary = folder / "temporary"
    temporary.mkdir()
    paths = {"PATH": f"{wrapper.parent}:{os.environ['PATH']}", "TMPDIR": str(temporary)}
    return os.environ | paths | {"PYTHONPATH": str(ROOT / "generator"), "GIT_CONFIG_GLOBAL": os.devnull}
