"""`torch-backend remove-op`: the project is as before add-op, and nothing is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from torch_backend.cli import main
from torch_backend.maintenance.trees import read_project
from torch_backend.source import Source

from .conftest import render_into
from .running import commit_all, git

KERNEL = "csrc/aten/native/Gelu.cpp"
TEST = "tests/test_op_gelu.py"


def call(command: str, project: Path, *arguments: str) -> Result:
    result = CliRunner().invoke(main, [command, "--project", str(project), *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture(scope="module")
def added(source: Source, tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = render_into(source, tmp_path_factory.mktemp("remove_op") / "project")
    commit_all(project, "rendered")
    done = call("add-op", project, "gelu", "sum", "add.Tensor")
    assert done.exit_code == 0, done.output
    commit_all(project, "kernels")
    return project


@pytest.fixture
def project(added: Path, tmp_path: Path) -> Path:
    """A project with kernels by add-op, in git."""
    return Path(shutil.copytree(added, tmp_path / "project"))


def test_the_project_is_as_before(project: Path) -> None:
    done = call("remove-op", project, "gelu", "aten::sum", "add.Tensor")
    assert done.exit_code == 0, done.output
    assert git(project, "diff", "HEAD~1", "--stat") == ""
    assert f"aten::gelu: gelu, gelu.out, gelu_\n  removed {KERNEL}\n  removed {TEST}\n" in done.output
    assert call("add-op", project, "gelu").exit_code == 0
    assert git(project, "diff", "HEAD", "--stat", "--", KERNEL, TEST) == ""


def test_one_of_several_is_removed(project: Path) -> None:
    assert call("remove-op", project, "sum").exit_code == 0
    changed = git(project, "diff", "HEAD", "--name-status").split("\n")
    assert sorted(changed) == [
        "",
        "D\tcsrc/aten/native/Sum.cpp",
        "D\ttests/test_op_sum.py",
        "M\tcsrc/fallback/operators.def",
        "M\tdocs/porting.md",
    ]
    listed = (project / "csrc/fallback/operators.def").read_text()
    assert '\nEMULATED("sum.dim_IntList", sum_dim_IntList)\n' in listed
    assert '\n// EMULATED("gelu", gelu)\n' in listed


def test_a_dry_run_removes_nothing(project: Path) -> None:
    before = read_project(project)
    done = call("remove-op", project, "gelu", "--dry-run")
    assert (done.exit_code, f"would remove {KERNEL}" in done.output) == (0, True)
    assert read_project(project) == before


def test_edits_that_are_not_committed_are_not_lost(project: Path) -> None:
    (project / KERNEL).write_text((project / KERNEL).read_text() + "// my kernel\n")
    before = read_project(project)
    done = call("remove-op", project, "gelu", "sum")
    assert done.exit_code == 1
    assert f"{KERNEL} has changes that are not committed" in done.output
    assert "Nothing was removed." in done.output
    assert read_project(project) == before
    assert call("remove-op", project, "gelu", "sum", "--force").exit_code == 0
    assert not (project / KERNEL).exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tanh", "aten::tanh has no kernel: there is no csrc/aten/native/Tanh.cpp."),
        ("abs", "csrc/aten/native/Abs.cpp has no test tests/test_op_abs.py, so add-op did not write it"),
        ("add", "aten::add has kernels in csrc/aten/native/AddTensor.cpp: give the name of the overload"),
        ("empty", "aten::empty has its kernel in csrc/aten/Factories.cpp, not by add-op: remove it by hand."),
    ],
)
def test_what_add_op_did_not_write_is_refused(project: Path, name: str, message: str) -> None:
    before = read_project(project)
    done = call("remove-op", project, name, "gelu")
    assert done.exit_code == 1
    assert message in done.output
    assert read_project(project) == before


def test_a_test_by_an_earlier_version_is_found(project: Path) -> None:
    (project / TEST).rename(project / "tests/test_gelu.py")
    commit_all(project, "an older name")
    assert call("remove-op", project, "gelu").exit_code == 0
    assert not (project / "tests/test_gelu.py").exists()


def test_a_failure_changes_nothing(project: Path) -> None:
    (project / "docs/porting.py").write_text("raise SystemExit('no page today')\n")
    before = read_project(project)
    done = call("remove-op", project, "gelu")
    assert done.exit_code == 1
    assert "cannot be changed: no page today" in done.output
    assert read_project(project) == before
