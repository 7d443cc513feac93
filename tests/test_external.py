"""A project for a library of the vendor's own: as it is rendered, and ported to a stand-in for such a library.

``tests/standin/quartz`` is such a library: exceptions instead of error codes, numbers instead of pointers for handles,
device addresses at which a host faults, the device named in each call. ``tests/standin/quartz_port`` is what a vendor
writes: files in ``csrc/device/`` and ``cmake/DeviceLibrary.cmake``, laid over the rendered project. The project's own
tests judge it. tests/test_walkthrough.py ports a project to another library, ``tests/standin/basalt``.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from torch_backend.environment import Environment, create_environment
from torch_backend.inspection.seam import read_seam
from torch_backend.maintenance.formatting import format_cpp
from torch_backend.maintenance.trees import read_project
from torch_backend.project import Project
from torch_backend.render import File, Tree, render_tree, write_file
from torch_backend.source import Source

from .running import ROOT, build_wheel, checked, install_wheel, sync

STANDIN = ROOT / "tests" / "standin"
SCRATCH = ROOT / "build" / "tests" / "external"
ANSWERS = {"vendor_name": "Acme", "device_library": "external"}
# What a stand-in that is done when a call returns may be excused from by the tests' own probes.
EXCUSED = {"emulation", "emulator", "priorities", "queues"}
PORTS = ["quartz_port", "basalt_port"]
# The capabilities that its port declines.
DECLINED = ["graphs", "priorities", "sharing"]


def ported(rendered: Tree, port: str = "quartz_port") -> Tree:
    """The rendered project with the files of the port."""
    return rendered | read_project(STANDIN / port)


@pytest.mark.parametrize("port", PORTS)
def test_a_port_stays_within_the_seam(port: str, source: Source) -> None:
    rendered = render_tree(source, ANSWERS)
    changed = {path for path, file in ported(rendered, port).items() if rendered.get(path) != file}
    assert changed
    allowed = r"csrc/device/[^/]+$|cmake/DeviceLibrary\.cmake$|csrc/aten/native/Sign\.cpp$"
    assert {path for path in changed if not re.match(allowed, path)} == set()
    headers = {path for path in changed if path.endswith(".h")}
    assert headers <= {"csrc/device/Handles.h", "csrc/device/Kernel.h"}


@pytest.mark.parametrize("port", PORTS)
def test_a_port_is_formatted_as_the_project_is(port: str, source: Source, tmp_path: Path) -> None:
    for path, file in ported(render_tree(source, ANSWERS), port).items():
        if path.startswith(("csrc/device/", ".clang-format")):
            write_file(tmp_path / path, file)
    assert format_cpp(tmp_path, check=True) > 20


def test_a_rendered_project_names_no_library_of_these_tests(source: Source) -> None:
    for path, file in render_tree(source, ANSWERS).items():
        assert not re.search(rb"quartz|basalt", file.content.lower()), path


def test_the_porting_page_is_what_the_sources_say(source: Source, tmp_path: Path) -> None:
    """The page has its own template file, because these projects have other sources than the example."""
    for path, file in render_tree(source, ANSWERS).items():
        write_file(tmp_path / path, file)
    page = tmp_path / "docs" / "porting.md"
    rendered = page.read_text(encoding="utf-8")
    checked(sys.executable, "docs/porting.py", cwd=tmp_path)
    assert page.read_text(encoding="utf-8") == rendered


SDK_ELSEWHERE = """
cmake_minimum_required(VERSION 3.25)
project(torch_acme LANGUAGES NONE)
add_library(common INTERFACE)
target_include_directories(common INTERFACE ${CMAKE_CURRENT_SOURCE_DIR}/common)
add_library(sdk INTERFACE)
target_include_directories(sdk SYSTEM INTERFACE ${CMAKE_CURRENT_SOURCE_DIR}/mychip)
target_link_libraries(sdk INTERFACE common)
add_library(sdk::runtime ALIAS sdk)
set(sdk_in_wheel "")
include(cmake/Extensions.cmake)
"""


def test_extensions_find_the_headers_of_an_sdk_that_is_not_in_the_wheel(source: Source, tmp_path: Path) -> None:
    for path, file in render_tree(source, ANSWERS).items():
        if path.startswith("cmake/"):
            write_file(tmp_path / path, file)
    (tmp_path / "CMakeLists.txt").write_text(SDK_ELSEWHERE)
    checked("cmake", "-S", tmp_path, "-B", tmp_path / "build", cwd=tmp_path)
    config = (tmp_path / "build" / "torch_acmeConfig.cmake").read_text()
    assert f'set(torch_acme_SDK_INCLUDE_DIRS "{tmp_path}/mychip;{tmp_path}/common")' in config


def test_the_header_of_placeholders_can_be_deleted(source: Source) -> None:
    """When all functions are written: no page and no test names it."""
    tree = render_tree(source, ANSWERS)
    users = {path for path, file in tree.items() if b"NotWritten.h" in file.content}
    assert users
    assert {path for path in users if not re.fullmatch(r"csrc/device/\w+\.cpp", path)} == set()


def _install(tree: Tree, environment: Environment, **variables: str) -> Path:
    """Builds the project in its folder, which stays, and installs the wheel."""
    folder = SCRATCH / "project"
    sync(tree, folder)
    env = environment.variables({"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"} | variables)
    install_wheel(build_wheel(folder, SCRATCH / "wheels", environment, env), environment, env)
    return folder


@pytest.fixture(scope="module")
def machine() -> Environment:
    shutil.rmtree(SCRATCH / "venv", ignore_errors=True)
    SCRATCH.mkdir(parents=True, exist_ok=True)
    return create_environment(SCRATCH / "venv")


USE = """
import torch
acme = torch.acme
print(acme.device_count(), acme.is_available(), torch.accelerator.is_available())
for use in (lambda: torch.ones(2, device="acme"), lambda: acme.operators.set_fallback_policy("emulate")):
    try:
        use()
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0])
"""


@pytest.mark.build
def test_an_unwritten_port_builds_and_says_what_to_write(source: Source, machine: Environment) -> None:
    """The project builds, loads with torch, has no device and says what to write. Its tests of this state pass."""
    folder = _install(render_tree(source, ANSWERS), machine)
    told = checked(machine.python, "-c", USE, cwd=SCRATCH, env=machine.variables()).splitlines()
    assert told[0] == "0 False False"
    assert re.match(
        r"NotImplementedError `.*initialize.*` is not written yet\. In csrc/device/Device\.cpp, let it ", told[1]
    )
    assert re.match(r"ValueError the fallback policy `emulate` .* choose `cpu`", told[2])
    out = checked(machine.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=folder, env=machine.variables())
    assert int(re.findall(r"(\d+) passed", out)[-1]) > 20, out[-400:]


@pytest.mark.build
def test_a_port_passes_the_projects_tests(source: Source, machine: Environment) -> None:
    """The project's tests pass on it, except those that need an ability which the library lacks."""
    build, prefix = SCRATCH / "quartz", SCRATCH / "prefix"
    env = machine.variables()
    warnings = "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror"
    where = ("-S", STANDIN / "quartz", "-B", build, f"-DCMAKE_INSTALL_PREFIX={prefix}")
    checked("cmake", "-G", "Ninja", *where, warnings, cwd=SCRATCH, env=env)
    checked("cmake", "--build", build, "--target", "install", cwd=SCRATCH, env=env)
    folder = _install(ported(render_tree(source, ANSWERS)), machine, CMAKE_PREFIX_PATH=str(prefix))
    left = {file.path for file in read_seam(Project.find(folder)).files if file.unwritten}
    assert left == {f"csrc/device/{name}.cpp" for name in ("Launch",)}
    checked(machine.python, "docs/porting.py", cwd=folder, env=machine.variables())  # as after any edit of a tag
    command = (machine.python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider")
    out = checked(*command, cwd=folder, env=machine.variables(), limit=7200)
    print(out[-3000:])
    assert int(re.findall(r"(\d+) passed", out)[-1]) > 3000, out[-2000:]
    told = (folder / "tests" / "abilities.py").read_text(encoding="utf-8")
    sentences = dict(re.findall(r'^    "(\w+)": "(.*)",$', told, re.MULTILINE))
    assert sentences.keys() == EXCUSED
    code = "import torch; print(sorted(torch.acme.missing_capabilities()))"
    assert checked(machine.python, "-c", code, cwd=SCRATCH, env=machine.variables()).strip() == str(DECLINED)


# A call into the library, so that the linker needs it.
CALL = b"""#include <basalt.h>

extern "C" __attribute__((visibility("default"))) int basaltDevices();
int basaltDevices() {
  int count = 0;
  return bsGetDeviceCount(&count) == bsSuccess ? count : -1;
}
"""
LINKED = """
import ctypes
from pathlib import Path
import torch
import torch_acme
from torch_acme import _missing_library
if _missing_library.missing:
    try:
        torch.ones(2, device="acme")
    except RuntimeError as error:
        print(error)
else:
    library = ctypes.CDLL(str(Path(torch_acme.library_paths()[0], "libtorch_acme.so")))
    print(_missing_library.libraries(), library.basaltDevices())
"""


def _linked_with_basalt(source: Source, *options: str) -> Tree:
    """The rendered project with a call into basalt, and its link as the comment in DeviceLibrary.cmake tells."""
    link = " ".join(("use_sdk(LIBRARY basalt HEADER basalt.h", *options)) + ")\n"
    files = {"cmake/DeviceLibrary.cmake": link.encode(), "csrc/device/Basalt.cpp": CALL}
    return render_tree(source, ANSWERS) | {path: File(content, executable=False) for path, content in files.items()}


def _run_path(machine: Environment) -> str:
    (library,) = (machine.python.parent.parent / "lib").rglob("libtorch_acme.so")
    (path,) = re.findall(r"R(?:UN)?PATH.*\[(.*)\]", checked("readelf", "-dW", library, cwd=SCRATCH))
    return str(path)


@pytest.mark.build
def test_a_library_outside_of_the_loaders_path_is_found(source: Source, machine: Environment) -> None:
    """The run path has exactly the library's folder. Without the library `import torch` works, and a use names it."""
    prefix = SCRATCH / "basalt-prefix"
    shutil.rmtree(prefix, ignore_errors=True)
    where = ("-S", STANDIN / "basalt", "-B", SCRATCH / "basalt", f"-DCMAKE_INSTALL_PREFIX={prefix}")
    checked("cmake", "-G", "Ninja", *where, cwd=SCRATCH, env=machine.variables())
    checked("cmake", "--build", SCRATCH / "basalt", "--target", "install", cwd=SCRATCH, env=machine.variables())

    def told() -> str:
        return checked(machine.python, "-c", LINKED, cwd=SCRATCH, env=machine.variables()).strip()

    _install(_linked_with_basalt(source), machine, BASALT_HOME=str(prefix))
    assert _run_path(machine) == f"$ORIGIN:{prefix / 'lib'}"
    assert told() == "['libbasalt.so'] 2"

    hidden = prefix.with_name("basalt-hidden")
    shutil.rmtree(hidden, ignore_errors=True)
    prefix.rename(hidden)
    assert "the loader does not find libbasalt.so, which torch_acme needs" in told()

    hidden.rename(prefix)
    _install(_linked_with_basalt(source, "SHIPPED"), machine, BASALT_HOME=str(prefix))
    prefix.rename(hidden)
    assert _run_path(machine) == "$ORIGIN"
    assert told() == "['libbasalt.so'] 2"
