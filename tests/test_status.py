"""`torch-backend status`, and how it reads sources without a compiler."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner
from torch_backend.cli import main
from torch_backend.inspection.cxx import functions
from torch_backend.inspection.porting import tags
from torch_backend.inspection.seam import read_seam
from torch_backend.inspection.steps import STEPS
from torch_backend.maintenance.trees import read_project
from torch_backend.project import Project
from torch_backend.render import render_tree, write_file
from torch_backend.source import PACKAGED, Source

from .conftest import render_into
from .running import ROOT
from .torch_release import MINOR, RANGE

EXAMPLE = ROOT / "examples" / "openreg"

CXX = """\
#pragma once
// int inComment() {}
#define MACRO(x) \\
  int inMacro() { return x; }
namespace vendor::device {
namespace {

constexpr int kTable[] = {1, 2};
enum class Kind : int { A, B };

class Scoped final : public Base {
 public:
  explicit Scoped(int index) : previous_(current()), big_{1'000} {
    if (index) { set("} // not the end {"); }
  }
  ~Scoped() { close(); }
  Scoped(const Scoped&) = delete;
  int value() const noexcept;

 private:
  int previous_ = other();
};

}  // namespace

template <class T, void (*F)(T)>
[[nodiscard]] inline std::vector<T> launch(const T& x, const Options& options = {}) {
  const auto body = [&](int y) { return y; };
  return body('{');
}

int Scoped::value() const noexcept {
  return R"x(})x"[0];
}

bool operator==(const Kind& a, const Kind& b) {
  return true;
}

}  // namespace vendor::device

extern "C" {
void exported(void) {
}
}
"""


def status(*options: str, project: Path = EXAMPLE) -> dict[str, object]:
    result = CliRunner().invoke(main, ["status", "--static", "--json", "--project", str(project), *options])
    assert result.exit_code == 0, result.output
    told: dict[str, object] = json.loads(result.stdout)
    return told


@pytest.fixture
def port(tmp_path: Path) -> Path:
    """A copy of the example's files that status reads. A test may port it."""
    target = tmp_path / "project"
    target.mkdir()
    for name in ("csrc", "python", "cmake", "docs", "third_party/openreg/include"):
        shutil.copytree(EXAMPLE / name, target / name)
    for name in ("CMakeLists.txt", "pyproject.toml", ".copier-answers.yml"):
        shutil.copy2(EXAMPLE / name, target)
    return target


# ---------------------------------------------------------------- C++


def test_functions_are_found_with_their_lines() -> None:
    found = [(function.name, function.line) for function in functions(CXX)]
    assert found == [
        ("Scoped::Scoped", 13),
        ("Scoped::~Scoped", 16),
        ("launch", 26),
        ("Scoped::value", 32),
        ("operator==", 36),
        ("exported", 43),
    ]


def test_the_code_of_a_function_ends_at_its_brace() -> None:
    code = {function.name: function.code for function in functions(CXX)}
    assert code["Scoped::Scoped"].startswith("explicit Scoped(int index) : previous_(current())")
    assert code["Scoped::Scoped"].endswith("}")
    assert "not the end" not in code["Scoped::Scoped"]
    assert code["launch"].count("body") == 2


def test_every_function_of_the_example_is_found() -> None:
    """The count here relies on clang-format: the brace of a function ends a line that begins in the first column."""
    counted = 0
    for path in (EXAMPLE / "csrc").rglob("*.cpp"):
        source = path.read_text(encoding="utf-8")
        names = {function.name for function in functions(source)}
        heads = re.findall(
            r"^(?!TORCH_LIBRARY|namespace|struct|class|enum|extern|#|//)\S[^\n;=]*?(~?\w+)\([^;{}]*?\{$", source, re.M
        )
        missing = set(heads) - {name.split("::")[-1] for name in names}
        assert not missing, path
        counted += len(names)
    assert counted > 400


# ---------------------------------------------------------------- the seam


def test_every_function_of_the_example_uses_the_emulated_sdk() -> None:
    seam = read_seam(Project.find(EXAMPLE))
    assert seam.sdk == "third_party/openreg"
    memory = next(file for file in seam.files if file.path == "csrc/device/Memory.cpp")
    assert memory.functions == memory.emulated
    assert memory.functions[:3] == ["allocate", "release", "hostAllocate"]
    launch = next(file for file in seam.files if file.path == "csrc/device/Launch.cpp")
    assert set(launch.functions) - set(launch.emulated) == {"runningStream"}


