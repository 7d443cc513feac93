"""The scripts in the workflows of a rendered project, run with stand-ins for commands that need the network."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from torch_backend.source import Source

from .conftest import MATRIX, render_into
from .running import commit_all, git
from .torch_release import FIRST, MINOR
from .workflow_files import bash, calls, run, stand_in, step_named


@pytest.fixture(scope="module")
def project(source: Source, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with workflows; tests must not change it."""
    return render_into(source, tmp_path_factory.mktemp("hostile") / "project", **MATRIX["hostile"])


@pytest.mark.parametrize(
    ("torch", "expected"),
    [
        ("oldest", f"-m pip install torch=={FIRST} --index-url https://download.pytorch.org/whl/cpu"),
        ("newest", f"-m pip install torch=={MINOR}.* --index-url https://download.pytorch.org/whl/cpu"),
        ("nightly", "-m pip install --pre torch --index-url https://download.pytorch.org/whl/nightly/cpu"),
        ("none", "-m pip install --upgrade pip"),
    ],
)
def test_each_choice_installs_its_torch(project: Path, tmp_path: Path, torch: str, expected: str) -> None:
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


@pytest.fixture
def repository(project: Path, tmp_path: Path) -> Path:
    """A clone of the project's repository, as a job has it."""
    origin = Path(shutil.copytree(project, tmp_path / "origin"))
    commit_all(origin, "Start")
    git(tmp_path, "clone", "--quiet", str(origin), "work")
    return tmp_path / "work"


@pytest.mark.parametrize(
    ("update", "code", "proposed"),
    [
        ("echo News > NEWS.md; echo News. >> README.md; echo From a to b; exit 0", 0, True),
        ("echo '<<<<<<< you' >> README.md; echo Conflicts in 1 file; exit 1", 0, True),
        ("echo nothing to update; exit 0", 0, False),
        ("echo broken >&2; exit 2", 2, False),
    ],
)
def test_a_newer_template_becomes_a_pull_request(
    project: Path, repository: Path, tmp_path: Path, update: str, code: int, proposed: bool
) -> None:
    env = stand_in(tmp_path / "bin", "torch-backend", update) | {"GITHUB_OUTPUT": str(tmp_path / "output")}
    done = bash(step_named(project, "Update to the newest version"), repository, env)
    assert done.returncode == code, done.stderr
    assert calls(tmp_path / "bin") == ["update --defaults"]
    assert (repository / "proposal").exists() == proposed
    assert git(repository, "status", "--porcelain") == ("?? proposal/\n" if proposed else "")
    if not proposed:
        assert not (tmp_path / "output").exists()
        return
    branch = (tmp_path / "output").read_text().strip().removeprefix("branch=")

    job = tmp_path / "job"
    shutil.copytree(repository / "proposal", job / "proposal")
    env = stand_in(tmp_path / "bin", "gh") | {"BRANCH": branch, "REPOSITORY": str(tmp_path / "origin")}
    done = bash(step_named(project, "Open the pull request"), job, env)
    assert done.returncode == 0, done.stderr
    assert calls(tmp_path / "bin")[-1] == (
        f"pr create --head {branch} --title Update the template --body-file proposal/update.log"
    )
    changed = git(tmp_path / "origin", "diff", "--name-only", "HEAD", branch).split()
    assert "README.md" in changed
    assert set(changed) <= {"README.md", "NEWS.md"}

    again = stand_in(tmp_path / "bin", "gh", "echo 17") | {"BRANCH": branch, "REPOSITORY": "none"}
    done = bash(step_named(project, "Open the pull request"), job, again)
    assert (done.returncode, "proposed before" in done.stdout) == (0, True)


@pytest.mark.parametrize(("tag", "code"), [("v0.1.0", 0), ("v0.1.1", 1), ("v0.1", 1), ("v0x1.0", 1)])
def test_tag_must_be_the_version(project: Path, tag: str, code: int) -> None:
    done = bash(step_named(project, "Compare the tag with the version"), project, {"GITHUB_REF_NAME": tag})
    assert done.returncode == code
    assert (tag in done.stdout) == bool(code)


def test_project_is_aimed_at_another_torch(project: Path, tmp_path: Path) -> None:
    """The other torch is only its metadata."""
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
