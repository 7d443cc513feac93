"""A port that was made before the template's folders moved is carried over, without a tag in the template."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch_backend.lifecycle import migrations
from torch_backend.render import ANSWERS_FILE, Tree, render_tree
from torch_backend.source import Source

from .conftest import answers_of
from .old_port import ANSWERS, EDITS, OWN, OldPort, make_old_port
from .running import ROOT, commit_all, git
from .template_renames import why_no_history
from .test_cli import run

SEEDS = re.compile(r"csrc/aten/native/[^/]*$|tests/test_native\.py$|tests/conformance/claims\.json$|examples/")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> OldPort:
    if reason := why_no_history():
        pytest.skip(reason)
    return make_old_port(tmp_path_factory.mktemp("old_port"))


@pytest.fixture(scope="module")
def printed(port: OldPort) -> str:
    """Updates the port and returns the output."""
    assert answers_of(port.project)["_commit"] == port.version
    result = run("update", "--defaults", "--project", str(port.project))
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def fresh(source: Source) -> Tree:
    return render_tree(source, ANSWERS)


def _new_path(path: str) -> str:
    steps = migrations.parse((ROOT / migrations.FILE).read_text(encoding="utf-8"))
    return migrations.rename(path, [pair for step in steps for pair in step.renames.items()])


def _files(project: Path) -> set[str]:
    return set(git(project, "ls-files", "--cached", "--others", "--exclude-standard").split("\n")) - {""}


def test_there_is_no_conflict_left_to_resolve(port: OldPort, printed: str) -> None:
    assert "Conflicts" not in printed
    assert git(port.project, "ls-files", "--unmerged") == ""
    for path in _files(port.project):
        if (port.project / path).is_file():
            assert b"<<<<<<< " not in (port.project / path).read_bytes(), path


def test_versions_are_commits_with_the_version_of_the_changelog(port: OldPort, printed: str) -> None:
    newest = git(port.template, "describe", "--always").strip()
    assert re.search(rf"^From {port.version} to {newest} \(\d+\.\d+\.\d+.*\) of the template\.$", printed, re.MULTILINE)
    assert answers_of(port.project)["_commit"] == newest
    assert "not released yet" in printed
    assert "Note: " in printed


def test_nothing_of_the_old_layout_is_left(port: OldPort, printed: str, fresh: Tree) -> None:
    there = {path for path in _files(port.project) if (port.project / path).is_file()}
    assert there - fresh.keys() == {_new_path(path) for path in OWN}
    # It would decline capabilities whose functions the port has.
    assert fresh.keys() - there == {"csrc/device/Declined.cpp"}


def test_what_the_vendor_has_not_edited_is_the_new_template(port: OldPort, printed: str, fresh: Tree) -> None:
    edited = {_new_path(path) for path in port.edited} | {ANSWERS_FILE}
    for path, file in fresh.items():
        if path not in edited and not SEEDS.match(path) and (port.project / path).exists():
            assert (port.project / path).read_bytes() == file.content, path


@pytest.mark.parametrize("path", EDITS)
def test_edits_are_kept(port: OldPort, printed: str, path: str) -> None:
    assert (_new_path(path) == path) == (path not in ("csrc/runtime/BlockSize.cpp", "csrc/aten/emulation/Boxed.cpp"))
    text = (port.project / _new_path(path)).read_text(encoding="utf-8")
    for _, new in EDITS[path]:
        for line in new.splitlines():
            assert line in text


def test_the_seam_has_the_vendors_text_and_what_is_new(port: OldPort, printed: str, fresh: Tree) -> None:
    """The vendor's lines in csrc/device stay even where the template changed the same place."""
    committed = {path for path in port.edited if path.startswith(("csrc/device/", "cmake/"))}
    assert len(committed) >= 11  # ten files of the seam, and the library
    for path in committed:
        before = git(port.project, "show", f"HEAD:{path}").splitlines()
        after = (port.project / path).read_text(encoding="utf-8").splitlines()
        template = git(port.project, "show", f"HEAD~1:{path}").splitlines()
        assert [line for line in before if line not in template and line not in after] == [], path
    assert "Your text stays in these files" in printed
    assert "+  const Waiting waiting;" in printed, "what the template has changed there is shown"


def test_own_files_have_the_new_names(port: OldPort, printed: str) -> None:
    kernel = (port.project / "csrc/aten/native/Multiply.cpp").read_text(encoding="utf-8")
    for line in ('#include "fallback/OperatorInfo.h"', '#include "fallback/Call.h"', "fallback::Call call;"):
        assert f"{line}\n" in kernel
    assert "emulation" not in kernel
    assert "namespace acme::fallback {}" in (port.project / "csrc/fallback/Trace.h").read_text(encoding="utf-8")
    assert "  csrc/aten/native/Multiply.cpp:\n    aten/OperatorInfo.h -> fallback/OperatorInfo.h\n" in printed
    assert (port.project / "tests/test_multiply.py").read_text(encoding="utf-8") == OWN["tests/test_multiply.py"]


def _broken_includes(project: Path) -> Iterator[str]:
    for path in (project / "csrc").rglob("*"):
        if path.suffix in (".h", ".cpp"):
            for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE):
                if not (project / "csrc" / name).exists() and not (path.parent / name).exists():
                    yield f"{path.relative_to(project)}: {name}"


def test_every_included_header_exists(port: OldPort, printed: str) -> None:
    assert list(_broken_includes(port.project)) == []


def test_the_next_update_does_nothing(port: OldPort, printed: str) -> None:
    commit_all(port.project, "updated")
    again = run("update", "--project", str(port.project))
    assert "there is nothing to update" in again.output
    (port.template / "template" / "NEWS.md").write_text("News.\n", encoding="utf-8")
    commit_all(port.template, "News")
    later = run("update", "--project", str(port.project))
    assert later.exit_code == 0, later.output
    assert "Files: 1 changed, 1 added." in later.output
    assert "Note:" not in later.output
    assert "Replaced" not in later.output
