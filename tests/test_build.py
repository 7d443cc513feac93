"""Builds rendered projects, and tests what was built. Minutes each: deselect with `-m "not build"`.

One of them is the example. They are built below build/tests/, which stays, so that a second run only compiles what
changed. Sources differ in their names, so ccache helps across clones and runs, not from one project to the next.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from torch_backend.cli import main
from torch_backend.environment import Environment, create_environment
from torch_backend.maintenance.example import Example
from torch_backend.maintenance.trees import read_project
from torch_backend.render import render_tree
from torch_backend.source import Source

from .conftest import BUILT, MATRIX, answers_of
from .running import ROOT, build_wheel, checked, install_wheel, needed_of_torch, sync
from .torch_release import RANGE

pytestmark = pytest.mark.build

SCRATCH = ROOT / "build" / "tests"
LAUNCH_MODES = ("inline", "async", "blocking")
# Of a project's own tests, the files that hold what a name or an answer may change: variables of the environment,
# loading, the device module, pages, files, what is built against the package; and of computing, one file of operators
# and one of training.
NAMED = (
    "autoload",
    "device",
    "docs",
    "extension",
    "fallback",
    "faults",
    "hooks",
    "interop",
    "launch_modes",
    "memory_settings",
    "module_api",
    "native",
    "no_device",
    "operator_report",
    "parameters",
    "profiler",
    "seam",
    "serialization",
    "training",
)
# Each with a launch mode of its own.
OTHERS = {"acme": "async", "zz": "blocking", "very_long": "inline"}
SANITIZERS = {"address": "address,undefined", "thread": "thread"}
QUICKSTART = Path("examples") / "quickstart.py"


@dataclass(frozen=True)
class Built:
    """A project that was rendered, built as a wheel, and installed into an environment of its own."""

    name: str
    project: Path
    wheel: Path
    environment: Environment
    answers: dict[str, Any]

    @property
    def package(self) -> str:
        return str(self.answers["package_name"])

    @property
    def device(self) -> str:
        return str(self.answers["device_name"])

    @property
    def installed(self) -> Path:
        return self.environment.site_packages / self.package

    @property
    def libraries(self) -> dict[str, Path]:
        found = [*self.installed.glob("*.so"), *(self.installed / "lib").glob("*.so")]
        return {path.name.split(".")[0]: path for path in found}

    def run(
        self, *arguments: str, cwd: Path | None = None, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.environment.python), *arguments],
            cwd=cwd or SCRATCH,
            env=self.environment.variables(env),
            capture_output=True,
            text=True,
            check=False,
        )


# What is done with a project is done by one process of pytest-xdist, which builds it once.
@pytest.fixture(scope="session", params=BUILT)
def built(request: pytest.FixtureRequest, source: Source, example: Example) -> Built:
    name: str = request.param
    folder = SCRATCH / name
    project = folder / "project"
    sync(read_project(example.folder) if name == "openreg" else render_tree(source, MATRIX[name]), project)
    shutil.rmtree(folder / "venv", ignore_errors=True)
    environment = create_environment(folder / "venv")
    env = environment.variables({"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    wheel = build_wheel(project, folder / "wheels", environment, env)
    install_wheel(wheel, environment, env)
    return Built(name, project, wheel, environment, answers_of(project))


def test_the_wheel_names_no_folder_of_this_machine(built: Built) -> None:
    """Neither the project's nor torch's, which error messages, run paths and the CMake package could name."""
    folders = {str(ROOT), str(built.environment.site_packages), sysconfig.get_path("purelib")}
    with zipfile.ZipFile(built.wheel) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    assert any(name.endswith(f"/lib{built.package}.so") for name in contents)
    found = {(name, folder) for name, text in contents.items() for folder in folders if folder.encode() in text}
    assert found == set()


def test_the_wheel_holds_headers_and_no_other_sources(built: Built) -> None:
    """Exactly what is needed: headers but no other sources, no static libraries, nothing outside the package."""
    sdk, csrc = built.answers["sdk_name"], built.project / "csrc"
    with zipfile.ZipFile(built.wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
    inside = {name.removeprefix(f"{built.package}/") for name in names if name.startswith(f"{built.package}/")}
    outside = [n for n in names if not re.match(rf"{built.package}(/|-[^/]+\.dist-info/)", n)]
    assert outside == []
    binaries = {name for name in inside if ".so" in name}
    libraries = {f"lib/lib{name}.so" for name in (built.package, built.answers["sdk_name"], "torch_bindings")}
    assert libraries < binaries
    assert len(binaries) == 4
    (module,) = binaries - libraries
    assert re.fullmatch(r"_C\..*\.so", module)
    sources = built.project / "python" / built.package
    expected = {
        p.relative_to(sources).as_posix() for p in sources.rglob("*") if p.suffix in {".py", ".pyi", ".typed", ".html"}
    }
    headers = {f"include/{built.package}/{p.relative_to(csrc).as_posix()}" for p in csrc.rglob("*.h")}
    headers.add(f"include/{sdk}/{sdk}.h")
    cmake = {f"share/cmake/{built.package}/{built.package}{part}.cmake" for part in ("Config", "ConfigVersion")}
    assert f"include/{built.package}/device/Launch.h" in headers
    assert f"{built.answers['device_name']}/operator_report.html" in expected
    other = {"py.typed", "share/sdk_libraries.txt"}
    assert {name for name in inside if name not in binaries} == expected | other | headers | cmake
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_metadata_of_the_wheel_are_the_answers(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        folder = next(name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name)
        metadata = HeaderParser().parsestr(archive.read(f"{folder}/METADATA").decode())
        entry_points = archive.read(f"{folder}/entry_points.txt").decode()
        tags = archive.read(f"{folder}/WHEEL").decode()
    assert metadata["Name"].replace("-", "_") == built.package
    assert metadata["Summary"] == built.answers["description"]
    assert metadata["License-Expression"] == built.answers["license"]
    assert built.answers["author_email"] in metadata["Author-email"]
    (requirement,) = [r for r in metadata.get_all("Requires-Dist", []) if "extra ==" not in r]
    assert set(re.findall(r"torch|[<>]=?[0-9.]+", requirement)) == {"torch", *RANGE.split(",")}
    assert "[torch.backends]" in entry_points
    assert f"{built.package}:_autoload" in entry_points
    assert f"Tag: cp3{sys.version_info.minor}-" in tags


def test_no_name_of_the_example_in_the_binaries(built: Built) -> None:
    if built.name == "openreg":
        pytest.skip("the example holds its own names")
    for path in built.libraries.values():
        symbols = subprocess.run(["nm", "-C", str(path)], capture_output=True, text=True, check=False).stdout
        symbols += subprocess.run(["nm", "-DC", str(path)], capture_output=True, text=True, check=True).stdout
        assert not re.search("openreg", symbols, re.IGNORECASE), path
        assert not re.search(rb"openreg", path.read_bytes(), re.IGNORECASE), path


def test_run_paths_are_relative(built: Built) -> None:
    for path in built.libraries.values():
        dynamic = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True, check=True).stdout
        for entry in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic):
            assert all(part.startswith("$ORIGIN") for part in entry.split(":")), f"{path}: {entry}"


def test_of_torch_only_what_every_build_has_is_needed(built: Built) -> None:
    """A wheel then loads with CPU and CUDA builds of torch, whichever it was built with."""
    for name, path in built.libraries.items():
        allowed = {"libtorch_cpu.so", "libc10.so"} | ({"libtorch_python.so"} if name == "libtorch_bindings" else set())
        assert needed_of_torch(path) <= allowed, path


def test_sdk_exports_its_own_prefix_only(built: Built) -> None:
    """The library exports only the functions of its C API."""
    path = built.libraries[f"lib{built.answers['sdk_name']}"]
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", str(path)], capture_output=True, text=True, check=True
    ).stdout
    names = [line.split()[-1] for line in listing.splitlines()]
    foreign = [n for n in names if not re.match(rf"{built.answers['sdk_prefix']}[A-Z]", n)]
    assert names
    assert [n for n in foreign if not n.startswith("_Z")] == []  # weak instantiations of the standard library may show


def test_the_device_works_from_any_folder(built: Built, tmp_path: Path) -> None:
    code = f"import torch; print((torch.ones(2, device='{built.device}') + 2).cpu().tolist())"
    for folder in (tmp_path, built.project):
        done = built.run("-c", code, cwd=folder)
        assert done.stdout.strip() == "[3.0, 3.0]", f"{folder}: {done.stdout}{done.stderr}"


def test_autoload_can_be_switched_off(built: Built) -> None:
    code = f"import sys, torch; print('{built.package}' in sys.modules, hasattr(torch, '{built.device}'))"
    assert built.run("-c", code).stdout.strip() == "True True"
    assert built.run("-c", code, env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}).stdout.strip() == "False False"


def test_doctor_status_and_list_ops_agree_with_the_build(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a real build they find every registration, and the operators run as the project registers them."""
    for variable in ("PYTHONPATH", "TORCH_DEVICE_BACKEND_AUTOLOAD"):
        monkeypatch.delenv(variable, raising=False)

    def ask(command: str) -> dict[str, Any]:
        where = ["--project", str(built.project), "--python", str(built.environment.python)]
        result = CliRunner().invoke(main, [command, "--json", *where])
        assert result.exit_code == 0, result.output
        told: dict[str, Any] = json.loads(result.stdout)
        return told

    checks = {(check["group"], check["name"]): check for check in ask("doctor")["checks"]}
    registrations = {name: check["state"] for (group, name), check in checks.items() if group == "Registrations"}
    assert set(registrations.values()) == {"ok"}, checks
    assert {"device module", "guard", "hooks", "allocator", "generator", "first tensor"} <= registrations.keys()
    installed = {name: check["state"] for (group, name), check in checks.items() if group == "Installed backends"}
    assert installed == {"other backends": "ok", "package": "ok", "compiled library": "ok"}

    operators = ask("list-ops")["operators"]
    status = ask("status")["operators"]
    assert sum(status["running"].values()) == len(operators) > 3000
    listed = re.findall(r'^EMULATED\("([\w.]+)"', (built.project / "csrc/fallback/operators.def").read_text(), re.M)
    by_policy = operators["aten::nonzero"]["state"]  # emulated, or on the CPU where the host cannot reach device memory
    assert {operators[f"aten::{name}"]["state"] for name in listed} == {by_policy}
    expected = {"aten::zero_": "native", "aten::view": "native", "aten::linalg_eig": "cpu", "aten::matmul": "composite"}
    assert {name: operators[name]["state"] for name in expected} == expected


PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider")


def run_its_tests(built: Built, mode: str, *command: str) -> None:
    env = {
        f"{built.answers['sdk_name'].upper()}_LAUNCH": mode,
        "OMP_WAIT_POLICY": "passive",  # projects are tested at the same time, and idle threads should not spin
    }
    done = built.run(*command, cwd=built.project, env=env)
    print("\n".join(done.stdout.splitlines()[-15:]))
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


@pytest.mark.parametrize("mode", LAUNCH_MODES)
def test_the_whole_suite_of_the_example_passes(built: Built, mode: str) -> None:
    """One mode runs all tests. The others omit PyTorch's own tests, which `make test-matrix` runs in each mode."""
    if built.name != "openreg":
        pytest.skip("test_tests_that_depend_on_names_pass_under_other_names runs the others")
    run_its_tests(built, mode, *PYTEST, "tests", *([] if mode == "inline" else ["--ignore=tests/conformance"]))


def test_tests_that_depend_on_names_pass_under_other_names(built: Built) -> None:
    if built.name == "openreg":
        pytest.skip("this is the example, which runs its whole suite")
    files = (f"tests/test_{name}.py" for name in NAMED if (built.project / "tests" / f"test_{name}.py").exists())
    run_its_tests(built, OTHERS[built.name], *PYTEST, *files)


