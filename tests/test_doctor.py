"""`torch-backend doctor`: what it finds, what it says of it, and that a backend's crash is not its own."""

from __future__ import annotations

import json
import os
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
from torch_backend.doctor import Check, backends, python, tools
from torch_backend.doctor.context import Context
from torch_backend.doctor.requirements import of_project, of_template
from torch_backend.environment import Environment
from torch_backend.inside.environment import TOOLS
from torch_backend.project import Project

from .conftest import ROOT, git
from .fakes import describe, fake_torch, install

EXAMPLE = ROOT / "examples" / "openreg"

# Loads without a word, and registers a name and an empty module: hooks, guard, allocator and all else are missing.
NAME_ONLY = """\
import sys, types
import torch
def _autoload():
    pass
torch.utils.rename_privateuse1_backend("openreg")
torch._register_device_module("openreg", types.ModuleType("torch.openreg"))
"""


# With what PyTorch lets a backend in Python register: all but an allocator, kernels and a generator. It has no device.
IN_PYTHON = """\
import types
import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend
def _autoload():
    pass
class Hooks(torch._C._acc.PrivateUse1Hooks):
    def is_available(self):
        return False
    def has_primary_context(self, index):
        return False
    def is_built(self):
        return True
class Guard(torch._C._acc.DeviceGuard):
    def type_(self):
        return torch._C._autograd.DeviceType.PrivateUse1
module = types.ModuleType("torch.openreg")
module.is_available = lambda: False
module.device_count = lambda: 0
module.current_device = lambda: 0
module._is_in_bad_fork = lambda: False
module.manual_seed_all = lambda seed: None
module.get_amp_supported_dtype = lambda: [torch.float16]
_setup_privateuseone_for_python_backend("openreg", module, Hooks(), Guard())
"""


def doctor(environment: Environment, *options: str, project: Path | None = EXAMPLE) -> tuple[int, list[Check]]:
    where = ["--project", str(project)] if project else []
    arguments = ["doctor", "--json", "--python", str(environment.python), *where, *options]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code in {0, 1}, result.output
    told = json.loads(result.stdout)
    assert told["ok"] == (result.exit_code == 0)
    assert told["python"] == str(environment.python)
    return result.exit_code, [Check(**check) for check in told["checks"]]


def found(checks: list[Check], name: str) -> Check:
    (check,) = [check for check in checks if check.name == name]
    return check


def states(checks: list[Check], group: str) -> dict[str, str]:
    return {check.name: check.state for check in checks if check.group == group}


# ---------------------------------------------------------------- the environment


def test_this_environment_can_build(environment: Environment, site: Path) -> None:
    _, checks = doctor(environment)
    for group in ("Python and torch", "Compiler"):
        assert set(states(checks, group).values()) == {"ok"}, checks
    assert found(checks, "torch").found.startswith("2.13.")
    assert "C++20 (__cplusplus 202002)" in found(checks, "C++ compiler").found
    assert found(checks, "CMake").found.endswith("(3.25 or newer is needed)")
    package = found(checks, "package")
    assert (package.state, package.found) == ("warn", "torch_openreg is not installed")
    assert package.mend.endswith("-m pip install --no-build-isolation --editable .")
    assert states(checks, "Registrations") == {}


