"""`make examples` and `make examples-check`."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from torch_backend.errors import UserError
from torch_backend.maintenance.example import Example

from .running import commit_all

TEMPLATE_FILE = Path("csrc") / "runtime" / "Stream.h.jinja"
EXAMPLE_FILE = Path("csrc") / "runtime" / "Stream.h"


def _edit(path: Path, text: str = "// an edit\n") -> None:
    path.write_text(path.read_text() + text)


def test_the_rendered_example_has_no_drift(scratch: Example) -> None:
    assert scratch.check() == ""
    sync = scratch.render()
    assert (sync.written, sync.removed) == ([], [])


def test_nothing_in_the_example_tells_where_it_was_rendered(example: Example) -> None:
    text = (example.folder / ".copier-answers.yml").read_text()
    assert "_commit" not in text
    assert "_src_path" not in text


def test_drift_gives_a_readable_diff(scratch: Example) -> None:
    _edit(scratch.folder / EXAMPLE_FILE)
    (scratch.folder / "new.txt").write_text("new\n")
    (scratch.folder / "LICENSE").unlink()
    difference = scratch.check()
    assert "-// an edit" in difference
    assert "only in example: new.txt" in difference
    assert "only in template, rendered: LICENSE" in difference


def test_lost_run_bit_is_drift(scratch: Example) -> None:
    path = scratch.folder / EXAMPLE_FILE
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    assert "run bit set in example" in scratch.check()


def test_only_changed_files_are_written(scratch: Example) -> None:
    scratch.render()
    for path in scratch.folder.rglob("*"):
        os.utime(path, (1, 1))
    _edit(scratch.source.template / TEMPLATE_FILE)
    assert scratch.render().written == [EXAMPLE_FILE.as_posix()]
    touched = [p for p in scratch.folder.rglob("*") if p.is_file() and p.stat().st_mtime != 1]
    assert touched == [scratch.folder / EXAMPLE_FILE]
    assert scratch.check() == ""


def test_files_no_longer_rendered_go_and_build_outputs_stay(scratch: Example) -> None:
    scratch.render()
    output = scratch.folder / "build" / "Stream.o"
    output.parent.mkdir()
    output.write_text("")
    (scratch.source.template / TEMPLATE_FILE).unlink()
    assert scratch.render().removed == [EXAMPLE_FILE.as_posix()]
    assert not (scratch.folder / EXAMPLE_FILE).exists()
    assert output.exists()


def test_edits_are_not_overwritten(scratch: Example) -> None:
    commit_all(scratch.source.root, "start")
    _edit(scratch.folder / EXAMPLE_FILE)
    with pytest.raises(UserError, match="make backport"):
        scratch.render()
    assert "an edit" in (scratch.folder / EXAMPLE_FILE).read_text()
    assert scratch.render(force=True).written == [EXAMPLE_FILE.as_posix()]
    assert scratch.check() == ""


def test_committed_files_may_be_overwritten(scratch: Example) -> None:
    commit_all(scratch.source.root, "start")
    _edit(scratch.source.template / TEMPLATE_FILE)
    assert scratch.render().written == [EXAMPLE_FILE.as_posix()]
    _edit(scratch.source.template / TEMPLATE_FILE, "// another\n")
    assert scratch.render().written == [EXAMPLE_FILE.as_posix()]
