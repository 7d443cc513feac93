"""The workflows of a rendered project: real linters accept them, and what their scripts do is tried with stand-ins."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from torch_backend.source import Source

from .conftest import MATRIX, render_into

NAMES = ["acme", "hostile"]
# Which jobs may do more than read the repository, and for what.
RIGHTS = {
    ("nightly.yml", "report"): {"issues": "write"},
    ("pytorch.yml", "started"): {"id-token": "write"},
    ("pytorch.yml", "finished"): {"id-token": "write"},
    ("wheels.yml", "release"): {"contents": "write"},
}
FORMS = {
    "workflows/*.yml": "vendor.github-workflows",
    "actions/*/action.yml": "vendor.github-actions",
    "dependabot.yml": "vendor.dependabot",
    "ISSUE_TEMPLATE/[!c]*.yml": "vendor.github-issue-forms",
    "ISSUE_TEMPLATE/config.yml": "vendor.github-issue-config",
}


@pytest.fixture(scope="module", params=NAMES)
def project(request: pytest.FixtureRequest, source: Source, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with workflows, under a name; tests must not change it."""
    return render_into(source, tmp_path_factory.mktemp(request.param) / "project", **MATRIX[request.param])


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)), cwd=cwd, env=os.environ | (env or {}), capture_output=True, text=True, check=False
    )