def test_outside_of_a_project(
    environment: Environment, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_torch(site)
    monkeypatch.chdir(tmp_path)
    _, checks = doctor(environment, project=None)
    assert found(checks, "torch").found == "2.13.0 (>=2.13,<2.14 is needed)"
    assert found(checks, "other backends").found == "no backend is installed"
    assert [check.name for check in checks if check.name == "package"] == []


def test_a_project_that_was_named_has_to_be_one(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["doctor", "--project", str(tmp_path)])
    assert result.exit_code == 2
    assert "is not in a project made from the template" in result.output


def test_template_and_render_need_the_same(project: Path) -> None:
    needed = of_project(Project.find(project))
    assert needed == of_template()
    assert needed.cmake == Version("3.25")
    assert needed.packages["torch"] == SpecifierSet(">=2.13,<2.14")


@pytest.mark.parametrize(
    ("version", "state"), [("2.13.1+cu128", "ok"), ("2.12.0", "fail"), ("2.14.0.dev20261101", "fail")]
)
def test_torch_versions(environment: Environment, site: Path, version: str, state: str) -> None:
    fake_torch(site, version)
    code, checks = doctor(environment)
    check = found(checks, "torch")
    assert (check.state, code) == (state, 0 if state == "ok" else 1)
    assert version in check.found
    assert ('pip install "torch>=2.13,<2.14"' in check.mend) == (state == "fail")


def test_torch_without_headers(environment: Environment, site: Path) -> None:
    fake_torch(site)
    shutil.rmtree(site / "torch" / "include")
    check = found(doctor(environment)[1], "torch for C++")
    assert (check.state, check.found) == ("fail", "this torch has no headers: it was packaged to be run only")


def test_torch_that_cannot_be_imported(environment: Environment, site: Path) -> None:
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").write_text("raise ImportError('libtorch_cpu.so: cannot open')")
    check = found(doctor(environment)[1], "torch")
    assert (check.state, check.found) == ("fail", "cannot be imported: libtorch_cpu.so: cannot open")


def test_torch_that_crashes(environment: Environment, site: Path) -> None:
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGILL)")
    code, checks = doctor(environment)
    assert code == 1
    assert found(checks, "torch").found.startswith("importing torch, the process was ended by SIGILL")
    assert found(checks, "Python").state == "ok"


def test_the_other_abi(environment: Environment, site: Path) -> None:
    fake_torch(site, abi=False)
    check = found(doctor(environment)[1], "C++ ABI")
    assert check.state == "fail"
    assert "torch was built with the old one (0), the compiler uses the new one (1)" in check.found


@pytest.mark.parametrize(
    ("compiler", "message"),
    [
        ("none-of-that-name", "CXX=none-of-that-name is not a program"),
        ("c++ -fno-such-option-at-all", "does not build a program in C++20"),
        ("c++ -std=c++20 -Dconstinit=nonsense", "error: "),
    ],
)
def test_compilers_that_do_not_do(
    environment: Environment, site: Path, monkeypatch: pytest.MonkeyPatch, compiler: str, message: str
) -> None:
    fake_torch(site)
    monkeypatch.setenv("CXX", compiler)
    code, checks = doctor(environment)
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
def test_pythons(tmp_path: Path, change: dict[str, Any], state: str, text: str) -> None:
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
    assert (build.state, build.mend.endswith('-m pip install "scikit-build-core>=1.1,<2"')) == ("fail", True)


# ---------------------------------------------------------------- tools


def context(tmp_path: Path, needed_cmake: str = "3.25") -> Context:
    requirements = of_template()
    replaced = type(requirements)(requirements.python, Version(needed_cmake), requirements.packages, "2.13")
    return Context(None, tmp_path / "bin" / "python", replaced, {}, None, 20)  # type: ignore[arg-type]


def program(path: Path, output: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{output}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_old_cmake_and_no_ninja(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin" / "cmake", "cmake version 3.18.4")
    monkeypatch.setenv("PATH", "/nowhere")
    checks = list(tools.checks(context(tmp_path)))
    cmake = found(checks, "CMake")
    assert (cmake.state, cmake.found) == ("fail", f"3.18.4 at {tmp_path}/bin/cmake; 3.25 or newer is needed")
    assert cmake.mend == f'{tmp_path}/bin/python -m pip install "cmake>=3.25"'
    assert found(checks, "Ninja").state == "warn"
    assert found(checks, "git").state == "warn"
    assert found(checks, "ccache").state == "ok"


def test_a_newer_cmake_behind_an_old_one_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "old" / "cmake", "cmake version 3.18.4")
    program(tmp_path / "new" / "cmake", "cmake version 4.1.0")
    monkeypatch.setenv("PATH", f"{tmp_path / 'old'}{os.pathsep}{tmp_path / 'new'}")
    cmake = found(list(tools.checks(context(tmp_path))), "CMake")
    assert (cmake.state, cmake.found) == ("ok", f"4.1.0 at {tmp_path}/new/cmake (3.25 or newer is needed)")


@pytest.mark.parametrize(("gigabytes", "state"), [(0.5, "fail"), (2, "warn"), (20, "ok")])
def test_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gigabytes: float, state: str) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0, 0, int(gigabytes * (1 << 30))))
    disk = found(list(tools.checks(context(tmp_path))), "disk")
    assert disk.state == state
    assert f"{gigabytes:.1f} GB free" in disk.found


