"""`copier update` of a rendered project, from one tag of the template to the next."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from torch_backend.maintenance.example import Example
from torch_backend.source import Source

from .conftest import answers_of, render_into
from .running import commit_all, git


@pytest.fixture
def template(scratch: Example) -> Path:
    """The small template as a git repository with one tag."""
    commit_all(scratch.source.root, "first", tag="v1.0.0")
    return scratch.source.root


@pytest.fixture
def real_template(repository: Example) -> Path:
    """The real template as a git repository with one tag."""
    commit_all(repository.source.root, "first", tag="v1.0.0")
    return repository.source.root


def _update(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "copier", "update", "--defaults", *arguments, str(project)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_edits_are_kept_and_news_arrive(real_template: Path, tmp_path: Path) -> None:
    template = real_template
    project = render_into(Source(template), tmp_path / "project", vendor_name="Zed")
    commit_all(project, "rendered")
    stream, readme = project / "csrc" / "runtime" / "Stream.h", project / "README.md"
    stream.write_text("// the vendor's line\n" + stream.read_text())
    readme.write_text(readme.read_text() + "\nThe vendor's words.\n")
    (project / "csrc" / "aten" / "native" / "Mine.cpp").write_text("// the vendor's file\n")
    kernel = project / "csrc" / "aten" / "native" / "Zero.cpp"
    kernel.write_text("// the vendor's kernel, written anew\n")
    commit_all(project, "port")

    for name in ("csrc/runtime/Stream.h.jinja", "csrc/runtime/Event.h.jinja", "csrc/aten/native/Zero.cpp.jinja"):
        path = template / "template" / name
        path.write_text(path.read_text() + "// news for {{ device_name }}\n")
    (template / "template" / "NEWS.md.jinja").write_text("News of {{ package_name }}\n")
    commit_all(template, "second", tag="v1.1.0")

    done = _update(project)
    assert done.returncode == 0, done.stderr
    assert answers_of(project)["_commit"] == "v1.1.0"
    assert stream.read_text().startswith("// the vendor's line\n")
    assert stream.read_text().endswith("// news for zed\n")
    assert "The vendor's words." in readme.read_text()
    assert (project / "NEWS.md").read_text() == "News of torch_zed\n"
    assert (project / "csrc" / "aten" / "native" / "Mine.cpp").exists()
    assert kernel.read_text() == "// the vendor's kernel, written anew\n", "kernels are the vendor's once rendered"
    assert not [line for line in git(project, "status", "--porcelain").splitlines() if line.startswith("UU")]
    assert not list(project.rglob("*.rej"))


def test_an_updated_project_equals_a_fresh_one(template: Path, tmp_path: Path) -> None:
    project = render_into(Source(template), tmp_path / "project")
    commit_all(project, "rendered")
    path = template / "template" / "csrc" / "runtime" / "Stream.h.jinja"
    path.write_text(path.read_text() + "// news\n")
    commit_all(template, "second", tag="v1.1.0")
    assert _update(project).returncode == 0
    fresh = render_into(Source(template), tmp_path / "fresh")
    different = subprocess.run(
        ["diff", "--recursive", "--exclude=.git", str(project), str(fresh)], capture_output=True, text=True, check=False
    )
    assert different.stdout == ""


def test_a_feature_can_be_added(template: Path, tmp_path: Path) -> None:
    project = render_into(Source(template), tmp_path / "project", features=["docs"])
    commit_all(project, "rendered")
    assert not (project / "benchmarks").exists()
    done = _update(project, "--data", "features=[benchmarks, docs]")
    assert done.returncode == 0, done.stderr
    assert (project / "benchmarks").is_dir()