def load(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


def workflows(project: Path) -> dict[str, dict[str, Any]]:
    found = {path.name: load(path) for path in sorted((project / ".github" / "workflows").iterdir())}
    assert set(found) == {"ci.yml", "lint.yml", "nightly.yml", "pytorch.yml", "wheels.yml"}
    return found


def events(workflow: dict[Any, Any]) -> dict[str, Any]:
    """What starts a workflow; YAML reads the key ``on`` as true."""
    found: dict[str, Any] = workflow[True]
    return found


def jobs(project: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for name, workflow in workflows(project).items():
        for job, content in workflow["jobs"].items():
            yield name, job, content


def steps(project: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every step with the place it stands at, those of the composite action included."""
    for name, job, content in jobs(project):
        for step in content["steps"]:
            yield f"{name}, {job}", step
    for step in load(project / ".github" / "actions" / "setup" / "action.yml")["runs"]["steps"]:
        yield "setup", step


def step_named(project: Path, name: str) -> str:
    (script,) = [step["run"] for _, step in steps(project) if step.get("name") == name]
    return str(script)


def bash(script: str, cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs the script of a step as GitHub does."""
    return run("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script, cwd=cwd, env=env)


def stand_in(folder: Path, name: str, answers: str = "") -> dict[str, str]:
    """A command that writes its arguments to ``calls``, one call a line; gives the environment that finds it."""
    folder.mkdir(exist_ok=True)
    command = folder / name
    command.write_text(f"#!/bin/sh\necho \"$*\" >> '{folder}/calls'\n{answers}\n", encoding="utf-8")
    command.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def calls(folder: Path) -> list[str]:
    path = folder / "calls"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


# ---------------------------------------------------------------- linters


@pytest.mark.parametrize("pattern", FORMS)
def test_form(project: Path, pattern: str) -> None:
    files = sorted((project / ".github").glob(pattern))
    assert files
    done = run("check-jsonschema", "--builtin-schema", FORMS[pattern], *files, cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr


def test_security(project: Path) -> None:
    done = run("zizmor", "--offline", "--no-progress", ".github", cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No findings" in done.stdout
    for name in ("ci", "lint", "nightly", "pytorch", "wheels"):
        assert f"completed .github/workflows/{name}.yml" in done.stderr


def test_shell_scripts(project: Path) -> None:
    """GitHub replaces its expressions before a shell sees the script."""
    scripts = [(place, step["run"]) for place, step in steps(project) if "run" in step]
    assert len(scripts) > 15
    for place, script in scripts:
        text = re.sub(r"\$\{\{.*?\}\}", "value", script)
        done = subprocess.run(
            ["shellcheck", "--shell=bash", "-"], input=text, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{place}:\n{done.stdout}"


@pytest.mark.parametrize(
    ("old", "new", "linter"),
    [
        ("runs-on: ubuntu-latest", "run-on: ubuntu-latest", "check-jsonschema"),
        ("      - run: make test\n", "      - run: echo ${{ github.event.pull_request.title }}\n", "zizmor"),
        ("@de0fac2e4500dabe0009e67214ff5f5447ce83dd", "@v6", "zizmor"),
        ("  contents: read", "  contents: write", "zizmor"),
        ("${{ matrix.python }},", "${{ matrix.python },", "zizmor"),
    ],
)
def test_the_linters_find_faults(project: Path, tmp_path: Path, old: str, new: str, linter: str) -> None:
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    text = (project / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert old in text
    path = folder / "ci.yml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    options = {
        "check-jsonschema": ("--builtin-schema", "vendor.github-workflows"),
        "zizmor": ("--offline", "--no-progress", "--strict-collection"),
    }
    assert run(linter, *options[linter], path, cwd=tmp_path).returncode != 0


# ---------------------------------------------------------------- what they refer to, and what they may do


def test_references_hold(project: Path) -> None:
    makefile = (project / "Makefile").read_text(encoding="utf-8")
    groups = re.findall(r"(?m)^(\w+) = \[", (project / "pyproject.toml").read_text(encoding="utf-8"))
    inputs = load(project / ".github" / "actions" / "setup" / "action.yml")["inputs"]
    for place, step in steps(project):
        for target in re.findall(r"(?<![\w-])make ([a-z-]+)", step.get("run", "")):
            assert re.search(rf"(?m)^{target}:", makefile), f"{place}: make {target}"
        for group in re.findall(r"--group (\w+)", step.get("run", "")):
            assert group in groups, f"{place}: {group}"
        for script in re.findall(r"\.github/scripts/\S+\.py", step.get("run", "")):
            assert (project / script).is_file(), f"{place}: {script}"
        if step.get("uses", "").startswith("./"):
            assert (project / step["uses"] / "action.yml").is_file(), place
            assert set(step.get("with", {})) <= set(inputs), place
    for name, workflow in workflows(project).items():
        text = json.dumps(workflow)
        for job, content in workflow["jobs"].items():
            needs = content.get("needs", [])
            needs = [needs] if isinstance(needs, str) else needs
            assert set(needs) <= set(workflow["jobs"]), f"{name}, {job}"
            assert set(re.findall(r"needs\.(\w+)\.", json.dumps(content))) <= set(needs), f"{name}, {job}"
            ids = {step["id"] for step in content["steps"] if "id" in step}
            assert set(re.findall(r"steps\.(\w+)\.", json.dumps(content))) <= ids, f"{name}, {job}"
            outputs = set(content.get("outputs", {}))
            assert set(re.findall(rf"needs\.{job}\.outputs\.(\w+)", text)) <= outputs, f"{name}, {job}"
            matrix = set(content.get("strategy", {}).get("matrix", {})) - {"include"}
            assert set(re.findall(r"matrix\.(\w+)", json.dumps(content))) == matrix, f"{name}, {job}"


def test_rights_are_the_least(project: Path) -> None:
    for name, workflow in workflows(project).items():
        assert workflow["permissions"] in ({}, {"contents": "read"}), name
        assert "concurrency" in workflow, name
    for name, job, content in jobs(project):
        granted = {right: level for right, level in content.get("permissions", {}).items() if level != "read"}
        assert granted == RIGHTS.get((name, job), {}), f"{name}, {job}"
        assert content["timeout-minutes"] > 0, f"{name}, {job}"
        if granted:
            # A job with rights runs no code of the project, nor of a pull request.
            assert "checkout" not in json.dumps(content), f"{name}, {job}"
    for path in (project / ".github").rglob("*.yml"):
        assert "secrets" not in path.read_text(encoding="utf-8"), path


def test_actions_are_pinned(project: Path) -> None:
    """By the commit; one action has one commit everywhere, and its version stands behind it."""
    found: dict[str, set[str]] = {}
    for path in [*(project / ".github" / "workflows").iterdir(), project / ".github/actions/setup/action.yml"]:
        for uses in re.findall(r"uses: (.*)", path.read_text(encoding="utf-8")):
            if not uses.startswith("./"):
                action, _, pin = uses.partition("@")
                assert re.fullmatch(r"[0-9a-f]{40}( # v[0-9.]+)?", pin), uses
                found.setdefault(action, set()).add(pin)
    assert {action: len(pins) for action, pins in found.items()} == dict.fromkeys(found, 1)
    assert len(found) == 6


def test_what_starts_them(project: Path) -> None:
    found = workflows(project)
    assert {"push", "pull_request"} <= events(found["ci.yml"]).keys()
    assert {"push", "pull_request"} <= events(found["lint.yml"]).keys()
    assert events(found["wheels.yml"])["push"] == {"tags": ["v*"]}
    assert re.fullmatch(r"\d+ \d+ \* \* \*", events(found["nightly.yml"])["schedule"][0]["cron"])
    assert events(found["pytorch.yml"]) == {"repository_dispatch": {"types": ["pull_request", "push"]}}


def test_matrix_spans_the_range(project: Path) -> None:
    matrix = workflows(project)["ci.yml"]["jobs"]["test"]["strategy"]["matrix"]
    text = (project / "pyproject.toml").read_text(encoding="utf-8")
    lowest = re.search(r'requires-python = ">=([0-9.]+)"', text)
    assert lowest is not None
    assert matrix["python"][0] == lowest[1]
    assert matrix["torch"] == ["newest"]
    assert {"python": lowest[1], "torch": "oldest"} in matrix["include"]
    done = run("cibuildwheel", "--platform", "linux", "--archs", "x86_64", "--print-build-identifiers", cwd=project)
    wanted = [f"cp{version.replace('.', '')}-manylinux_x86_64" for version in matrix["python"]]
    assert done.stdout.split() == wanted, done.stderr


# ---------------------------------------------------------------- what their scripts do


@pytest.mark.parametrize(
    ("torch", "expected"),
    [
        ("oldest", "-m pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"),
        ("newest", "-m pip install torch==2.13.* --index-url https://download.pytorch.org/whl/cpu"),
        ("nightly", "-m pip install --pre torch --index-url https://download.pytorch.org/whl/nightly/cpu"),
        ("none", "-m pip install --upgrade pip"),
    ],
)
def test_which_torch_is_installed(project: Path, tmp_path: Path, torch: str, expected: str) -> None:
    env = stand_in(tmp_path / "bin", "python") | {"TORCH": torch}
    done = bash(step_named(project, "Install torch"), project, env)
    assert done.returncode == 0, done.stderr
    assert calls(tmp_path / "bin")[-1] == expected


def test_unknown_torch_is_refused(project: Path, tmp_path: Path) -> None:
    env = stand_in(tmp_path / "bin", "python") | {"TORCH": "newst"}
    done = bash(step_named(project, "Install torch"), project, env)
    assert done.returncode == 1
    assert "use oldest, newest, nightly or none" in done.stdout


@pytest.mark.parametrize(
    ("result", "open_issue", "expected"),
    [
        ("failure", "", ["issue list", "label create", "issue create"]),
        ("cancelled", "", ["issue list", "label create", "issue create"]),
        ("failure", "17", ["issue list", "issue comment 17"]),
        ("success", "17", ["issue list", "issue close 17"]),
        ("success", "", ["issue list"]),
    ],
)
def test_nightly_keeps_one_issue(
    project: Path, tmp_path: Path, result: str, open_issue: str, expected: list[str]
) -> None:
    answer = f'if [ "$2" = list ]; then echo {open_issue}; fi'
    env = stand_in(tmp_path / "bin", "gh", answer)
    env |= {"LABEL": "nightly-torch", "RESULT": result, "TORCH": "2.99.0.dev1", "RUN": "https://example.com/run"}
    done = bash(step_named(project, "Open, continue or close the issue"), tmp_path, env)
    assert done.returncode == 0, done.stderr
    made = calls(tmp_path / "bin")
    assert len(made) == len(expected)
    for call, start in zip(made, expected, strict=True):
        assert call.startswith(start)
    if len(made) > 1:
        assert "torch 2.99.0.dev1" in made[-1]
        assert f"*{result}*" in made[-1]
        assert "https://example.com/run" in made[-1]


@pytest.mark.parametrize(("tag", "code"), [("v0.1.0", 0), ("v0.1.1", 1), ("v0.1", 1), ("v0x1.0", 1)])
def test_tag_must_be_the_version(project: Path, tag: str, code: int) -> None:
    done = bash(step_named(project, "Compare the tag with the version"), project, {"GITHUB_REF_NAME": tag})
    assert done.returncode == code
    assert (tag in done.stdout) == bool(code)


def test_project_is_aimed_at_another_torch(project: Path, tmp_path: Path) -> None:
    """With a torch that is only its metadata."""
    copy = tmp_path / "project"
    shutil.copytree(project, copy)
    metadata = tmp_path / "site" / "torch-2.99.0.dev20991231+cpu.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.99.0.dev20991231+cpu\n")
    script = copy / ".github" / "scripts" / "use_installed_torch.py"
    done = run(sys.executable, script, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path / "site")})
    assert done.stdout == "version=2.99.0.dev20991231+cpu\n", done.stderr
    (build_info,) = copy.glob("python/*/_build_info.py")
    assert 'TORCH_MINOR = "2.99"\n' in build_info.read_text(encoding="utf-8")
    text = (copy / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dependencies = ["torch"]\n' in text
    assert 'requires = ["scikit-build-core>=1.1,<2", "torch"]\n' in text
    changed = [
        p for p in copy.rglob("*") if p.is_file() and p.read_bytes() != (project / p.relative_to(copy)).read_bytes()
    ]
    assert {p.name for p in changed} == {"_build_info.py", "pyproject.toml"}
    (copy / "pyproject.toml").write_text("[project]\n")
    done = run(sys.executable, script, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path / "site")})
    assert done.returncode == 1
    assert "tell this script" in done.stderr


# ---------------------------------------------------------------- the feature


def test_without_the_feature(source: Source, tmp_path: Path) -> None:
    project = render_into(source, tmp_path / "project", features=["docs"])
    assert not (project / ".github").exists()
    hooks = run("pre-commit", "validate-config", cwd=project)
    assert hooks.returncode == 0, hooks.stdout


def test_code_owners(source: Source, project: Path, tmp_path: Path) -> None:
    assert not (project / ".github" / "CODEOWNERS").exists()
    owned = render_into(source, tmp_path / "owned", code_owners="@acme/backend jane.doe@example.com")
    text = (owned / ".github" / "CODEOWNERS").read_text(encoding="utf-8")
    assert text.splitlines()[-1] == "* @acme/backend jane.doe@example.com"


def test_workflows_hold_no_names(source: Source) -> None:
    """So they are copied as they are, and a maintainer reads them without escapes."""
    (folder,) = source.template.glob("*.github*")
    suffixed = [path.name for path in folder.rglob("*.jinja")]
    assert suffixed == ["{% if code_owners %}CODEOWNERS{% endif %}.jinja"]