def test_a_project_that_is_not_committed(environment: Environment, site: Path, tmp_path: Path) -> None:
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


# ---------------------------------------------------------------- installed backends


def test_another_backend(environment: Environment, site: Path) -> None:
    fake_torch(site)
    install(site, "torch_other")
    code, checks = doctor(environment)
    check = found(checks, "other backends")
    assert (check.state, code) == ("fail", 1)
    assert f"installed beside: torch_other (torch_other 1.0, {site}" in check.found
    assert "-m pip uninstall torch_other;" in check.mend


def test_two_backends_outside_of_a_project(
    environment: Environment, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_torch(site)
    install(site, "torch_one", entry_point="backend")
    monkeypatch.chdir(tmp_path)
    assert found(doctor(environment, project=None)[1], "other backends").state == "ok"
    install(site, "torch_two", entry_point="backend")
    _, checks = doctor(environment, project=None)
    assert found(checks, "other backends").mend.split(" -m ")[1].startswith("pip uninstall torch_one torch_two")
    assert "the name 'backend' in the group torch.backends is taken by several" in found(checks, "entry point").found


def test_metadata_without_a_package(environment: Environment, site: Path) -> None:
    fake_torch(site)
    describe(site, "torch_openreg", module="torch_openreg", entry_point="torch_openreg")
    _, checks = doctor(environment)
    assert "names the module torch_openreg, which is not there" in found(checks, "entry point").found
    assert found(checks, "package").found == f"torch_openreg is not installed; its metadata is left in {site}"


def test_installed_twice(environment: Environment, site: Path) -> None:
    fake_torch(site)
    install(site, "torch_openreg")
    describe(site, "torch-openreg", module="torch_openreg", entry_point="torch_openreg", version="0.9")
    check = found(doctor(environment)[1], "package")
    assert check.state == "fail"
    assert "torch_openreg is installed 2 times" in check.found


def test_two_distributions_bring_the_package(environment: Environment, site: Path) -> None:
    fake_torch(site)
    install(site, "torch_openreg")
    describe(site, "openreg_nightly", module="torch_openreg", entry_point="torch_openreg")
    _, checks = doctor(environment)
    texts = [check.found for check in checks if check.name == "package" and check.state == "fail"]
    assert texts == ["openreg_nightly also brings a package of the name torch_openreg"]


@pytest.mark.parametrize(
    ("minor", "age", "state", "text"),
    [
        (None, 0, "fail", "no compiled module _C for this Python"),
        ("2.12", 0, "fail", "was built for torch 2.12, and this is torch 2.13.0"),
        ("2.13", 1_000_000_000, "warn", "is newer than"),
        ("2.13", -1_000_000, "ok", "_C"),
    ],
)
def test_compiled_library(
    environment: Environment, site: Path, minor: str | None, age: int, state: str, text: str
) -> None:
    fake_torch(site)
    package = install(site, "torch_openreg")
    if minor:
        (package / "_build_info.py").write_text(f'TORCH_MINOR = "{minor}"\n')
        library = package / "_C.abi3.so"
        library.touch()
        now = library.stat().st_mtime
        for file in (library, *site.glob("*.dist-info/*")):
            os.utime(file, (now - age, now - age))
    check = found(doctor(environment)[1], "compiled library")
    assert (check.state, text in check.found) == (state, True), check


def test_the_newest_source_counts(tmp_path: Path) -> None:
    root = tmp_path / "tests" / "project"  # a folder above the project may have any name
    for number, name in enumerate(("CMakeLists.txt", "csrc/a.cpp", "third_party/x/tests/b.cpp", "csrc/notes.md")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
        os.utime(root / name, (number, number))
    assert backends.newest_source(root) == root / "csrc" / "a.cpp"


def test_autoload_switched_off(environment: Environment, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_torch(site)
    install(site, "torch_openreg", "raise ImportError('no library')")
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    _, checks = doctor(environment)
    assert [(c.group, c.state) for c in checks if c.name == "autoload"] == [
        ("Installed backends", "warn"),
        ("Registrations", "skip"),
    ]


# ---------------------------------------------------------------- registrations


def test_a_package_that_does_not_import(environment: Environment, site: Path) -> None:
    install(site, "torch_openreg", "raise ImportError('undefined symbol: _ZN3c10')")
    code, checks = doctor(environment)
    registrations = [check for check in checks if check.group == "Registrations"]
    assert [(check.name, check.state) for check in registrations] == [("autoload", "warn"), ("import", "fail")]
    assert registrations[0].found == "`import torch` fails: undefined symbol: _ZN3c10"
    assert registrations[1].found == "ImportError: undefined symbol: _ZN3c10"
    assert code == 1


def test_missing_registrations_are_named(environment: Environment, site: Path) -> None:
    install(site, "torch_openreg", NAME_ONLY)
    _, checks = doctor(environment)
    result = states(checks, "Registrations")
    assert result["autoload"] == result["import"] == "ok"
    wanted = ("device module", "guard", "hooks", "allocator", "generator", "minimal kernels", "first tensor")
    assert [name for name in wanted if result[name] != "fail"] == []
    assert "has no is_available, device_count, current_device" in found(checks, "device module").found
    assert "RegisterPrivateUse1HooksInterface" in found(checks, "hooks").found
    assert "csrc/runtime/Guard.cpp" in found(checks, "guard").mend
    assert "no kernel for aten::empty.memory_format, aten::empty_strided" in found(checks, "minimal kernels").found
    assert result["fallback"] == "warn"


def test_the_one_that_is_missing_is_named(environment: Environment, site: Path) -> None:
    """Module, guard and hooks are there, and no device, as on a machine without the chip: the allocator is not."""
    install(site, "torch_openreg", IN_PYTHON)
    _, checks = doctor(environment)
    assert states(checks, "Registrations") == {
        "autoload": "ok",
        "import": "ok",
        "device module": "ok",
        "guard": "ok",
        "hooks": "ok",
        "allocator": "fail",
        "generator": "skip",
        "minimal kernels": "fail",
        "fallback": "warn",
        "autocast": "warn",
        "stream": "skip",
        "pinned memory": "skip",
        "first tensor": "skip",
    }
    assert found(checks, "allocator").found == "no c10::DeviceAllocator is registered for PrivateUse1"
    assert found(checks, "stream").found == "there is no device to try it on (device_count() is 0)"


def test_a_crash_is_reported_with_its_signal(environment: Environment, site: Path) -> None:
    fake_torch(site)
    install(site, "torch_openreg", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    code, checks = doctor(environment)
    check = found(checks, "load")
    assert (check.state, code) == ("fail", 1)
    assert "was ended by SIGSEGV during the check 'import'" in check.found
    assert "torch_openreg/__init__.py" in check.found


def test_a_hang_is_ended(environment: Environment, site: Path) -> None:
    fake_torch(site)
    install(site, "torch_openreg", "import time\ntime.sleep(600)")
    _, checks = doctor(environment, "--time-limit", "3")
    check = found(checks, "load")
    assert check.found.startswith("the process that loads the backend did not end within 3 seconds and was killed")
    assert "during the check 'import'" in check.found
    assert "--time-limit" in check.mend


# ---------------------------------------------------------------- what a terminal shows


def test_output_for_people(environment: Environment, site: Path) -> None:
    fake_torch(site, "2.12.0")
    result = CliRunner().invoke(main, ["doctor", "--project", str(EXAMPLE), "--python", str(environment.python)])
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[0] == f"Looking at the project torch_openreg in {EXAMPLE}"
    place = next(i for i, line in enumerate(lines) if line.startswith("  fail  torch  "))
    assert lines[place + 1].strip().startswith("->")
    assert 'install "torch>=2.13,<2.14"' in lines[place + 1]
    assert lines[-1].endswith("failures")


def test_python_that_is_none(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["doctor", "--python", str(tmp_path / "python")])
    assert result.exit_code == 2
    assert f"{tmp_path / 'python'} is not a Python interpreter" in result.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0, result.output
    assert f"_TORCH_BACKEND_COMPLETE={shell}_complete" in result.output


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("torch-backend doc", ["doctor"]),
        ("torch-backend list-ops --state c", ["cpu", "composite"]),
        ("torch-backend status --st", ["--static"]),
    ],
)
def test_completion(words: str, expected: list[str]) -> None:
    variables: dict[str, Any] = {
        "_TORCH_BACKEND_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    result = CliRunner().invoke(main, env=variables, prog_name="torch-backend")
    assert [line.split(",")[1] for line in result.output.splitlines()] == expected
