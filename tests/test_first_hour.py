"""The commands of "A vendor's first hour" in README.md work as they are written there."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from torch_backend.environment import Environment

from .first_hour import (
    ADDRESS,
    KEPT,
    TRANSCRIPT,
    WHOLE_SUITE,
    Hour,
    StepError,
    commands,
    first_hour,
    shorten,
)
from .running import ROOT, git

# In the order in which the hour goes on; other commands are between them.
MILESTONES = (
    f"git clone {ADDRESS} torch-backend",
    "pip install ./torch-backend",
    "torch-backend new torch_acme",
    "pip install --no-build-isolation --editable .",
    WHOLE_SUITE,
    "torch-backend add-op gelu",
    "pip install --no-build-isolation --editable .",
    "pytest tests/test_op_gelu.py",
    "torch-backend coverage 'gelu*' --state 'host body'",
    "git add --all && git commit",
    "git -C ../torch-backend pull",
    "pip install ../torch-backend",
    "torch-backend update",
    "pytest tests/test_op_gelu.py",
)


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return commands((ROOT / "README.md").read_text(encoding="utf-8"))


def test_readme_has_the_steps_in_order(lines: list[str]) -> None:
    rest = iter(lines)
    for milestone in MILESTONES:
        assert any(line.startswith(milestone) for line in rest), f"{milestone} is missing, or too early"


def test_readme_edits_what_the_script_looks_at(lines: list[str]) -> None:
    for name, line in KEPT.items():
        assert f'echo "{line.strip()}" >> {name}' in lines


def test_readme_installs_the_torch_that_projects_are_for(lines: list[str]) -> None:
    releases = yaml.safe_load((ROOT / "copier.yml").read_text(encoding="utf-8"))["torch_releases"]["default"]
    newest = list(releases.values())[-1]
    assert lines[0].startswith(f'pip install "torch{newest["requirement"]}" ')


def test_long_output_is_shortened() -> None:
    lines = [str(number) for number in range(30)]
    assert shorten(lines) == [*lines[:6], "... 10 lines ...", *lines[-14:]]
    assert shorten(lines[:21]) == lines[:21]


def test_a_line_fails_if_any_part_of_it_does(tmp_path: Path) -> None:
    hour = Hour(tmp_path, Environment(tmp_path / "venv"), tmp_path)
    (tmp_path / "sub").mkdir()
    hour.run("cd sub")
    assert hour.cwd == tmp_path / "sub"
    for line in ("false && true", "false | true", "git rev-parse --show-toplevel"):
        with pytest.raises(StepError, match="exit code"):
            hour.run(line)


def test_the_scratch_folder_is_in_no_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "build" / "hour").mkdir(parents=True)
    hour = Hour(tmp_path / "build" / "hour", Environment(tmp_path / "venv"), tmp_path / "build" / "hour")
    with pytest.raises(StepError, match="exit code"):
        hour.run("git rev-parse --show-toplevel")


@pytest.mark.build
def test_the_commands_of_the_readme_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """The build is configured as in test_build.py, so that both share the compiler cache."""
    folder = ROOT / "build" / "tests" / "first_hour"
    monkeypatch.setenv("SKBUILD_CMAKE_DEFINE", "WARNINGS_AS_ERRORS=ON")
    monkeypatch.delenv("TORCH_DEVICE_BACKEND_AUTOLOAD", raising=False)
    first_hour(folder, tests="tests/test_random.py tests/test_operator_list.py")
    transcript = (folder / TRANSCRIPT).read_text(encoding="utf-8")
    assert transcript.count("\n$ ") == len(commands((ROOT / "README.md").read_text(encoding="utf-8")))
    assert "\nEvery command did what README.md says" in transcript
