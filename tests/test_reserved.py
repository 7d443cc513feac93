"""The list of reserved names against what is installed."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from torch_backend.errors import UserError
from torch_backend.maintenance.declared import c_names, cxx_names, included_headers
from torch_backend.maintenance.example import Example
from torch_backend.maintenance.installed import cmake_targets, modules_of, operator_namespaces, torch_libraries
from torch_backend.maintenance.reserved import DEVICE, WORDS, Lists, Names, merge, read, write
from torch_backend.source import find_source

from .fakes import describe, install
from .running import ROOT, checked

LIST = ROOT / "includes" / "reserved.jinja"


@pytest.fixture(scope="module")
def names() -> Names:
    return Names(Example(find_source(), ROOT / "examples" / "openreg"))


def missing(found: Lists) -> dict[str, set[str]]:
    known = read(LIST)
    return {kind: lost for kind, names in found.items() if (lost := {*names} - {*known[kind]})}


def test_the_list_holds_what_is_installed(names: Names) -> None:
    assert missing(names.installed) == {}, "run `torch-backend reserved`"


@pytest.mark.build
@pytest.mark.matrix
def test_the_list_holds_what_headers_declare(names: Names) -> None:
    """The C library and the compiler declare them, so another system may have more: then the list needs these too."""
    found = names.declared
    assert missing(found) == {}, "run `torch-backend reserved`"
    assert {"digit", "setter", "destructor", "visitproc", "ska", "pybind11"} <= {*found["cxx"]}


def test_an_installed_backend_reserves_no_names(site: Path) -> None:
    """Even if it loads itself into every Python, as after `make demo`."""
    code = "import torch\ntorch.zed = torch.Tensor.zed = 1\ndef _autoload():\n    pass\n"
    install(site, "torch_zed", code)
    command = [sys.executable, "-c", "import torch; print(torch.zed)"]
    assert checked(*command, cwd=site, env=os.environ) == "1\n", "it loads itself"
    names = Names(Example(find_source(), ROOT / "examples" / "openreg"))
    assert "ones" in names.installed["torch"]
    assert [kind for kind, values in names.installed.items() if {"zed", "torch_zed"} & {*values}] == []


def test_the_names_of_the_example_are_not_reserved(names: Names) -> None:
    """What is found there is what every project has, and a project may have the names of the example."""
    assert [kind for kind, values in names.installed.items() if {"openreg", "torch_openreg"} & {*values}] == []
    assert {"device", "fallback", "graph", "native", "features", "include_paths"} <= {*names.installed["project"]}
    assert {"compare", "cases", "quickstart"} <= {*names.installed["script"]}
    assert {"sdk", "sdk_tests", "torch_bindings", "torch_cpu_library"} <= {*names.installed["target"]}


def test_names_are_found_by_compiling(tmp_path: Path) -> None:
    (tmp_path / "zed.h").write_text(
        "#define macro_one 1\n"
        "#define macro_two(x) x\n"
        "#define macro_empty\n"
        "#define macro_gone 1\n"
        "#undef macro_gone\n"
        "namespace outer { namespace inner { inline int nested_function() { return 1; } } }\n"
        "namespace used { namespace visible {} }\nusing namespace used;\n"
        "inline int function_one(int parameter_one) { int local_one = parameter_one; return local_one; }\n"
        "extern int variable_one;\n"
        "typedef int type_one;\n"
        "using alias_one = int;\n"
        "struct class_one { int member_one; };\n"
        "enum enum_one { enumerator_one };\n"
        "template <class T> struct template_one {};\n"
        "template <class T> concept concept_one = true;\n"
        "#if __cplusplus < 202002L\nint too_old;\n#endif\n"
    )
    known = {*WORDS["cxx_keywords"], "type_one"}
    found = cxx_names({"zed.h", "no/such.h"}, [f"-I{tmp_path}"], DEVICE, known)
    assert found == {
        "macro_one", "macro_two", "macro_empty", "outer", "used", "visible", "function_one", "variable_one",
        "alias_one", "class_one", "enum_one", "enumerator_one", "template_one", "concept_one",
    }  # fmt: skip


def test_an_error_does_not_hide_another(tmp_path: Path) -> None:
    """Here the line of the keyword `struct` swallows those after it."""
    (tmp_path / "zed.h").write_text("struct aa_class { static_assert(true); };\nextern int zz_variable;\n")
    found = cxx_names({"zed.h"}, [f"-I{tmp_path}"], DEVICE, set())
    assert {"aa_class", "zz_variable", "struct", "static_assert"} <= found


def test_headers_that_do_not_compile_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "zed.h").write_text("#error broken\n")
    with pytest.raises(UserError, match="broken"):
        cxx_names({"zed.h"}, [f"-I{tmp_path}"], DEVICE, set())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"^Install g\+\+"):
        c_names(["stdio"])


def test_c_names_are_functions_types_and_macros() -> None:
    found = c_names(["stdio", "no_such_header"])
    assert {"printf", "stdin", "off_t"} <= found
    assert "zed" not in found


def test_headers_are_read_off_sources() -> None:
    text = '#include <vector>\n  #  include <ATen/ops/add.h>  // for add\n#include "own.h"\n// #include <not.h>\n'
    assert included_headers(text) == {"vector", "ATen/ops/add.h"}


def test_modules_are_those_of_required_packages(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And of those which they require, with extras; not those of other packages."""
    for name, requires in [
        ("zed-one", ["zed_two[more]>=1", 'zed-never; sys_platform == "none"', "zed-three; extra == 'other'"]),
        ("zed_two", ["Zed.Three; extra == 'more'", "zed-one"]),
        ("zed_three", []),
        ("zed_other", []),
    ]:
        module = f"module_{name.replace('-', '_')}"
        (site / module).mkdir()
        (site / module / "__init__.py").touch()
        describe(site, name.replace("-", "_"), module=module, entry_point="none")
        metadata = site / f"{name.replace('-', '_')}-1.0.dist-info" / "METADATA"
        metadata.write_text(metadata.read_text() + "".join(f"Requires-Dist: {text}\n" for text in requires))
    monkeypatch.syspath_prepend(str(site))
    file = tmp_path / "requirements.txt"
    file.write_text("# a comment\nzed-one==1.0  # another\n\n")
    assert modules_of([file]) == {"module_zed_one", "module_zed_two", "module_zed_three"}
    file.write_text("zed-missing\n")
    with pytest.raises(UserError, match="Run `make setup`: zed-missing is not installed"):
        modules_of([file])