@pytest.mark.matrix
def test_the_whole_suite_under_another_name(built: Built) -> None:
    if built.name == "openreg":
        pytest.skip("test_the_whole_suite_of_the_example_passes runs this suite")
    run_its_tests(built, OTHERS[built.name], *PYTEST, "tests")


@pytest.mark.parametrize("mode", [pytest.param(mode, marks=pytest.mark.matrix) for mode in LAUNCH_MODES])
def test_the_tests_of_pytorch_pass_as_claimed(built: Built, mode: str) -> None:
    """All of PyTorch's device-generic tests run here, and the numbers of passed tests are compared."""
    if built.name != "openreg":
        pytest.skip("once is enough: names change nothing that an operator computes")
    run_its_tests(built, mode, "tests/conformance/run.py", "--results", str(SCRATCH / built.name / f"claims-{mode}"))


def test_the_quickstart_trains(built: Built) -> None:
    if built.name != "acme":
        pytest.skip("once is enough; it is what `make demo` runs")
    done = built.run(str(QUICKSTART), cwd=built.project)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert built.device in done.stdout


def _test_sdk(built: Built, folder: str, *options: str) -> None:
    """Builds the SDK alone, with its C++ tests, and runs them. Skips without GoogleTest, which CI demands."""
    sdk = built.project / "third_party" / built.answers["sdk_name"]
    build = SCRATCH / built.name / folder
    env = built.environment.variables()
    options += ("-DCMAKE_UNITY_BUILD=ON",)  # as projects compile it
    configured = checked("cmake", "-G", "Ninja", "-S", sdk, "-B", build, *options, cwd=SCRATCH, env=env)
    checked("cmake", "--build", build, cwd=SCRATCH, env=env)
    if "GoogleTest was not found" in configured and not os.environ.get("REQUIRE_GTEST"):
        pytest.skip("GoogleTest is not installed")
    four_at_once = ("--parallel", "4")  # they mostly wait
    test = ("ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error", *four_at_once)
    out = checked(*test, cwd=SCRATCH, env=env)
    print(out[-600:])


def test_the_unit_tests_of_the_sdk_pass(built: Built) -> None:
    if built.name != "zz":
        pytest.skip("once is enough, and under another name than with sanitizers")
    _test_sdk(built, "sdk")


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_the_sdk_is_clean_under_sanitizers(built: Built, sanitizer: str) -> None:
    if built.name != "openreg":
        pytest.skip("once is enough: names change nothing that a sanitizer sees")
    _test_sdk(built, f"sdk-{sanitizer}", f"-DSDK_SANITIZE={SANITIZERS[sanitizer]}")


def test_an_editable_install_works(built: Built, tmp_path: Path) -> None:
    if built.name != "zz":
        pytest.skip("one editable install is enough")
    environment = create_environment(SCRATCH / built.name / "venv-editable")
    env = environment.variables({"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    command = ("-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--editable", ".")
    checked(environment.python, *command, cwd=built.project, env=env)
    code = f"import torch, {built.package} as p; print(p.__file__, torch.ones(1, device='{built.device}').item())"
    done = subprocess.run(
        [str(environment.python), "-c", code],
        cwd=tmp_path,
        env=environment.variables(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == [str(built.project / "python" / built.package / "__init__.py"), "1.0"], done.stderr
