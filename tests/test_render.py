"""Rendered projects are correct for every row of the matrix of names and answers."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tomllib
import yaml
from torch_backend.maintenance.formatting import format_cpp
from torch_backend.maintenance.layout import FEATURES
from torch_backend.source import Source

from .conftest import answers_of, render_into, text_files
from .running import ROOT, commit_all
from .torch_release import RANGE

# The prefix of the example's C API.
PREFIX = re.compile(r"(?<![A-Za-z0-9])or(?=[A-Z][a-z])|(?<![A-Za-z0-9_])OR_(?=[A-Z])")
DELIMITER = re.compile(r"(?<!\$)\{\{|\{%|(?<!\$)\{#")

LICENCE_WORDS = {
    "BSD-3-Clause": "BSD 3-Clause License",
    "Apache-2.0": "Apache License",
    "MIT": "MIT License",
    "proprietary": "All rights reserved",
}


def test_no_name_of_the_example_is_left(project: Path) -> None:
    found = [str(p.relative_to(project)) for p in project.rglob("*") if re.search("openreg", p.name, re.IGNORECASE)]
    for path, text in text_files(project):
        for number, line in enumerate(text.splitlines(), 1):
            if re.search("openreg", line, re.IGNORECASE) or PREFIX.search(line):
                found.append(f"{path}:{number}: {line}")
    assert not found


def test_no_delimiter_is_left(project: Path) -> None:
    typed = [str(value) for value in answers_of(project).values()]
    found = [str(p.relative_to(project)) for p in project.rglob("*") if DELIMITER.search(p.name)]
    for path, text in text_files(project):
        for number, line in enumerate(text.splitlines(), 1):
            rest = line
            for value in typed:
                rest = rest.replace(value, "")
            if DELIMITER.search(rest) and path != ".copier-answers.yml":
                found.append(f"{path}:{number}: {line}")
    assert not found
    assert not list(project.rglob("*.jinja"))


def test_the_device_namespace_is_named_from_the_top(project: Path) -> None:
    """Namespaces such as `std` and `at` contain names such as `vector` that a device can have too."""
    inner = re.compile(rf"(?<![:\w\"]){answers_of(project)['device_name']}::")
    found = []
    for path in [*project.joinpath("csrc").rglob("*"), *project.joinpath("python").rglob("*")]:
        if path.suffix in {".cpp", ".h"}:
            lines = path.read_text(encoding="utf-8").splitlines()
            found += [f"{path}: {line}" for line in lines if inner.search(line.replace("namespace ", "namespace ::"))]
    assert not found


def test_python_files_parse(project: Path) -> None:
    files = list(project.rglob("*.py")) + list(project.rglob("*.pyi"))
    assert files
    for path in files:
        ast.parse(path.read_text(encoding="utf-8"), str(path))


def test_data_files_load(project: Path) -> None:
    for path in project.rglob("*.toml"):
        tomllib.loads(path.read_text(encoding="utf-8"))
    for path in [*project.rglob("*.yml"), *project.rglob("*.yaml"), *project.rglob(".clang*")]:
        list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    for path in project.rglob("*.json"):
        assert json.loads(path.read_text(encoding="utf-8")), path


def test_metadata_are_the_answers(project: Path) -> None:
    answers = answers_of(project)
    metadata = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert metadata["name"].replace("-", "_") == answers["package_name"]
    assert metadata["description"] == answers["description"]
    assert metadata["authors"] == [{"name": answers["author"], "email": answers["author_email"]}]
    licence = "LicenseRef-Proprietary" if answers["license"] == "proprietary" else answers["license"]
    assert metadata["license"] == licence
    assert answers["repository_url"] in metadata["urls"].values()
    assert f"torch{RANGE}" in [dependency.replace(" ", "") for dependency in metadata["dependencies"]]
    assert metadata["entry-points"]["torch.backends"] == {
        answers["package_name"]: f"{answers['package_name']}:_autoload"
    }


def test_the_licence_is_the_chosen_one(project: Path) -> None:
    answers = answers_of(project)
    text = (project / "LICENSE").read_text(encoding="utf-8")
    assert LICENCE_WORDS[answers["license"]] in text
    assert answers["author"] in text or answers["license"] == "Apache-2.0"


def test_paths_follow_the_names(project: Path) -> None:
    answers = answers_of(project)
    package = answers["package_name"]
    if sdk := answers.get("sdk_name"):
        assert (project / "third_party" / sdk / "include" / sdk / f"{sdk}.h").is_file()
    assert (project / "python" / package / answers["device_name"] / "__init__.py").is_file()
    assert (project / "csrc" / "device").is_dir()


def test_features_are_whole_paths(project: Path) -> None:
    chosen = answers_of(project)["features"]
    for feature, patterns in FEATURES.items():
        for pattern in patterns:
            within = {other for other, paths in FEATURES.items() if any(pattern.startswith(f"{p}/") for p in paths)}
            assert any(project.glob(pattern)) == ({feature, *within} <= set(chosen)), pattern


def test_readme_counts_the_functions_of_the_seam(project: Path) -> None:
    counts = {
        path.stem: len(re.findall(r"(?m)^(?:\[\[noreturn\]\] )?BACKEND_API [\w:*& ]+\(", path.read_text()))
        for path in project.joinpath("csrc", "device").glob("*.h")
    }
    readme = (project / "README.md").read_text(encoding="utf-8")
    optional = {"Graph": "graphs", "Ipc": "sharing"}
    for header, feature in optional.items():
        told = re.search(rf"^\| `{feature}` \|.*\| (\d+) \|$", readme, re.MULTILINE)
        assert told
        assert counts.get(header, int(told[1])) == int(told[1])
    written_here = {"Capabilities", "Waiting", *optional}  # and by the port
    declared = sum(number for header, number in counts.items() if header not in written_here)
    substitutes = project.joinpath("csrc", "device", "substitutes", "Optional.cpp").read_text(encoding="utf-8")
    optional_ones = set(re.findall(r"(?m)^BACKEND_OPTIONAL [\w:*& ]+?\**(\w+)\(", substitutes)) - {
        "kernelAddressOffset"
    }
    given = {"throwError", "warnError", "hasKernelAddresses", "kernelAddressOffset"}
    assert len(optional_ones) == 12, "README tells the number"
    assert re.findall(r"(\d+)\s+short\s+functions", readme) == [str(declared - len(optional_ones) - len(given))]


@pytest.mark.parametrize("device_library", ["emulated", "external"])
@pytest.mark.parametrize("features", [["docs"], ["docs", "graphs"], ["docs", "sharing"]], ids=" ".join)
def test_pages_do_not_name_what_is_not_rendered(
    device_library: str, features: list[str], source: Source, tmp_path: Path
) -> None:
    project = render_into(source, tmp_path / "project", device_library=device_library, features=features)
    pages = {
        page.name: page.read_text(encoding="utf-8") for page in [*project.glob("docs/*.md"), project / "README.md"]
    }
    for name, text in pages.items():
        linked = re.findall(r"\]\(([\w-]+\.md)", text)
        assert [page for page in linked if name != "README.md" and page not in pages] == [], name
    written = pages["porting.md"]
    subprocess.run([sys.executable, project / "docs" / "porting.py"], check=True)
    assert (project / "docs" / "porting.md").read_text(encoding="utf-8") == written


def test_an_external_library_brings_no_emulator(project: Path) -> None:
    external = answers_of(project)["device_library"] == "external"
    assert (project / "third_party").exists() != external
    assert (project / "csrc" / "device" / "NotWritten.h").exists() == external
    if external:
        told = [name for name, text in text_files(project) if "third_party" in text]
        assert [name for name in told if not name.startswith(("tests/", ".github/"))] == []


@pytest.mark.parametrize("features", [["docs"], [*FEATURES]], ids=["docs", "all"])
def test_an_external_library_is_told_nothing_of_the_emulator(
    features: list[str], source: Source, tmp_path: Path
) -> None:
    """Neither its names and environment variables, nor what is true of it alone."""
    project = render_into(
        source, tmp_path / "project", vendor_name="Acme", device_library="external", features=features
    )
    words = re.compile(
        r"acme_?sim|_NUM_DEVICES|_DEVICE_MEMORY|range from 0 to -2|fault_report|test-modes", re.IGNORECASE
    )
    told = {name: found for name, text in text_files(project) if (found := set(words.findall(text)))}
    assert {name: found for name, found in told.items() if not name.startswith((".github/", "tests/"))} == {}
    assert not [name for name, found in told.items() if any("sim" in word.lower() for word in found)]


def test_tables_are_whole(project: Path) -> None:
    """A row of a table that Jinja has cut off from its head is shown as text."""
    for page in [project / "README.md", *project.glob("docs/*.md")]:
        blocks = re.findall(r"(?m)(?:^\|.*\n)+", page.read_text(encoding="utf-8"))
        for block in blocks:
            head, line, *rows = block.splitlines()
            cells = [len(re.findall(r"(?<!\\)\|", row)) for row in (head, line, *rows)]
            assert rows, (page.name, head)
            assert re.fullmatch(r"[|:-]+", line), (page.name, head)
            assert len(set(cells)) == 1, (page.name, block)


def test_the_seam_has_the_same_headers_and_sources(source: Source, tmp_path: Path) -> None:
    """Code above the seam and updates then do not depend on the choice."""
    names, headers = [], []
    for answer in ("emulated", "external"):
        seam = render_into(source, tmp_path / answer, device_library=answer) / "csrc" / "device"
        names.append({path.name for path in seam.iterdir()} - {"NotWritten.h", "Declined.cpp"})
        of_the_port = {"NotWritten.h", "Handles.h", "Kernel.h"}
        headers.append({p.name: p.read_bytes() for p in seam.glob("*.h") if p.name not in of_the_port})
    assert names[0] == names[1]
    assert headers[0] == headers[1]
    assert len(headers[0]) > 8


def test_cmake_defaults_are_the_answers(project: Path) -> None:
    answers = answers_of(project)
    if answers["device_library"] == "external":
        pytest.skip("this project has no emulated device")
    text = "\n".join(p.read_text(encoding="utf-8") for p in project.rglob("CMakeLists.txt"))
    assert re.search(rf"NUM_DEVICES\W{{1,3}}{answers['num_devices']}\b", text)
    assert re.search(rf"DEVICE_MEMORY\W{{1,3}}{answers['device_memory']}\b", text)


def test_cpp_is_formatted(project: Path) -> None:
    assert format_cpp(project, check=True) > 0


@pytest.mark.parametrize("arguments", [("format", "--check"), ("check",)], ids=" ".join)
def test_python_is_formatted_and_clean(project: Path, arguments: tuple[str, ...]) -> None:
    command = ["ruff", *arguments, "--no-cache", "."]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_scripts_keep_their_run_bit(project: Path) -> None:
    for path in (p for p in project.rglob("*") if p.is_file()):
        with path.open("rb") as stream:
            runnable = stream.read(2) == b"#!"
        assert os.access(path, os.X_OK) == runnable, path


def test_rendering_twice_gives_the_same_bytes(source: Source, tmp_path: Path) -> None:
    first, second = (render_into(source, tmp_path / name) for name in ("a", "b"))
    assert _bytes(first) == _bytes(second)


def test_rendering_over_itself_changes_nothing(source: Source, tmp_path: Path) -> None:
    project = render_into(source, tmp_path / "project")
    before = _bytes(project)
    render_into(source, project)
    assert _bytes(project) == before


def test_hostile_answers_are_not_evaluated(source: Source, tmp_path: Path) -> None:
    project = render_into(source, tmp_path / "project", description="{{ 6 * 7 }} {% raise %} $(touch x) `touch x`")
    metadata = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert metadata["description"] == "{{ 6 * 7 }} {% raise %} $(touch x) `touch x`"


def test_non_empty_folder_is_refused_by_copier_too(source: Source, tmp_path: Path) -> None:
    (tmp_path / "keep.txt").write_text("mine")
    with pytest.raises(ValueError, match=r": Use a new folder: this has files\.") as refusal:
        render_into(source, tmp_path)
    assert len(str(refusal.value)) <= 80
    assert [p.name for p in tmp_path.iterdir()] == ["keep.txt"]


def test_empty_repository_is_accepted(source: Source, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    assert (render_into(source, tmp_path) / "LICENSE").exists()


@pytest.mark.parametrize("defaults", [True, False], ids=["--defaults", "--data"])
def test_copier_command_needs_no_trust(source: Source, tmp_path: Path, defaults: bool) -> None:
    given = [] if defaults else ["--data", "vendor_name=Zed", "--data", "features=[docs]"]
    command = [
        sys.executable,
        "-m",
        "copier",
        "copy",
        "--defaults",
        *given,
        str(source.root),
        str(tmp_path / "project"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "README.md explains how to test" in done.stderr
    assert answers_of(tmp_path / "project")["vendor_name"] == ("Acme" if defaults else "Zed")


def test_copier_copy_of_this_repository_gives_the_same_project(tmp_path: Path, source: Source) -> None:
    """The other tests render snapshots; a clone must render the same."""
    repository = tmp_path / "repository"
    shutil.copytree(source.root, repository)
    shutil.copy2(ROOT / ".gitattributes", repository)
    commit_all(repository, "template", tag="v1.0.0")
    cloned = render_into(Source(repository), tmp_path / "cloned")
    assert answers_of(cloned)["_commit"] == "v1.0.0"
    assert _without_answers(_bytes(cloned)) == _without_answers(_bytes(render_into(source, tmp_path / "copied")))


def _bytes(project: Path) -> dict[str, Any]:
    return {p.relative_to(project).as_posix(): p.read_bytes() for p in project.rglob("*") if p.is_file()}


def _without_answers(tree: dict[str, Any]) -> dict[str, Any]:
    return {name: content for name, content in tree.items() if name != ".copier-answers.yml"}
