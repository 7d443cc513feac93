"""`torch-backend new`: names from the folder's name, the first commit, and nothing left behind."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib
import yaml
from packaging.requirements import Requirement
from torch_backend.errors import UserError
from torch_backend.lifecycle.new import describe, vendor_from
from torch_backend.project import Project
from torch_backend.render import create_project
from torch_backend.source import Source

from .conftest import answers_of
from .running import IDENTITY, ROOT, checked, git
from .test_cli import run
from .versions import Template, originals, template, with_a_signal_at_call

__all__ = ["originals", "template"]


@pytest.fixture
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)


def new(template: Template, folder: Path, *arguments: str) -> str:
    result = run("new", str(folder), "--defaults", "--template", str(template.root), *arguments)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    ("folder", "vendor"),
    [
        ("torch_acme", "Acme"),
        ("acme", "Acme"),
        ("pytorch-acme-npu", "Acme Npu"),
        ("torch_ACME", "ACME"),
        ("AcmeSystems-backend", "AcmeSystems"),
        ("torch", None),
        ("123", None),
        ("torch_köln", None),
        ("torch_$(touch x)", None),
        ("a" * 25, None),
        ("", None),
    ],
)
def test_the_folder_suggests_the_vendor(folder: str, vendor: str | None) -> None:
    assert vendor_from(folder) == vendor


@pytest.mark.usefixtures("identity")
def test_names_come_from_the_folder_unless_given(template: Template, tmp_path: Path) -> None:
    new(template, tmp_path / "torch_zed")
    assert answers_of(tmp_path / "torch_zed")["package_name"] == "torch_zed"
    new(template, tmp_path / "torch_other", "--vendor-name", "Yak")
    assert answers_of(tmp_path / "torch_other")["package_name"] == "torch_yak"
    new(template, tmp_path / "123")
    assert answers_of(tmp_path / "123")["vendor_name"] == "Acme"


@pytest.mark.usefixtures("identity")
def test_names_are_shown(template: Template, tmp_path: Path) -> None:
    output = new(template, tmp_path / "torch_zed")
    assert (
        "The names of the project:\n\n"
        "  vendor       Zed\n"
        '  device       torch.device("zed"), torch.zed, C++ namespace zed\n'
        "  package      import torch_zed, libtorch_zed.so\n"
        "  SDK          libzed_sim.so, <zed_sim/zed_sim.h>, functions zedsimMalloc, ...\n"
        "  environment  TORCH_ZED_*, ZED_SIM_*\n"
    ) in output
    install = "pip install --no-build-isolation --editable ."
    assert f"Next:\n\n  cd {tmp_path / 'torch_zed'}\n  {install}\n\n" in output
    zed = {"device_name": "zed", "package_name": "torch_zed"}
    assert "SDK" not in describe(zed)
    assert "your own: cmake/DeviceLibrary.cmake" in describe(zed | {"device_library": "external"})


def test_the_next_steps_can_be_pasted(tmp_path: Path) -> None:
    """They install what a build without isolation needs, as pyproject.toml of the project says."""
    folder = tmp_path / "my folder"
    result = run("new", str(folder), "--defaults", "--no-git", "--vendor-name", "Zed")
    assert result.exit_code == 0, result.output
    steps = [shlex.split(line) for line in result.output.split("Next:\n\n")[1].split("\n\n")[0].splitlines()]
    with (folder / "pyproject.toml").open("rb") as file:
        pyproject = tomllib.load(file)
    needed = {*pyproject["build-system"]["requires"], *pyproject["dependency-groups"]["build"]}
    names = {Requirement(text).name for text in needed}
    assert names == {"torch", "scikit-build-core", "cmake", "ninja"}
    assert [step[:2] for step in steps] == [["cd", str(folder)], ["pip", "install"], ["pip", "install"]]
    assert set(steps[1][2:]) == needed
    assert steps[2][2:] == ["--no-build-isolation", "--editable", "."]


def test_the_message_of_copier_names_the_same_steps(source: Source, tmp_path: Path) -> None:
    folder = tmp_path / "my folder"
    copier = (sys.executable, "-m", "copier", "copy", "--defaults", source.root, folder)
    shown = checked(*copier, cwd=tmp_path).split("Next:\n\n")[1].split("\n\n")[0]
    steps = [shlex.split(line) for line in shown.splitlines()]
    assert steps[0] == ["cd", str(folder)]
    given = {Requirement(text).name: Requirement(text) for text in steps[2][2:]}
    needed = Project.find(folder).build_requirements
    assert given.keys() == {Requirement(text).name for text in needed}
    for text in needed:
        requirement = Requirement(text)
        if requirement.name in {"torch", "scikit-build-core"}:
            assert given[requirement.name] == requirement
    assert steps[3] == ["pip", "install", "--no-build-isolation", "--editable", "."]
    readme = (folder / "README.md").read_text()
    assert "\n" + " ".join(shown.splitlines()[2].split()) + "\n" in readme


@pytest.mark.usefixtures("identity")
def test_the_first_commit_holds_the_project(template: Template, tmp_path: Path) -> None:
    project = tmp_path / "torch_zed"
    new(template, project)
    assert git(project, "log", "--format=%an: %s").strip() == "Developers: Start from the template v1.0.0"
    assert git(project, "status", "--porcelain") == ""
    template.append("template/README.md.jinja", "\nNews.\n")
    template.release("v1.1.0")
    assert run("update", "--project", str(project)).exit_code == 0, "so that an update works at once"


@pytest.mark.usefixtures("identity")
def test_no_git_makes_no_repository(template: Template, tmp_path: Path) -> None:
    new(template, tmp_path / "torch_zed", "--no-git")
    assert not (tmp_path / "torch_zed" / ".git").exists()


def test_without_a_git_identity_nothing_is_committed(
    template: Template, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "settings"
    settings.write_text("[user]\nuseConfigOnly = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    output = new(template, tmp_path / "torch_zed")
    assert "git does not know your name, so nothing is committed yet" in output
    assert 'git commit --message "Start from the template v1.0.0"' in output
    git(tmp_path / "torch_zed", "commit", "--quiet", "--message", "as told")
    assert git(tmp_path / "torch_zed", "status", "--porcelain") == ""


@pytest.mark.usefixtures("identity")
@pytest.mark.parametrize("inside", ["below", "itself"])
def test_in_a_repository_nothing_is_committed(template: Template, tmp_path: Path, inside: str) -> None:
    top = tmp_path / "torch_zed"
    git(tmp_path, "init", "--quiet", str(top))
    project = top / "sub" if inside == "below" else top
    output = new(template, project)
    assert f"is in the git repository {top}: commit it there" in " ".join(output.split())
    assert not (top / "sub" / ".git").exists()
    assert (project / "README.md").exists()


@pytest.mark.usefixtures("identity")
def test_the_current_folder_can_be_the_target(
    template: Template, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "torch_zed"
    folder.mkdir()
    monkeypatch.chdir(folder)
    number = folder.stat().st_ino
    new(template, Path())
    assert folder.stat().st_ino == number, "the shell is still in it"
    assert answers_of(folder)["vendor_name"] == "Zed"
    assert not [path for path in folder.iterdir() if path.name.startswith(".torch_zed")]


@pytest.mark.usefixtures("identity")
@pytest.mark.parametrize(
    ("typed", "code", "says"), [("n\n", 1, "Nothing was written."), ("\n", 0, "Rendered"), ("\4", 130, "Interrupted")]
)
def test_on_a_terminal_it_asks_before_it_writes(
    template: Template, tmp_path: Path, typed: str, code: int, says: str
) -> None:
    pty = pytest.importorskip("pty")
    terminal, stdin = pty.openpty()
    os.write(terminal, typed.encode())
    answers = ROOT / "examples" / "openreg.yml"  # all of them, so that copier has nothing to ask
    arguments = ["new", str(tmp_path / "torch_zed"), "--template", str(template.root), "--answers", str(answers)]
    done = subprocess.run(
        [sys.executable, "-m", "torch_backend", *arguments],
        stdin=stdin,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT / "generator")},
        timeout=120,  # a question without an answer in the file would wait at the terminal
    )
    os.close(terminal)
    os.close(stdin)
    assert done.returncode == code, done.stdout + done.stderr
    assert says in done.stdout + done.stderr
    assert f"Write it to {tmp_path / 'torch_zed'}?" in done.stdout
    assert (tmp_path / "torch_zed").exists() == (code == 0)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_dry_run_shows_names_and_files_and_writes_nothing(template: Template, tmp_path: Path) -> None:
    arguments = ["new", str(tmp_path / "torch_zed"), "--template", str(template.root), "--defaults"]
    done = run(*arguments, "--dry-run")
    assert done.exit_code == 0, done.output
    assert 'torch.device("zed")' in done.output
    assert not (tmp_path / "torch_zed").exists()
    shown = done.stdout.split(" files:\n\n  ")[1].rstrip().split("\n  ")
    assert run(*arguments, "--no-git").exit_code == 0
    made = [
        path.relative_to(tmp_path / "torch_zed").as_posix()
        for path in (tmp_path / "torch_zed").rglob("*")
        if path.is_file()
    ]
    assert shown == sorted(made)
    assert "Nothing was written." in done.stderr


def test_settings_of_copier_are_the_defaults(
    template: Template, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """README says so: an author and a licence are typed once for all projects."""
    settings = tmp_path / "settings.yml"
    settings.write_text("defaults:\n  author: Jane Doe\n  license: MIT\n")
    monkeypatch.setenv("COPIER_SETTINGS_PATH", str(settings))
    project = tmp_path / "torch_zed"
    done = run("new", str(project), "--template", str(template.root), "--defaults", "--no-git")
    assert done.exit_code == 0, done.output
    assert {name: answers_of(project)[name] for name in ("author", "license", "vendor_name")} == {
        "author": "Jane Doe",
        "license": "MIT",
        "vendor_name": "Zed",
    }


def test_answers_can_be_changed_before_it_writes(source: Source, template: Template, tmp_path: Path) -> None:
    pytest.importorskip("pty")
    from .terminal import talk

    answers = str(ROOT / "examples" / "openreg.yml")
    project = tmp_path / "torch_zed"
    clear = "\x15"
    questions = {name: str(question["help"])[:25] for name, question in source.questions.items()}
    unchanged = [text for name, text in questions.items() if name not in ("vendor_name", "device_name")]
    code, shown = talk(
        [
            sys.executable,
            "-m",
            "torch_backend",
            "new",
            str(project),
            "--template",
            str(template.root),
            "--answers",
            answers,
            "--no-git",
        ],
        [
            ("change the answers", "c\r"),
            (questions["vendor_name"], "\r"),
            (questions["device_name"], f"{clear}zed\r"),
            *[(question, "\r") for question in unchanged],
            ("change the answers", "y\r"),
        ],
    )
    assert code == 0, shown
    before = yaml.safe_load((ROOT / "examples" / "openreg.yml").read_text(encoding="utf-8"))
    now = answers_of(project)
    assert now["device_name"] == "zed"
    assert {name for name in before if str(now[name]) != str(before[name])} == {"device_name"}


def test_a_refused_answer_is_asked_again(template: Template, tmp_path: Path) -> None:
    """PyTorch's torch_npu would be the name of the package for the device npu."""
    pytest.importorskip("pty")
    from .terminal import talk

    answers = yaml.safe_load((ROOT / "examples" / "openreg.yml").read_text(encoding="utf-8"))
    asked = {"device_name", "package_name"}
    file = tmp_path / "answers.yml"
    file.write_text(yaml.safe_dump({name: answer for name, answer in answers.items() if name not in asked}))
    project = tmp_path / "torch_zed"
    options = ["--template", str(template.root), "--answers", str(file), "--no-git"]
    clear = "\x15"
    code, shown = talk(
        [sys.executable, "-m", "torch_backend", "new", str(project), *options],
        [
            ("Device name, as in", f"{clear}npu2\r"),
            ("Validation error for question 'device_name': Use no digits: they are an index.", f"{clear}npu\r"),
            ("npu_backend", f"{clear}torch_npu\r"),
            ("Validation error for question 'package_name': Use another name: it is a package.", f"{clear}npu_torch\r"),
            ("Write it to", "\r"),
        ],
    )
    assert code == 0, shown
    assert {answers_of(project)[name] for name in asked} == {"npu", "npu_torch"}


