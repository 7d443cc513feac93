"""The workflows of a rendered project: linters accept them, their references exist, their rights are the least."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from torch_backend.source import Source

from .conftest import MATRIX, render_into
from .workflow_files import events, jobs, load, run, steps, workflows

NAMES = ["acme", "hostile"]
# Which jobs may do more than read the repository, and for what.
RIGHTS = {
    ("nightly.yml", "report"): {"issues": "write"},
    ("pytorch.yml", "started"): {"id-token": "write"},
    ("pytorch.yml", "finished"): {"id-token": "write"},
    ("template.yml", "propose"): {"contents": "write", "pull-requests": "write"},
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


# ---------------------------------------------------------------- linters


@pytest.mark.parametrize("pattern", FORMS)
def test_every_file_follows_its_schema(project: Path, pattern: str) -> None:
    files = sorted((project / ".github").glob(pattern))
    assert files
    done = run("check-jsonschema", "--builtin-schema", FORMS[pattern], *files, cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_security_linter_finds_nothing(project: Path) -> None:
    done = run("zizmor", "--offline", "--no-progress", ".github", cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No findings" in done.stdout
    for name in ("ci", "lint", "nightly", "pytorch", "template", "wheels"):
        assert f"completed .github/workflows/{name}.yml" in done.stderr


def test_shell_scripts_pass_shellcheck(project: Path) -> None:
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


def test_targets_groups_and_inputs_exist(project: Path) -> None:
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
    """An action is pinned by its commit, the same everywhere, with its version in a comment."""
    found: dict[str, set[str]] = {}
    for path in [*(project / ".github" / "workflows").iterdir(), project / ".github/actions/setup/action.yml"]:
        for uses in re.findall(r"uses: (.*)", path.read_text(encoding="utf-8")):
            if not uses.startswith("./"):
                action, _, pin = uses.partition("@")
                assert re.fullmatch(r"[0-9a-f]{40}( # v[0-9.]+)?", pin), uses
                found.setdefault(action, set()).add(pin)
    assert {action: len(pins) for action, pins in found.items()} == dict.fromkeys(found, 1)
    assert len(found) == 6


def test_each_workflow_has_its_triggers(project: Path) -> None:
    found = workflows(project)
    assert {"push", "pull_request"} <= events(found["ci.yml"]).keys()
    assert {"push", "pull_request"} <= events(found["lint.yml"]).keys()
    assert events(found["wheels.yml"])["push"] == {"tags": ["v*"]}
    assert re.fullmatch(r"\d+ \d+ \* \* \*", events(found["nightly.yml"])["schedule"][0]["cron"])
    assert re.fullmatch(r"\d+ \d+ \* \* 1", events(found["template.yml"])["schedule"][0]["cron"])
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


# ---------------------------------------------------------------- the feature


def test_without_the_feature_there_are_no_workflows(source: Source, tmp_path: Path) -> None:
    project = render_into(source, tmp_path / "project", features=["docs"])
    assert not (project / ".github").exists()
    hooks = run("pre-commit", "validate-config", cwd=project)
    assert hooks.returncode == 0, hooks.stdout


def test_code_owners_review_everything(source: Source, project: Path, tmp_path: Path) -> None:
    assert not (project / ".github" / "CODEOWNERS").exists()
    owned = render_into(source, tmp_path / "owned", code_owners="@acme/backend jane.doe@example.com")
    text = (owned / ".github" / "CODEOWNERS").read_text(encoding="utf-8")
    assert text.splitlines()[-1] == "* @acme/backend jane.doe@example.com"


def test_workflows_hold_no_names(source: Source) -> None:
    """Files without names are copied unchanged, so a maintainer reads them without escapes."""
    (folder,) = source.template.glob("*.github*")
    suffixed = [path.name for path in folder.rglob("*.jinja")]
    assert suffixed == ["{% if code_owners %}CODEOWNERS{% endif %}.jinja"]
