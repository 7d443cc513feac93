"""A package that is built with one build of torch works with every build of the same release. clang compiles it too.

A build for CUDA, which is what `pip install torch` gives on most machines, is fetched once and kept (cuda_build.py).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.version import Version
from torch_backend.environment import Environment, create_environment
from torch_backend.render import render_tree
from torch_backend.source import Source

from .conftest import MATRIX, answers_of
from .cuda_build import UnavailableError, cuda_build
from .running import ROOT, build_wheel, checked, install_wheel, needed_of_torch, sync

pytestmark = pytest.mark.build

SCRATCH = ROOT / "build" / "tests"
BUILDS = ["cpu", "cuda"]
QUIET = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
WHICH = "import torch; print(torch.version.cuda, (torch.ones(2) + 1).tolist())"

# A project that links the installed package.
DOWNSTREAM = """
cmake_minimum_required(VERSION 3.25)
project(downstream LANGUAGES CXX)
find_package(torch_acme REQUIRED CONFIG)
"""

# A kernel of somebody else's.
EXTENSION = """
import sys
import torch

torch.ops.load_library(sys.argv[1])
x, y = torch.arange(4.0, device=sys.argv[2]), torch.ones(4, device=sys.argv[2])
print(torch.ops.extension.axpy(x, y, 2.5).cpu().tolist())
"""


def configured_for_cuda(folder: Path) -> Path:
    """The torch of the tests with the CMake files of a CUDA build, which differ in these values."""
    spec = find_spec("torch")
    assert spec is not None
    assert spec.submodule_search_locations
    torch, ours = Path(spec.submodule_search_locations[0]), folder / "torch"
    shutil.copytree(torch / "share", ours / "share")
    for name in ("include", "lib"):
        (ours / name).symlink_to(torch / name)
    config = ours / "share" / "cmake" / "Caffe2" / "Caffe2Config.cmake"
    text = config.read_text(encoding="utf-8")
    if "set(CAFFE2_USE_CUDA 1)" not in text:
        text, count = re.subn(r"(?m)^if\(0\)$(?=(\n  #.*)*\n  set\(CAFFE2_USE_CUDA)", "if(1)", text)
        assert count == 1
        text = text.replace("set(CAFFE2_USE_CUDA 0)", "set(CAFFE2_USE_CUDA 1)")
        config.write_text(
            text.replace("if( AND NOT CAFFE2_USE_CUDA)", "if(1 AND NOT CAFFE2_USE_CUDA)"), encoding="utf-8"
        )
    return ours / "share" / "cmake"


def test_configures_with_cuda_but_without_its_toolkit(source: Source, tmp_path: Path) -> None:
    """The project and an extension configure with the CMake files of a CUDA build."""
    torch = configured_for_cuda(tmp_path)
    project, downstream, build = render(source, tmp_path / "project"), tmp_path / "downstream", tmp_path / "build"
    cmake, env = ("cmake", "-G", "Ninja"), os.environ | QUIET
    where = ("-S", project, "-B", build, f"-DCMAKE_PREFIX_PATH={torch}")
    checked(*cmake, *where, f"-DPython_EXECUTABLE={sys.executable}", cwd=tmp_path, env=env)

    installed = tmp_path / "site" / "torch_acme" / "share" / "cmake" / "torch_acme"
    installed.mkdir(parents=True)
    shutil.copy2(build / "torch_acmeConfig.cmake", installed)
    downstream.mkdir()
    (downstream / "CMakeLists.txt").write_text(DOWNSTREAM, encoding="utf-8")
    where = ("-S", downstream, "-B", downstream / "build", f"-DCMAKE_PREFIX_PATH={installed.parent};{torch}")
    checked(*cmake, *where, cwd=tmp_path, env=env)


@cache
def environment_with(build: str) -> Environment:
    """An environment with a build of the torch that the tests run with: "cpu" or "cuda". Skips if it cannot be had."""
    folder = SCRATCH / f"torch-{build}" / "venv"
    shutil.rmtree(folder, ignore_errors=True)
    if build == "cpu":
        environment = create_environment(folder)
    else:
        try:
            packages = cuda_build(Version(version("torch")).public)
        except UnavailableError as error:
            pytest.skip(str(error))
        environment = create_environment(folder, without={"torch"})
        for entry in packages.iterdir():
            link = environment.site_packages / entry.name
            link.unlink(missing_ok=True)
            link.symlink_to(entry)
    told = checked(environment.python, "-c", WHICH, cwd=SCRATCH, env=environment.variables(QUIET))
    cuda, sum_ = told.split(maxsplit=1)
    if build == "cpu" and cuda != "None":
        pytest.skip(f"the torch that the tests run with is built for CUDA {cuda}, and no other is fetched")
    assert (cuda != "None", sum_.strip()) == (build == "cuda", "[2.0, 2.0]")
    return environment


@dataclass(frozen=True)
class Made:
    """A project, its wheel, and a C++ extension that was built against the wheel."""

    project: Path
    wheel: Path
    extension: Path

    @property
    def package(self) -> str:
        return str(answers_of(self.project)["package_name"])

    @property
    def device(self) -> str:
        return str(answers_of(self.project)["device_name"])

    def needs_of_torch(self, environment: Environment) -> dict[str, set[str]]:
        """Returns the libraries of torch that each installed library needs."""
        package = environment.site_packages / self.package
        ours = [*package.glob("*.so"), *package.glob("lib/*.so"), self.extension]
        return {path.name.split(".")[0]: needed_of_torch(path) for path in ours}


def render(source: Source, folder: Path) -> Path:
    sync(render_tree(source, MATRIX["acme"]), folder)
    return folder


def use(made: Made, environment: Environment) -> None:
    """Installs the wheel and runs the example of use, one file of the project's tests, and the extension's kernel."""
    env = environment.variables()
    install_wheel(made.wheel, environment, environment.variables(QUIET))
    told = checked(environment.python, made.project / "examples" / "quickstart.py", cwd=SCRATCH, env=env)
    assert made.device in told
    tests = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_native.py")
    told = checked(environment.python, *tests, cwd=made.project, env=env)
    assert int(re.findall(r"(\d+) passed", told)[-1]) > 100, told[-400:]
    kernel = ("-c", EXTENSION, made.extension, made.device)
    told = checked(environment.python, *kernel, cwd=SCRATCH, env=env)
    assert told.strip() == "[1.0, 3.5, 6.0, 8.5]"


def make(source: Source, environment: Environment, **variables: str) -> Made:
    """Renders a project beside the environment, builds and installs it, and builds the extension of its tests."""
    project = render(source, environment.folder.parent / "project")
    env = environment.variables(QUIET | variables)
    wheel = build_wheel(project, environment.folder.parent / "wheels", environment, env)
    install_wheel(wheel, environment, env)
    build = environment.folder.parent / "extension"
    shutil.rmtree(build, ignore_errors=True)
    made = Made(project, wheel, build / "libextension.so")
    paths = "package.cmake_prefix_path, torch.utils.cmake_prefix_path"
    code = f"import torch, {made.package} as package; print({paths}, sep=';')"
    prefix = checked(environment.python, "-c", code, cwd=SCRATCH, env=env).strip()
    names = (f"-DPACKAGE={made.package}", f"-DDEVICE={made.device}", f"-DCMAKE_PREFIX_PATH={prefix}")
    sources = project / "tests" / "extension"
    checked("cmake", "-G", "Ninja", "-S", sources, "-B", build, *names, cwd=SCRATCH, env=env)
    checked("cmake", "--build", build, "--target", "extension", cwd=SCRATCH, env=env)
    return made


@pytest.fixture(scope="module", params=BUILDS)
def made(request: pytest.FixtureRequest, source: Source) -> Made:
    """A project that is built with one of the builds of torch."""
    return make(source, environment_with(request.param))


@pytest.mark.matrix
def test_it_links_only_libraries_of_every_torch_build(made: Made) -> None:
    environment = Environment(made.project.parent / "venv")
    everywhere = {"libtorch_cpu.so", "libc10.so"}
    needs = made.needs_of_torch(environment)
    assert needs[f"lib{made.package}"] == needs["libextension"] == everywhere
    assert needs["libtorch_bindings"] == everywhere | {"libtorch_python.so"}
    assert set().union(*needs.values()) == everywhere | {"libtorch_python.so"}


@pytest.mark.matrix
@pytest.mark.parametrize("build", BUILDS)
def test_the_package_works_with_each_build_of_torch(made: Made, build: str) -> None:
    use(made, environment_with(build))


def newest_clang() -> tuple[str, str] | None:
    """The C and the C++ compiler, or nothing if there is none from version 16 on."""
    for suffix in ["", *(f"-{number}" for number in range(40, 15, -1))]:
        command = shutil.which(f"clang++{suffix}")
        if command and shutil.which(f"clang{suffix}"):
            number = subprocess.run([command, "-dumpversion"], capture_output=True, text=True, check=True).stdout
            if int(number.split(".")[0]) >= 16:
                return f"clang{suffix}", command
    return None


@pytest.mark.matrix
def test_clang_compiles_it_without_a_warning(source: Source) -> None:
    found = newest_clang()
    if found is None:
        pytest.skip("no clang++ from version 16 on is installed")
    folder = SCRATCH / "torch-clang" / "venv"
    shutil.rmtree(folder, ignore_errors=True)
    environment = create_environment(folder)
    made = make(source, environment, CC=found[0], CXX=found[1])
    (commands,) = made.project.glob("build/*/compile_commands.json")
    assert all("clang" in entry["command"] for entry in json.loads(commands.read_text(encoding="utf-8")))
    use(made, environment)