def test_a_ported_function_counts(port: Path) -> None:
    before = read_seam(Project.find(port))
    path = port / "csrc" / "device" / "Memory.cpp"
    text = path.read_text()
    assert "orFree(pointer)" in text
    path.write_text(text.replace("orFree(pointer)", "vendorFree(pointer)  /* was orFree */"))
    after = read_seam(Project.find(port))
    assert (after.functions, after.emulated) == (before.functions, before.emulated - 1)
    assert "release" not in next(file for file in after.files if file.path == "csrc/device/Memory.cpp").emulated


def test_without_the_emulated_sdk_no_function_counts_as_emulated(port: Path) -> None:
    shutil.rmtree(port / "third_party")
    seam = read_seam(Project.find(port))
    assert (seam.sdk, seam.emulated) == (None, 0)
    assert seam.functions > 50
    result = CliRunner().invoke(main, ["status", "--static", "--project", str(port)])
    assert f"Seam: {seam.functions} functions in csrc/device, no emulated SDK in third_party" in result.output


def test_unwritten_functions_are_counted(source: Source, tmp_path: Path) -> None:
    project = render_into(source, tmp_path / "project", device_library="external")
    before = read_seam(Project.find(project))
    assert before.unwritten + 1 == 23, "count() is written; README and CHANGELOG tell this number"
    assert "write 23 short functions in `csrc/device/`" in (project / "README.md").read_text()
    result = CliRunner().invoke(main, ["status", "--static", "--project", str(project)])
    assert f"{before.unwritten} of {before.functions} functions in csrc/device are not written yet" in result.output
    path = project / "csrc" / "device" / "Memory.cpp"
    text = path.read_text()
    path.write_text(text.replace('notWritten("free device memory");', "DEVICE_CHECK(vendorFree(pointer));"))
    after = read_seam(Project.find(project))
    assert after.unwritten == before.unwritten - 1
    assert "release" not in next(file for file in after.files if file.path.endswith("/Memory.cpp")).unwritten


def test_a_fresh_project_has_no_ported_function(project: Path) -> None:
    reference, seam = read_seam(Project.find(EXAMPLE)), read_seam(Project.find(project))
    if Project.find(project).answers["device_library"] == "emulated":
        expected = {file.path: file for file in reference.files}
        optional = {"graphs": "csrc/device/Graph.cpp", "sharing": "csrc/device/Ipc.cpp"}
        for feature in optional.keys() - set(Project.find(project).answers["features"]):
            del expected[optional[feature]]
        assert {file.path: file for file in seam.files} == expected
        assert seam.unwritten == 0
    else:
        assert (seam.sdk, seam.emulated) == (None, 0)
        assert {file.path for file in seam.files if file.unwritten} == {
            f"csrc/device/{n}.cpp" for n in ("Device", "Memory", "Stream", "Event", "Launch")
        }


# ---------------------------------------------------------------- the steps of a port


def test_the_steps_of_an_unwritten_port_are_open(source: Source, tmp_path: Path) -> None:
    told = status(project=render_into(source, tmp_path / "project", device_library="external"))
    left = {step["title"]: step["left"] for step in cast("list[dict[str, Any]]", told["steps"])}
    assert [*left] == [title for title, _ in STEPS]
    assert left["Link the SDK"][0].startswith("cmake/DeviceLibrary.cmake:")
    assert left["Memory"] == ["csrc/device/Memory.cpp: 4 of 4 functions"]
    assert left["First tensor"] == ["after: Link the SDK, Devices and errors, Memory, Streams, Events"]
    assert "csrc/device/Declined.cpp: write `peer_access` or put your reason into its line" in left["Decline the rest"]
    assert len(left["Decline the rest"]) == 6
    assert set(cast("dict[str, str]", told["declined"])) == {
        *("graphs", "peer_access", "pinned_memory", "priorities", "sharing", "timing")
    }


def test_a_declined_capability_with_its_functions_is_left(source: Source, tmp_path: Path) -> None:
    project = render_into(source, tmp_path / "project", device_library="external")
    with (project / "csrc/device/Event.cpp").open("a", encoding="utf-8") as file:
        file.write(
            "\nnamespace acme::device {\n\ndouble elapsedTime() {\n  return 1;\n}\n\n}  // namespace acme::device\n"
        )
    left = {step["title"]: step["left"] for step in cast("list[dict[str, Any]]", status(project=project)["steps"])}
    line = "csrc/device/Declined.cpp: delete the line of `timing`, because csrc/device/Event.cpp has its functions"
    assert line in left["Decline the rest"]
    assert not any("write `timing`" in line for line in left["Decline the rest"])


