"""Tools for the developers of a rendered project: make targets, presets, editor settings, hooks."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import tomllib
import yaml
from identify import identify
from torch_backend.source import Source

from .conftest import MATRIX, render_into
from .running import ROOT, checked, commit_all

TARGETS = {
    *("help", "setup", "hooks", "build", "develop", "install", "wheel", "clean", "docs", "benchmark"),
    *("test", "test-modes", "test-sdk", "test-sdk-sanitizers", "conformance", "conformance-update", "lint", "format"),
}
# Those that have the emulated device for their subject.
EMULATED_TARGETS = {"test-modes", "test-sdk", "test-sdk-sanitizers"}
PRESETS = ["debug", "release", "asan", "tsan"]


@pytest.fixture(scope="module", params=["hostile", "limits"])
def project(request: pytest.FixtureRequest, source: Source, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with every feature; tests must not change it."""
    return render_into(source, tmp_path_factory.mktemp(request.param) / "project", **MATRIX[request.param])


@pytest.fixture(scope="module")
def bare(source: Source, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project without any feature."""
    return render_into(source, tmp_path_factory.mktemp("bare") / "project", features=[])


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def hooks(project: Path) -> list[dict[str, Any]]:
    config = yaml.safe_load((project / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (repository,) = config["repos"]
    assert repository["repo"] == "local"
    found: list[dict[str, Any]] = repository["hooks"]
    return found


def pins(requirements: list[str]) -> dict[str, str]:
    """Returns the requirements that pin a version, by package."""
    return dict(requirement.split("==") for requirement in requirements if "==" in requirement)


# ---------------------------------------------------------------- make


def test_help_lists_every_target(project: Path, bare: Path, source: Source, tmp_path: Path) -> None:
    external = render_into(source, tmp_path / "project", device_library="external")
    for folder, targets in ((project, TARGETS), (bare, TARGETS), (external, TARGETS - EMULATED_TARGETS)):
        lines = make(folder).stdout.splitlines()
        found = {match[1]: match[2] for line in lines if (match := re.fullmatch(r"  make (\S+) +(.+)", line))}
        assert set(found) == targets
        phony = re.findall(r"(?m)^\.PHONY: (.*)$", (folder / "Makefile").read_text(encoding="utf-8"))
        assert set(" ".join(phony).split()) == targets


@pytest.mark.parametrize(("target", "feature"), [("docs", "docs"), ("benchmark", "benchmarks")])
def test_target_of_a_missing_feature_says_so(bare: Path, target: str, feature: str) -> None:
    done = make(bare, target, "PYTHON=false")
    assert done.returncode != 0
    assert f"rendered without the feature '{feature}'. To add it: torch-backend add-feature {feature}" in done.stderr


def test_make_docs_renews_the_list_of_the_porting_page(project: Path, tmp_path: Path) -> None:
    copy = tmp_path / "project"
    shutil.copytree(project, copy)
    page = copy / "docs" / "porting.md"
    steps, title, _ = page.read_text(encoding="utf-8").partition("## All places\n")
    assert title
    page.write_text(f"{steps}{title}\n- a place that is no longer there\n", encoding="utf-8")
    done = make(copy, "docs", f"PYTHON={sys.executable}")
    assert done.returncode == 0, done.stderr
    assert page.read_bytes() == (project / "docs" / "porting.md").read_bytes()


def test_targets_run_what_they_say(project: Path) -> None:
    expected = {
        "setup": "-m pip install --group dev",
        "hooks": "-m pre_commit install",
        "build": "-m pip install --no-build-isolation --editable .",
        "develop": "-m pip install --no-build-isolation --editable .",
        "install": "-m pip install --no-build-isolation .",
        "wheel": "-m pip wheel --no-build-isolation --no-deps --wheel-dir dist .",
        "test": "-m pytest tests",
        "benchmark": "benchmarks/operators.py",
        "conformance": "tests/conformance/run.py --jobs 3",
        "conformance-update": "tests/conformance/run.py --jobs 3 --update",
    }
    for target, command in expected.items():
        done = make(project, "--dry-run", target, "PYTHON=the-python", "JOBS=3")
        assert f"the-python {command}" in done.stdout.splitlines(), done.stderr


def test_setup_brings_a_pip_that_knows_groups(project: Path) -> None:
    """Python 3.11 comes with an older one."""
    done = make(project, "--dry-run", "setup", "PYTHON=the-python")
    assert done.stdout.splitlines() == [
        'the-python -m pip install "pip>=25.1"',
        "the-python -m pip install --group dev",
    ], done.stderr


def test_the_source_distribution_names_no_folder_of_this_machine(source: Source, tmp_path: Path) -> None:
    project = render_into(source, tmp_path / "project", vendor_name="Acme")
    assert str(source.root) in (project / ".copier-answers.yml").read_text()
    code = "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
    checked(sys.executable, "-c", code, tmp_path / "dist", cwd=project)
    (archive,) = (tmp_path / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        files = {member.name.split("/", 1)[1]: opened.extractfile(member) for member in opened if member.isfile()}
        contents = {name: file.read() for name, file in files.items() if file}
    assert {"pyproject.toml", "CMakeLists.txt", "csrc/device/Memory.cpp", "README.md", "PKG-INFO"} <= contents.keys()
    assert ".copier-answers.yml" not in contents
    folders = (str(source.root).encode(), str(tmp_path).encode())
    assert [name for name, text in contents.items() if any(folder in text for folder in folders)] == []


def test_clean_removes_what_builds_leave(source: Source, tmp_path: Path) -> None:
    project = render_into(source, tmp_path / "project")
    before = {p for p in project.rglob("*") if p.is_file()}
    for name in ("build/debug/x.o", "dist/x.whl", ".ruff_cache/x", ".mypy_cache/x", "tests/__pycache__/x.pyc"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("x")
    assert make(project, "clean").returncode == 0
    assert {p for p in project.rglob("*") if p.is_file()} == before


# ---------------------------------------------------------------- presets and editors


def test_presets_are_listed(project: Path) -> None:
    done = subprocess.run(
        ["cmake", "--list-presets=all", "."], cwd=project, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.findall(r'"(\w+)"', done.stdout) == PRESETS * 3


@pytest.mark.build
@pytest.mark.parametrize("preset", PRESETS)
def test_each_preset_configures(source: Source, tmp_path: Path, preset: str) -> None:
    project = render_into(source, tmp_path / "project")
    python = f"-DPython_EXECUTABLE={sys.executable}"
    done = subprocess.run(
        ["cmake", "--preset", preset, python], cwd=project, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    commands = (project / "build" / preset / "compile_commands.json").read_text(encoding="utf-8")
    sanitizer = {"asan": "-fsanitize=address,undefined", "tsan": "-fsanitize=thread"}.get(preset)
    assert ("-fsanitize" in commands) == bool(sanitizer)
    assert (sanitizer or "") in commands
    assert ("-O3" in commands) == (preset == "release")
    # Editors look for the file that they have open.
    assert ("csrc/runtime/Stream.cpp" in commands) == (preset == "debug")
    done = subprocess.run(["ctest", "--preset", preset, "-N"], cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if "GoogleTest was not found" not in done.stdout and os.environ.get("REQUIRE_GTEST"):
        assert (project / "build" / preset / "third_party").is_dir()


def test_editor_settings_use_the_projects_tools(project: Path) -> None:
    settings = json.loads((project / ".vscode" / "settings.json").read_text(encoding="utf-8"))
    recommended = json.loads((project / ".vscode" / "extensions.json").read_text(encoding="utf-8"))["recommendations"]
    for language in ("[cpp]", "[python]"):
        assert settings[language]["editor.defaultFormatter"] in recommended
    assert settings["python.testing.pytestArgs"] == ["tests"]
    presets = json.loads((project / "CMakePresets.json").read_text(encoding="utf-8"))
    folder = presets["configurePresets"][0]["binaryDir"]
    assert [preset["name"] for preset in presets["configurePresets"] if not preset.get("hidden")] == PRESETS
    (clangd,) = list(yaml.safe_load_all((project / ".clangd").read_text(encoding="utf-8")))
    database = clangd["CompileFlags"]["CompilationDatabase"]
    assert folder.replace("${sourceDir}/", "").replace("${presetName}", "debug") == database


# ---------------------------------------------------------------- hooks


def test_hooks_are_valid(project: Path) -> None:
    done = subprocess.run(["pre-commit", "validate-config"], cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_tools_have_the_same_versions_everywhere(project: Path) -> None:
    """Hooks, the lint group of the project and this repository use the same versions."""
    ours = pins((ROOT / "requirements-dev.txt").read_text(encoding="utf-8").split())
    groups = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    group = pins([requirement for name in ("lint", "wheels") for requirement in groups[name]])
    hooked = pins([requirement for hook in hooks(project) for requirement in hook.get("additional_dependencies", [])])
    assert {"clang-format", "mypy", "ruff", "pre-commit", "cibuildwheel"} == set(group)
    assert {"clang-format", "ruff", "pre-commit-hooks", "zizmor", "check-jsonschema"} == set(hooked)
    for name, version in (hooked | group).items():
        assert ours[name] == version, name
        assert hooked.get(name, version) == version, name


def test_hooks_pass_and_change_nothing(project: Path, tmp_path: Path) -> None:
    """Each hook runs over its files with the installed tools. mypy is left out, because it needs the built project."""
    copy = tmp_path / "project"
    shutil.copytree(project, copy)
    commit_all(copy, "rendered")
    files = sorted(p.relative_to(copy) for p in copy.rglob("*") if p.is_file() and ".git" not in p.parts)
    ran = 0
    for hook in hooks(copy):
        if hook["id"] == "mypy":
            continue
        wanted = [
            str(path)
            for path in files
            if re.search(hook.get("files", ""), path.as_posix())
            and not re.search(hook.get("exclude", "^$"), path.as_posix())
            and set(hook.get("types", [])) <= (tags := identify.tags_from_path(str(copy / path)))
            and (not hook.get("types_or") or tags & set(hook["types_or"]))
        ]
        assert wanted, hook["id"]
        done = subprocess.run([*hook["entry"].split(), *wanted], cwd=copy, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{hook['id']}: {done.stdout}{done.stderr}"
        ran += 1
    assert ran == len(hooks(copy)) - 1
    changed = [p for p in files if (copy / p).read_bytes() != (project / p).read_bytes()]
    assert changed == []