@pytest.mark.parametrize("there", [False, True], ids=["new folder", "empty folder"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["disk", "SIGINT"])
def test_a_failure_midway_leaves_nothing_behind(tmp_path: Path, there: bool, error: BaseException) -> None:
    target = tmp_path / "deep" / "torch_zed"
    if there:
        target.mkdir(parents=True)

    def render(folder: Path) -> None:
        (folder / "csrc").mkdir(parents=True)
        (folder / "csrc" / "a.h").write_text("half")
        raise error

    with pytest.raises((UserError, KeyboardInterrupt)):
        create_project(target, render)
    assert list(tmp_path.rglob("*")) == ([target.parent, target] if there else [])


def test_a_failure_while_moving_in_leaves_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def rename_some(self: Path, target: Path) -> Path:
        if self.name == "b":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    def render(folder: Path) -> None:
        folder.mkdir()
        for name in ("a", "b", "c"):
            (folder / name).mkdir()

    monkeypatch.setattr(Path, "rename", rename_some)
    with pytest.raises(UserError, match="No space left on device"):
        create_project(tmp_path, render)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("number", "name"), [(2, "INT"), (5, "TERM"), (9, "INT")])
def test_interrupted_midway_nothing_is_left_behind(template: Template, tmp_path: Path, number: int, name: str) -> None:
    environment = with_a_signal_at_call(tmp_path, number, name)
    target = tmp_path / "deep" / "torch_zed"
    arguments = ["new", str(target), "--defaults", "--template", str(template.root)]
    done = subprocess.run(
        [sys.executable, "-m", "torch_backend", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert len((tmp_path / "calls").read_text().splitlines()) >= number, "the signal came"
    assert done.returncode == 130, done.stderr
    assert "Interrupted; nothing was written." in done.stderr
    assert not (tmp_path / "deep").exists()