def test_a_finished_port_has_no_step_left(source: Source, tmp_path: Path) -> None:
    tree = render_tree(source, {"vendor_name": "Acme", "device_library": "external"})
    port = read_project(ROOT / "tests" / "standin" / "basalt_port")
    for path, file in (tree | port).items():
        write_file(tmp_path / path, file)
    told = status(project=tmp_path)
    left = {step["title"]: step["left"] for step in cast("list[dict[str, Any]]", told["steps"]) if step["left"]}
    assert left == {}
    assert cast("dict[str, str]", told["declined"])["graphs"] == "basalt cannot record a stream"
    text = CliRunner().invoke(main, ["status", "--static", "--project", str(tmp_path)]).output
    assert "Port: 9 of 9 steps of docs/porting.md are done" in text
    assert "no reason given" in text


# ---------------------------------------------------------------- tags


def test_tags_are_those_of_the_porting_page(port: Path) -> None:
    done = subprocess.run(
        [sys.executable, "docs/porting.py", "--list"], cwd=port, capture_output=True, text=True, check=True
    )
    places = {line.split(": ", 1)[0]: line.split(": ", 1)[1] for line in done.stdout.splitlines()}
    mine = {f"{tag.path}:{tag.line}": tag.text for tag in tags(port)}
    assert mine == places
    assert len(mine) > 20
    shutil.rmtree(port / "docs")  # a project without the feature
    assert {f"{tag.path}:{tag.line}": tag.text for tag in tags(port)} == places


def test_a_deleted_tag_is_gone(port: Path) -> None:
    before = tags(port)
    path = port / before[0].path
    path.write_text(path.read_text().replace("PORTING:", "Ported:", 1))
    assert [(tag.path, tag.text) for tag in tags(port)] == [(tag.path, tag.text) for tag in before[1:]]


# ---------------------------------------------------------------- the command


def test_json_holds_every_field() -> None:
    told = status()
    assert (told["device"], told["package"]) == ("openreg", "torch_openreg")
    assert told["features"] == Project.find(EXAMPLE).answers["features"]
    assert told["torch"] == {"minor": MINOR, "range": RANGE}
    assert told["template"] == {"address": None, "version": None}
    seam = told["seam"]
    assert isinstance(seam, dict)
    assert seam["emulated"] == sum(len(file["emulated"]) for file in seam["files"])
    assert told["operators"] == {
        "running": None,
        "unavailable": "not loaded (--static): only a built backend knows how operators run",
    }


def test_the_version_of_the_template_is_shown(port: Path) -> None:
    with (port / ".copier-answers.yml").open("a") as file:
        file.write("_commit: v1.2.0\n_src_path: https://example.com/template\n")
    assert status(project=port)["template"] == {"address": "https://example.com/template", "version": "v1.2.0"}
    result = CliRunner().invoke(main, ["status", "--static", "--project", str(port)])
    assert "template  v1.2.0 from https://example.com/template\n" in result.output
    with (port / ".copier-answers.yml").open("a") as file:
        file.write(f"_src_path: {PACKAGED}\n")
    result = CliRunner().invoke(main, ["status", "--static", "--project", str(port)])
    assert "template  v1.2.0 from an installed torch-backend\n" in result.output


def test_text_output_is_brief_unless_verbose() -> None:
    brief = CliRunner().invoke(main, ["status", "--static", "--project", str(EXAMPLE / "csrc")]).output
    assert brief.startswith(f"torch_openreg, device openreg, in {EXAMPLE}\n")
    assert re.search(r"Seam: \d+ of \d+ functions in csrc/device still use third_party/openreg", brief)
    assert "uncheckedSetCurrent" not in brief
    long = CliRunner().invoke(main, ["status", "--static", "-v", "--project", str(EXAMPLE)]).output
    assert "uncheckedSetCurrent" in long
    for output in (brief, long):
        assert "Operators: unknown\n  not loaded (--static): only a built backend knows how operators run\n" in output


def test_a_package_that_is_not_installed_is_no_error(tmp_path: Path) -> None:
    python = tmp_path / "my python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')  # no site-packages: no torch
    python.chmod(0o755)
    result = CliRunner().invoke(main, ["status", "--project", str(EXAMPLE), "--python", str(python)])
    assert result.exit_code == 0, result.output
    assert f"torch is not installed for {python}" in result.output
    assert f"  '{python}' -m pip install --no-build-isolation --editable .\n" in result.output


def test_outside_of_a_project_it_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["status", "--project", str(tmp_path)])
    assert result.exit_code == 2
    assert "is not in a project made from the template" in result.output
