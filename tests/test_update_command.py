"""`torch-backend update`: edits are kept, conflicts shown, and whatever goes wrong leaves the project as it was."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from torch_backend import transplant
from torch_backend.example import Example
from torch_backend.source import Source

from .conftest import ROOT, answers_of, commit_all, git, render_into
from .test_cli import run

STREAM = "csrc/runtime/Stream.h"
EVENT = "csrc/runtime/Event.h"


class Template:
    """The small template as a git repository, whose versions a test makes."""

    def __init__(self, example: Example) -> None:
        self.root = example.source.root
        commit_all(self.root, "First version", tag="v1.0.0")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def append(self, name: str, text: str) -> None:
        self.write(name, (self.root / name).read_text(encoding="utf-8") + text)

    def release(self, tag: str, subject: str = "Release") -> None:
        commit_all(self.root, subject, tag=tag)


@pytest.fixture
def template(scratch: Example) -> Template:
    return Template(scratch)


@pytest.fixture
def project(template: Template, tmp_path: Path) -> Path:
    """A project rendered from v1.0.0, in git."""
    folder = render_into(Source(template.root), tmp_path / "torch_zed", vendor_name="Zed")
    commit_all(folder, "rendered")
    return folder


def edit(project: Path, name: str, text: str) -> None:
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    commit_all(project, f"edit {name}")


def snapshot(project: Path) -> dict[str, tuple[int, bytes]]:
    """Everything that a user sees of a project: files, their modes, and what git says."""
    found = {
        path.relative_to(project).as_posix(): (path.stat().st_mode, path.read_bytes())
        for path in project.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(project).parts
    }
    found["git status"] = (0, git(project, "status", "--porcelain", "--ignored").encode())
    found["git log"] = (0, git(project, "log", "--format=%H", "--all").encode())
    return found


def test_edits_are_kept_and_news_arrive(template: Template, project: Path) -> None:
    edit(project, STREAM, f"// the vendor's line\n{(project / STREAM).read_text()}")
    edit(project, "csrc/aten/native/Add.cpp", "// the vendor's kernel\n")
    edit(project, "csrc/aten/native/Mine.cpp", "// the vendor's file\n")
    template.append(f"template/{STREAM}.jinja", "// news for {{ device_name }}\n")
    template.append("template/csrc/aten/native/Add.cpp.jinja", "// the template's kernel\n")
    template.write("template/csrc/aten/native/Mul.cpp.jinja", "// new for {{ device_name }}\n")
    template.write("template/run.sh", "#!/bin/sh\n")
    (template.root / "template" / "run.sh").chmod(0o755)
    template.release("v1.1.0", "Faster streams")

    result = run("update", "--project", str(project), "--defaults")
    assert result.exit_code == 0, result.output
    assert "From v1.0.0 to v1.1.0" in result.output
    assert "v1.1.0: Faster streams" in result.output
    assert "Files: 2 changed, 2 added." in result.output
    stream = (project / STREAM).read_text()
    assert stream.startswith("// the vendor's line\n")
    assert stream.endswith("// news for zed\n")
    assert (project / "csrc/aten/native/Add.cpp").read_text() == "// the vendor's kernel\n"
    assert (project / "csrc/aten/native/Mine.cpp").read_text() == "// the vendor's file\n"
    assert (project / "csrc/aten/native/Mul.cpp").read_text() == "// new for zed\n", "a new seed arrives"
    assert os.access(project / "run.sh", os.X_OK)
    answers = answers_of(project)
    assert (answers["_commit"], answers["_src_path"]) == ("v1.1.0", str(template.root))
    assert not list(project.glob(".torch-backend-*"))

    commit_all(project, "updated")
    again = run("update", "--project", str(project / "csrc"))
    assert (again.exit_code, again.output) == (0, "The project is at v1.1.0; there is nothing to update.\n")


def test_gives_what_plain_copier_gives(template: Template, project: Path, tmp_path: Path) -> None:
    edit(project, STREAM, f"// the vendor's line\n{(project / STREAM).read_text()}")
    template.append(f"template/{STREAM}.jinja", "// news\n")
    template.append("template/README.md.jinja", "\nNews.\n")
    (template.root / "template" / f"{EVENT}.jinja").unlink()
    template.release("v1.1.0")
    plain = tmp_path / "plain"
    shutil.copytree(project, plain)
    subprocess.run([sys.executable, "-m", "copier", "update", "--defaults", "--quiet", str(plain)], check=True)
    assert run("update", "--project", str(project)).exit_code == 0
    command = ["diff", "--recursive", "--exclude=.git", str(plain), str(project)]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stdout == ""
    assert git(plain, "status", "--porcelain") == git(project, "status", "--porcelain")
    assert not (project / EVENT).exists()


def test_conflicts_are_shown_and_left_to_git(template: Template, project: Path) -> None:
    edit(project, STREAM, "the vendor's\n")
    edit(project, EVENT, f"{(project / EVENT).read_text()}// the vendor's line\n")
    template.write(f"template/{STREAM}.jinja", "the template's\n")
    (template.root / "template" / f"{EVENT}.jinja").unlink()
    template.release("v1.1.0")
    result = run("update", "--project", str(project), "--defaults")
    assert result.exit_code == 1
    assert "Conflicts in 2 files:" in result.output
    assert f"  {STREAM}: edited on both sides" in result.output
    assert f"  {EVENT}: edited by you, no longer in the template" in result.output
    assert "git add" in result.output
    text = (project / STREAM).read_text()
    assert text == "<<<<<<< HEAD\nthe vendor's\n=======\nthe template's\n>>>>>>> template-v1.1.0\n"
    assert "// the vendor's line" in (project / EVENT).read_text()
    status = git(project, "status", "--porcelain").splitlines()
    assert {f"UU {STREAM}", f"UD {EVENT}"} <= set(status)
    assert git(project, "show", f":3:{STREAM}") == "the template's\n"

    git(project, "reset", "--quiet", "--hard")
    git(project, "clean", "--quiet", "-fd")
    assert (project / STREAM).read_text() == "the vendor's\n", "and there is a way back"


def test_edits_of_a_renamed_or_binary_file_are_kept(template: Template, project: Path) -> None:
    lines = "".join(f"line {number}\n" for number in range(30))
    template.write("template/csrc/Old.h", lines)
    (template.root / "template" / "logo.bin").write_bytes(b"\0one")
    template.release("v1.1.0")
    assert run("update", "--project", str(project)).exit_code == 0
    commit_all(project, "updated")
    edit(project, "csrc/Old.h", lines.replace("line 3\n", "line 3 of the vendor\n"))
    (project / "logo.bin").write_bytes(b"\0the vendor's")
    commit_all(project, "logo")
    git(template.root, "mv", "template/csrc/Old.h", "template/csrc/New.h")
    template.append("template/csrc/New.h", "news\n")
    template.release("v1.2.0")
    result = run("update", "--project", str(project))
    assert result.exit_code == 0, result.output
    assert (project / "logo.bin").read_bytes() == b"\0the vendor's"
    assert not (project / "csrc/Old.h").exists()
    assert (project / "csrc/New.h").read_text() == lines.replace("line 3\n", "line 3 of the vendor\n") + "news\n"


def test_what_the_vendor_has_deleted_stays_deleted(template: Template, project: Path) -> None:
    (project / EVENT).unlink()
    commit_all(project, "no events")
    template.append(f"template/{EVENT}.jinja", "// news\n")
    template.release("v1.1.0")
    result = run("update", "--project", str(project))
    assert result.exit_code == 0, result.output
    assert not (project / EVENT).exists()


def test_a_project_in_a_folder_of_a_larger_repository(template: Template, tmp_path: Path) -> None:
    top = tmp_path / "mono"
    project = render_into(Source(template.root), top / "devices" / "zed", vendor_name="Zed")
    (top / "other.txt").write_text("other\n")
    commit_all(top, "all")
    (top / "other.txt").write_text("an edit elsewhere is none of our business\n")
    edit_path = project / STREAM
    edit_path.write_text("the vendor's\n")
    git(top, "commit", "--quiet", "--message", "edit", "devices")
    template.write(f"template/{STREAM}.jinja", "the template's\n")
    template.release("v1.1.0")
    result = run("update", "--project", str(project))
    assert result.exit_code == 1, result.output
    assert f"UU devices/zed/{STREAM}" in git(top, "status", "--porcelain")
    assert (top / "other.txt").read_text() == "an edit elsewhere is none of our business\n"


def test_changelog_between_the_versions(template: Template, project: Path) -> None:
    template.write(
        "CHANGELOG.md",
        "# Changes\n\n## Unreleased\n\nLater.\n\n## 1.2.0 (2026-02-01)\n\n- Two.\n\n"
        "## [1.1.0] - 2026-01-01\n\n- One\x1b[31m.\n\n## v1.0.0\n\n- Zero.\n",
    )
    template.release("v1.1.0")
    template.append("template/README.md.jinja", "\nNews.\n")
    template.release("v1.2.0")
    output = run("update", "--project", str(project), "--dry-run").output
    assert "v1.2.0:\n\n- Two.\n\nv1.1.0:\n\n- One[31m.\n" in output
    assert "Zero" not in output
    assert "Later" not in output


def test_check(template: Template, project: Path) -> None:
    same = run("update", "--check", "--project", str(project))
    assert (same.exit_code, same.output) == (0, "The project is at v1.0.0; there is no newer version.\n")
    template.append("template/README.md.jinja", "\nNews.\n")
    template.release("v1.1.0")
    template.append("template/README.md.jinja", "\nNews.\n")
    template.release("v1.2.0rc1")
    newer = run("update", "--check", "--project", str(project))
    assert newer.exit_code == 1
    assert newer.output == "The project is at v1.0.0; newer: v1.1.0. Run `torch-backend update`.\n"
    as_json = run("update", "--check", "--json", "--project", str(project))
    assert as_json.exit_code == 1
    assert json.loads(as_json.output) == {
        "template": str(template.root),
        "current": "v1.0.0",
        "latest": "v1.1.0",
        "newer": ["v1.1.0"],
        "out_of_date": True,
    }


def test_dry_run_shows_the_diff_and_changes_nothing(template: Template, project: Path) -> None:
    template.append(f"template/{STREAM}.jinja", "// news\n")
    template.release("v1.1.0")
    before = snapshot(project)
    result = run("update", "--dry-run", "--project", str(project))
    assert result.exit_code == 0, result.output
    assert f"+++ b/{STREAM}" in result.output
    assert "\n+// news\n" in result.output
    assert "template.git" not in result.output
    assert "Nothing was changed." in result.output
    assert snapshot(project) == before


def test_to_a_named_version(template: Template, project: Path) -> None:
    for number in (1, 2):
        template.append("template/README.md.jinja", f"\nNews {number}.\n")
        template.release(f"v1.{number}.0")
    assert run("update", "--ref", "v1.1.0", "--project", str(project)).exit_code == 0
    assert answers_of(project)["_commit"] == "v1.1.0"
    commit_all(project, "updated")
    back = run("update", "--ref", "v1.0.0", "--project", str(project))
    assert back.exit_code == 2
    assert "newer than v1.0.0" in back.output
    unknown = run("update", "--ref", "v9", "--project", str(project))
    assert unknown.exit_code == 2
    assert "no version v9; the newest are v1.0.0, v1.1.0, v1.2.0." in unknown.output
    assert "no version --x" in run("update", "--ref=--x", "--project", str(project)).output


def test_over_an_address_of_git(template: Template, project: Path) -> None:
    address = f"file://{template.root}"
    edit(
        project,
        ".copier-answers.yml",
        (project / ".copier-answers.yml").read_text().replace(str(template.root), address),
    )
    template.append("template/README.md.jinja", "\nNews.\n")
    template.release("v1.1.0")
    assert run("update", "--project", str(project)).exit_code == 0
    assert (answers_of(project)["_commit"], answers_of(project)["_src_path"]) == ("v1.1.0", address)


def test_a_template_that_has_moved(template: Template, project: Path, tmp_path: Path) -> None:
    template.append("template/README.md.jinja", "\nNews.\n")
    template.release("v1.1.0")
    moved = tmp_path / "moved"
    template.root.rename(moved)
    gone = run("update", "--project", str(project))
    assert gone.exit_code == 2
    assert "name its address with --template" in gone.output
    assert run("update", "--template", str(moved), "--project", str(project)).exit_code == 0
    assert answers_of(project)["_src_path"] == str(moved)


def test_a_template_without_versions(scratch: Example, tmp_path: Path) -> None:
    root = scratch.source.root
    commit_all(root, "first")
    project = render_into(Source(root), tmp_path / "project")
    commit_all(project, "rendered")
    (root / "template" / "NEWS.md").write_text("News.\n")
    commit_all(root, "second")
    for arguments in ([], ["--check"], ["--dry-run"]):
        result = run("update", *arguments, "--project", str(project))
        assert result.exit_code == 2
        assert "has no version yet: none of its git tags reads like v1.0.0" in result.output
    assert run("update", "--ref", "main", "--project", str(project)).exit_code == 0
    assert (project / "NEWS.md").exists()


def test_a_project_that_does_not_know_its_version(source: Source, tmp_path: Path) -> None:
    project = render_into(source, tmp_path / "project")
    commit_all(project, "rendered")
    result = run("update", "--project", str(project))
    assert result.exit_code == 2
    assert "does not know which version" in result.output


@pytest.mark.parametrize("kind", ["edited", "new file", "no repository", "not tracked"])
def test_what_git_could_not_bring_back_is_refused(template: Template, project: Path, kind: str) -> None:
    template.append("template/README.md.jinja", "\nNews.\n")
    template.release("v1.1.0")
    if kind == "edited":
        (project / "README.md").write_text("mine\n")
        expected = "not committed:\n   M README.md\nCommit them"
    elif kind == "new file":
        (project / "mine.txt").write_text("mine\n")
        expected = "?? mine.txt"
    elif kind == "no repository":
        shutil.rmtree(project / ".git")
        expected = "is not in a git repository"
    else:
        git(project, "rm", "--quiet", "-r", "--cached", ".")
        (project / ".gitignore").write_text("*\n")
        git(project, "commit", "--quiet", "--message", "empty")
        expected = "git does not track"
    files = {path: path.read_bytes() for path in project.rglob("*") if path.is_file() and ".git" not in path.parts}
    result = run("update", "--project", str(project))
    assert result.exit_code == 2, result.output
    assert expected in result.output
    assert {path: path.read_bytes() for path in files} == files


def test_an_ignored_file_is_not_overwritten(template: Template, project: Path) -> None:
    edit(project, ".gitignore", "/local.txt\n")
    (project / "local.txt").write_text("mine\n")
    template.write("template/local.txt", "the template's\n")
    template.release("v1.1.0")
    before = snapshot(project)
    result = run("update", "--project", str(project))
    assert result.exit_code == 2
    assert "local.txt would be overwritten" in result.output
    assert snapshot(project) == before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # copier leaves a folder open
def test_a_broken_template_leaves_the_project_as_it_was(template: Template, project: Path) -> None:
    template.append("template/README.md.jinja", "\n{{ no_such_name }}\n")
    template.release("v1.1.0")
    before = snapshot(project)
    result = run("update", "--project", str(project))
    assert result.exit_code == 2
    assert "no_such_name" in result.output
    assert "Traceback" not in result.output
    assert snapshot(project) == before


@pytest.fixture
def busy(template: Template, project: Path) -> Path:
    """A project whose update adds, removes, changes, and conflicts."""
    edit(project, STREAM, "the vendor's\n")
    template.write(f"template/{STREAM}.jinja", "the template's\n")
    template.append("template/README.md.jinja", "\nNews.\n")
    (template.root / "template" / f"{EVENT}.jinja").unlink()
    for number in range(5):
        template.write(f"template/news/{number}.txt", "News.\n")
    template.release("v1.1.0")
    return project


@pytest.mark.parametrize("function", ["copy2", "rename", "index"])
@pytest.mark.parametrize("after", [0, 3])
def test_a_full_disk_leaves_the_project_as_it_was(
    busy: Path, monkeypatch: pytest.MonkeyPatch, function: str, after: int
) -> None:
    calls = 0
    copy2, rename = shutil.copy2, Path.rename

    def fail_once() -> None:
        nonlocal calls
        calls += 1
        if calls == after + 1:
            raise OSError(28, "No space left on device")

    def copy2_until(*arguments: object, **options: object) -> object:
        fail_once()
        return copy2(*arguments, **options)  # type: ignore[call-overload]

    def rename_until(self: Path, target: Path) -> Path:
        fail_once()
        return rename(self, target)

    if function == "copy2":
        monkeypatch.setattr(shutil, "copy2", copy2_until)
    elif function == "rename":
        monkeypatch.setattr(Path, "rename", rename_until)
    else:
        (busy / ".git" / "index.lock").write_text("")
    before = snapshot(busy)
    result = run("update", "--project", str(busy))
    assert result.exit_code == 2, result.output
    assert (
        "index.lock" if function == "index" else "No space left on device. The project is as it was."
    ) in result.output
    assert snapshot(busy) == before
    assert not list(busy.glob(".torch-backend-*"))


def with_a_signal_at_call(folder: Path, number: int, name: str) -> dict[str, str]:
    """An environment whose git sends its caller a signal the given time that it is called, then goes on."""
    real = shutil.which("git")
    wrapper = folder / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(
        f'#!/bin/sh\necho >> "{folder}/calls"\n'
        f'[ "$(wc -l < "{folder}/calls")" -ne {number} ] || kill -{name} $PPID\nexec "{real}" "$@"\n'
    )
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    temporary = folder / "temporary"
    temporary.mkdir()
    paths = {"PATH": f"{wrapper.parent}:{os.environ['PATH']}", "TMPDIR": str(temporary)}
    return os.environ | paths | {"PYTHONPATH": str(ROOT / "generator"), "GIT_CONFIG_GLOBAL": os.devnull}


@pytest.mark.parametrize(
    ("number", "name"), [(3, "INT"), (6, "TERM"), (20, "INT"), (40, "HUP"), (55, "INT"), (70, "INT")]
)
def test_interrupted_midway_the_project_is_as_it_was(busy: Path, tmp_path: Path, number: int, name: str) -> None:
    before = snapshot(busy)
    environment = with_a_signal_at_call(tmp_path, number, name)
    command = [sys.executable, "-m", "torch_backend", "update", "--defaults", "--project", str(busy)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    calls = len((tmp_path / "calls").read_text().splitlines())
    assert calls >= number, "the signal came"
    assert "Traceback" not in done.stderr
    assert done.returncode == 130, done.stderr
    assert "Interrupted. The project is as it was." in done.stderr
    assert snapshot(busy) == before
    assert not list(busy.glob(".torch-backend-*"))
    assert not [path.name for path in (tmp_path / "temporary").iterdir() if path.name.startswith("torch-backend-")]


def test_a_signal_while_files_change_places_comes_too_late(busy: Path) -> None:
    with transplant.uninterrupted():
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert run("update", "--project", str(busy)).exit_code == 1


def test_what_a_killed_update_leaves_is_explained(busy: Path) -> None:
    (busy / ".torch-backend-abc").mkdir()
    result = run("update", "--project", str(busy))
    assert result.exit_code == 2
    assert "An earlier update" in result.output
    assert "git reset --hard" in result.output
