"""`torch-backend update`: edits are kept, news arrive, conflicts are shown."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from torch_backend.source import Source

from .conftest import answers_of, render_into
from .running import commit_all, git
from .test_cli import run
from .versions import EVENT, STREAM, Template, edit, originals, project, snapshot, template

__all__ = ["originals", "project", "template"]


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
    assert f"  {EVENT}: edited by you, removed from the template" in result.output
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


def test_a_project_in_a_subfolder_of_a_repository_is_updated(template: Template, tmp_path: Path) -> None:
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


def test_the_changelog_between_the_versions_is_shown(template: Template, project: Path) -> None:
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


def test_check_says_whether_there_is_a_newer_version(template: Template, project: Path) -> None:
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
        "labels": {"v1.0.0": "v1.0.0", "v1.1.0": "v1.1.0"},
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


def test_ref_updates_to_that_version(template: Template, project: Path) -> None:
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


def test_a_git_address_works_as_template(template: Template, project: Path) -> None:
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


def test_template_gives_the_new_address_of_a_moved_template(template: Template, project: Path, tmp_path: Path) -> None:
    template.append("template/README.md.jinja", "\nNews.\n")
    template.release("v1.1.0")
    moved = tmp_path / "moved"
    template.root.rename(moved)
    gone = run("update", "--project", str(project))
    assert gone.exit_code == 2
    assert "name its address with --template" in gone.output
    assert run("update", "--template", str(moved), "--project", str(project)).exit_code == 0
    assert answers_of(project)["_src_path"] == str(moved)


def test_data_changes_answers(template: Template, project: Path) -> None:
    result = run("update", "--data", "num_devices=5", "--project", str(project))
    assert result.exit_code == 0, result.output
    assert "At v1.0.0 of the template." in result.output
    assert answers_of(project)["num_devices"] == "5"
    commit_all(project, "five")
    for data, message in (
        ("device_name=other", "device_name cannot change after a project is rendered"),
        ("features=docs", "use `torch-backend add-feature`"),
        ("nonsense=1", "No such question: nonsense; the questions are vendor_name,"),
        ("num_devices=100", "num_devices: Type a number from 1 to 64."),
        ("num_devices", "write QUESTION=ANSWER"),
    ):
        refused = run("update", "--data", data, "--project", str(project))
        assert (refused.exit_code, message in refused.output) == (2, True), refused.output
    assert git(project, "status", "--porcelain") == ""


def test_data_alone_prints_no_changelog(template: Template, project: Path) -> None:
    template.write(
        "CHANGELOG.md", "# Changes\n\n## Unreleased\n\n- Later.\n\n## 1.1.0\n\n- One.\n\n## 0.9.0\n\n- Old.\n"
    )
    template.append("template/README.md.jinja", "\nNews.\n")
    template.release("v1.1.0")
    assert "- One." in run("update", "--project", str(project)).output
    commit_all(project, "updated")
    result = run("update", "--data", "num_devices=5", "--project", str(project))
    assert result.output.startswith("At v1.1.0 of the template.\n\nFiles: 1 changed.\n\nNext:"), result.output
    git(project, "reset", "--quiet", "--hard")
    git(template.root, "tag", "--delete", "v1.0.0", "v1.1.0")
    commit = git(template.root, "rev-parse", "--short", "HEAD").strip()
    edit(project, ".copier-answers.yml", (project / ".copier-answers.yml").read_text().replace("v1.1.0", f"'{commit}'"))
    result = run("update", "--data", "num_devices=5", "--project", str(project))
    assert result.output.startswith(f"At {commit} of the template.\n\nFiles: 1 changed."), result.output


def test_an_answer_without_a_question_is_refused(template: Template, tmp_path: Path) -> None:
    project = render_into(Source(template.root), tmp_path / "zed", vendor_name="Zed", features=[])
    commit_all(project, "rendered")
    result = run("update", "--data", "code_owners=@zed", "--project", str(project))
    assert result.exit_code == 2
    assert "code_owners has no effect in this project: the template asks for it only if 'github' in" in result.output
    assert git(project, "status", "--porcelain") == ""


def test_a_new_question_needs_an_answer_or_defaults(template: Template, project: Path) -> None:
    template.append("copier.yml", "\ncolour:\n  type: str\n  help: Colour\n  default: red\n")
    template.append("template/README.md.jinja", "\n{{ colour }}\n")
    template.release("v1.1.0")
    before = snapshot(project)
    asked = run("update", "--project", str(project))
    assert asked.exit_code == 2
    assert "no terminal for questions" in asked.output
    assert snapshot(project) == before
    assert run("update", "--data", "colour=blue", "--project", str(project)).exit_code == 0
    assert (project / "README.md").read_text().endswith("\nblue\n")
    git(project, "reset", "--quiet", "--hard")
    assert run("update", "--defaults", "--project", str(project)).exit_code == 0
    assert (project / "README.md").read_text().endswith("\nred\n")


def test_a_second_tag_on_a_version_is_not_recorded(template: Template, project: Path) -> None:
    """Git describes a commit by any of its tags. A tag such as `latest` moves, so a project must not record it."""
    template.append("template/README.md.jinja", "\nNews.\n")
    template.release("v1.1.0")
    git(template.root, "tag", "--annotate", "--message", "moves", "latest")
    assert run("update", "--project", str(project)).exit_code == 0
    assert answers_of(project)["_commit"] == "v1.1.0"


def test_in_files_of_a_port_the_vendors_text_stays(template: Template, project: Path) -> None:
    memory, handles = "csrc/device/Memory.cpp", "csrc/device/Handles.h"
    template.write(f"template/{memory}", "first\nallocate: not written\nmiddle\nmiddle\nfree: not written\n")
    template.write(f"template/{handles}", "handles: not written\n")
    (template.root / "template" / f"{memory}.jinja").unlink()
    template.release("v1.1.0")
    assert run("update", "--project", str(project)).exit_code == 0
    commit_all(project, "updated")
    edit(project, memory, "first\nallocate: mine\nmiddle\nmiddle\nfree: not written\n")
    edit(project, handles, "handles: mine\n")
    template.write(f"template/{memory}", "first\nallocate: in bytes\nmiddle\nmiddle\nfree: not written\nnew\n")
    (template.root / "template" / handles).unlink()
    template.release("v1.2.0")
    for options in (["--dry-run"], []):
        result = run("update", *options, "--project", str(project))
        assert result.exit_code == 0, result.output
        assert f"  {memory}:\n    @@ -1 +1 @@\n    -allocate: not written\n    +allocate: in bytes\n" in result.output
        assert f"  {handles} is no longer in the template.\n" in result.output
    assert (project / memory).read_text() == "first\nallocate: mine\nmiddle\nmiddle\nfree: not written\nnew\n"
    assert (project / handles).read_text() == "handles: mine\n"
    assert git(project, "ls-files", "--unmerged") == ""