def test_torch_is_read_by_its_files(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    for name in ("libshm.so", "libgomp.so.1", "libgomp-a34b3233.so.1", "libomp.dylib", "libshm_windows", "readme"):
        (tmp_path / "lib" / name).touch()
    assert torch_libraries(tmp_path) == {"shm", "gomp", "omp"}
    (tmp_path / "_prims.py").write_text('prim = torch.library.Library("prims", "DEF")\nother = Library(name, "IMPL")\n')
    assert operator_namespaces(tmp_path) == {"prims"}


def test_targets_are_read_off_cmake_files() -> None:
    text = (
        "add_library(one SHARED a.cpp)\nadd_executable( two\n  b.cpp)\nadd_library(a::b ALIAS c)\nadd_library(${x} b)\n"
    )
    assert cmake_targets(text) == {"one", "two"}


@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_the_list_holds_the_targets_of_cmake(tmp_path: Path, generator: str) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(zed NONE)\nenable_testing()\ninclude(CPack)\n"
        "install(FILES CMakeLists.txt DESTINATION zed)\n"
    )
    checked("cmake", "-G", generator, "-B", "build", cwd=tmp_path)
    listed = checked("cmake", "--build", "build", "--target", "help", cwd=tmp_path)
    targets = set(re.findall(r"(?m)^(?:\.\.\. )?([a-z]\w*)(?=[: ]|$)", listed))
    assert targets >= {"clean", "install", "test", "package", "edit_cache", "rebuild_cache"}
    assert targets <= {*WORDS["targets"]}


def test_reading_gives_what_was_written(tmp_path: Path) -> None:
    lists = read(LIST)
    write(tmp_path / "again.jinja", lists)
    assert (tmp_path / "again.jinja").read_text() == LIST.read_text()


def test_merging_keeps_older_names() -> None:
    assert merge({"c": ["old", "both"], "gone": ["x"]}, {"c": ["new", "both"], "k": ["a"]}) == {
        "c": ["both", "new", "old"],
        "k": ["a"],
    }


def test_the_command_writes_the_list(repository: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_backend.maintenance import commands, reserved

    from .test_cli import run

    path = repository.source.root / "includes" / "reserved.jinja"
    before = read(path)
    monkeypatch.setattr(commands, "find_source", lambda: repository.source)
    monkeypatch.setattr(reserved.Names, "installed", {**before, "project": ["zed_new"]})
    monkeypatch.setattr(reserved.Names, "declared", {})
    result = run("reserved")
    assert result.exit_code == 0, result.output
    assert read(path) == before | {"project": sorted([*before["project"], "zed_new"])}
