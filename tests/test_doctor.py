"""`torch-backend doctor` on the environment: Python, torch, compiler and tools."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from torch_backend.cli import main
from torch_backend.environment import Environment
from torch_backend.inside.environment import TOOLS
from torch_backend.inspection.doctor import backends, python, tools
from torch_backend.inspection.doctor.context import Context
from torch_backend.inspection.doctor.requirements import of_project, of_template
from torch_backend.project import Project

from .diagnosing import EXAMPLE, doctor, found, states
from .fakes import fake_torch
from .running import git
from .torch_release import FIRST, MINOR, NEWER, OLDER, RANGE

# ---------------------------------------------------------------- the environment


def test_this_environment_can_build(environment: Environment, site: Path) -> None:
    _, checks = doctor(environment, compiler=True)
    for group in ("Python and torch", "Compiler"):
        assert set(states(checks, group).values()) == {"ok"}, checks
    assert found(checks, "torch").found.startswith(f"{MINOR}.")
    assert "C++20 (__cplusplus 202002)" in found(checks, "C++ compiler").found
    assert found(checks, "CMake").found.endswith("(3.25 or newer is needed)")
    package = found(checks, "package")
    assert (package.state, package.found) == ("warn", "torch_openreg is not installed")
    assert package.mend.endswith("-m pip install --no-build-isolation --editable .")
    assert states(checks, "Registrations") == {}


def test_outside_of_a_project_the_environment_is_checked(
    environment: Environment, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_torch(site)
    monkeypatch.chdir(tmp_path)
    _, checks = doctor(environment, project=None)
    assert found(checks, "torch").found == f"{FIRST} ({RANGE} is needed)"
    assert found(checks, "other backends").found == "no backend is installed"
    assert [check.name for check in checks if check.name == "package"] == []


def test_a_folder_without_a_project_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["doctor", "--project", str(tmp_path)])
    assert result.exit_code == 2
    assert "is not in a project made from the template" in result.output


def test_template_and_render_need_the_same(project: Path) -> None:
    needed = of_project(Project.find(project))
    assert needed == of_template()
    assert needed.cmake == Version("3.25")
    assert needed.packages["torch"] == SpecifierSet(RANGE)


@pytest.mark.parametrize(
    ("version", "state"), [(f"{MINOR}.1+cu128", "ok"), (f"{OLDER}.0", "fail"), (f"{NEWER}.0.dev20261101", "fail")]
)
def test_only_the_torch_of_the_project_is_accepted(
    environment: Environment, site: Path, version: str, state: str
) -> None:
    fake_torch(site, version)
    code, checks = doctor(environment)
    check = found(checks, "torch")
    assert (check.state, code) == (state, 0 if state == "ok" else 1)
    assert version in check.found
    assert (f"pip install 'torch{RANGE}'" in check.mend) == (state == "fail")


def test_a_torch_without_headers_fails(environment: Environment, site: Path) -> None:
    fake_torch(site)
    shutil.rmtree(site / "torch" / "include")
    check = found(doctor(environment)[1], "torch for C++")
    assert (check.state, check.found) == ("fail", "this torch has no headers, so extensions cannot be built with it")


def test_a_torch_that_cannot_be_imported_fails(environment: Environment, site: Path) -> None:
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").write_text("raise ImportError('libtorch_cpu.so: cannot open')")
    check = found(doctor(environment)[1], "torch")
    assert (check.state, check.found) == ("fail", "cannot be imported: libtorch_cpu.so: cannot open")


def test_a_torch_that_crashes_fails(environment: Environment, site: Path) -> None:
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGILL)")
    code, checks = doctor(environment)
    assert code == 1
    assert found(checks, "torch").found.startswith("the process that imports torch was ended by SIGILL")
    assert found(checks, "Python").state == "ok"


def test_a_torch_of_the_other_abi_fails(environment: Environment, site: Path) -> None:
    fake_torch(site, abi=False)
    check = found(doctor(environment, compiler=True)[1], "C++ ABI")
    assert check.state == "fail"
    assert "torch was built with the old ABI (0), the compiler uses the new ABI (1)" in check.found


@pytest.mark.parametrize(
    ("compiler", "message"),
    [
        ("none-of-that-name", "CXX=none-of-that-name is not a program"),
        ("c++ -fno-such-option-at-all", "cannot build a C++20 program"),
        ("c++ -std=c++20 -Dconstinit=nonsense", "error: "),
    ],
)
def test_unfit_compilers_fail(
    environment: Environment, site: Path, monkeypatch: pytest.MonkeyPatch, compiler: str, message: str
) -> None:
    fake_torch(site)
    monkeypatch.setenv("CXX", compiler)
    code, checks = doctor(environment, compiler=True)
    check = found(checks, "C++ compiler")
    assert (check.state, code) == ("fail", 1)
    assert message in check.found
    assert "CXX" in check.mend


@pytest.mark.parametrize(
    ("change", "state", "text"),
    [
        ({}, "ok", "3.12.1 at /usr/bin/python3 (>=3.10 is needed)"),
        ({"version": "3.9.2"}, "fail", "3.9.2 at /usr/bin/python3; >=3.10 is needed"),
        ({"managed": True}, "warn", "pip refuses to install into it"),
        ({"free_threaded": True}, "warn", "without the GIL"),
    ],
)
def test_unfit_pythons_fail(tmp_path: Path, change: dict[str, Any], state: str, text: str) -> None:
    facts = {
        "version": "3.12.1",
        "executable": "/usr/bin/python3",
        "include": "/usr/include/python3.12",
        "headers": False,
        "managed": False,
        "free_threaded": False,
    }
    told = {"python": facts | change, "torch": {"version": None, "error": ""}, "versions": dict.fromkeys(TOOLS)}
    checks = list(python.checks(replace(context(tmp_path), facts=told)))
    assert found(checks, "Python").state == state
    assert text in found(checks, "Python").found
    headers = found(checks, "Python headers")
    assert (headers.state, headers.found) == ("fail", "no Python.h in /usr/include/python3.12")
    assert "apt install python3-dev" in headers.mend
    build = found(checks, "scikit-build-core")
    assert (build.state, build.mend.endswith("-m pip install 'scikit-build-core>=1.1,<2'")) == ("fail", True)


# ---------------------------------------------------------------- tools


def context(tmp_path: Path, needed_cmake: str = "3.25") -> Context:
    requirements = of_template()
    replaced = type(requirements)(requirements.python, Version(needed_cmake), requirements.packages, MINOR)
    return Context(None, tmp_path / "bin" / "python", replaced, {}, None, 20)  # type: ignore[arg-type]


def program(path: Path, output: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{output}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_an_old_cmake_and_a_missing_ninja_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin" / "cmake", "cmake version 3.18.4")
    monkeypatch.setenv("PATH", "/nowhere")
    checks = list(tools.checks(context(tmp_path)))
    cmake = found(checks, "CMake")
    assert (cmake.state, cmake.found) == ("fail", f"3.18.4 at {tmp_path}/bin/cmake; 3.25 or newer is needed")
    assert cmake.mend == f"{tmp_path}/bin/python -m pip install 'cmake>=3.25'"
    assert found(checks, "Ninja").state == "warn"
    assert found(checks, "git").state == "warn"
    assert found(checks, "ccache").state == "ok"


def test_a_newer_cmake_behind_an_old_one_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "old" / "cmake", "cmake version 3.18.4")
    program(tmp_path / "new" / "cmake", "cmake version 4.1.0")
    monkeypatch.setenv("PATH", f"{tmp_path / 'old'}{os.pathsep}{tmp_path / 'new'}")
    cmake = found(list(tools.checks(context(tmp_path))), "CMake")
    assert (cmake.state, cmake.found) == ("ok", f"4.1.0 at {tmp_path}/new/cmake (3.25 or newer is needed)")


def test_paths_with_spaces_are_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    here = replace(context(tmp_path), python=tmp_path / "my env" / "bin" / "python")
    cmake = found(list(tools.checks(here)), "CMake")
    assert shlex.split(cmake.mend) == [str(here.python), "-m", "pip", "install", "cmake>=3.25"]
    package: dict[str, Any] = {"folder": None, "installs": []}
    project = Project(tmp_path / "my project", {"device_name": "zed", "package_name": "torch_zed"})
    facts = {"backends": [], "package": package}
    (_, check, *_) = backends.checks(replace(here, project=project, facts=facts))
    build = [str(here.python), "-m", "pip", "install", "--no-build-isolation", "--editable", "."]
    assert shlex.split(check.mend) == ["cd", str(project.root), "&&", *build]


@pytest.mark.parametrize(("gigabytes", "state"), [(0.5, "fail"), (2, "warn"), (20, "ok")])
def test_little_disk_space_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gigabytes: float, state: str
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0, 0, int(gigabytes * (1 << 30))))
    disk = found(list(tools.checks(context(tmp_path))), "disk")
    assert disk.state == state
    assert f"{gigabytes:.1f} GB free" in disk.found


def test_a_project_without_git_is_a_warning(environment: Environment, site: Path, tmp_path: Path) -> None:
    fake_torch(site)
    project = tmp_path / "project"
    project.mkdir()
    for name in (".copier-answers.yml", "pyproject.toml", "CMakeLists.txt"):
        shutil.copy2(EXAMPLE / name, project)
    assert found(doctor(environment, project=project)[1], "git").state == "warn"
    git(project, "init", "--quiet")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "Start")
    assert found(doctor(environment, project=project)[1], "git").state == "ok"


# ---------------------------------------------------------------- what a terminal shows


def test_text_output_has_remedies_and_a_summary(environment: Environment, site: Path) -> None:
    fake_torch(site, f"{OLDER}.0")
    result = CliRunner().invoke(main, ["doctor", "--project", str(EXAMPLE), "--python", str(environment.python)])
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[0] == f"Checking the project torch_openreg in {EXAMPLE}"
    place = next(i for i, line in enumerate(lines) if line.startswith("  fail  torch  "))
    assert lines[place + 1].strip().startswith("->")
    assert f"install 'torch{RANGE}'" in lines[place + 1]
    assert lines[-1].endswith("failures")


def test_a_path_that_is_no_python_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["doctor", "--python", str(tmp_path / "python")])
    assert result.exit_code == 2
    assert f"{tmp_path / 'python'} is not a Python interpreter" in result.output
