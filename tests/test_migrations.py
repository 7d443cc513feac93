"""migrations.yml: a template version renames paths, questions and words of older projects."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from torch_backend.errors import UserError
from torch_backend.lifecycle import migrations
from torch_backend.lifecycle.changelog import sections

from .conftest import answers_of
from .running import ROOT, commit_all, git
from .template_renames import why_no_history, without_migration
from .test_cli import run
from .versions import Template, edit, originals, project, template

__all__ = ["originals", "project", "template"]

EVENT = "csrc/runtime/Event.h"

MIGRATIONS = """
- version: "1.1.0"
  renames:
    csrc/runtime/Event.h: csrc/runtime/DeviceEvent.h
    "python/{{ package_name }}/{{ device_name }}": "python/{{ package_name }}/device"
  answers:
    author: maintainer
  note: Rebuild from scratch.
"""


def _second_version(template: Template) -> None:
    """Replaces files by short ones without a common line. git alone would not see that they are renamed."""
    git(template.root, "rm", "--quiet", f"template/{EVENT}.jinja")
    template.write(
        "template/csrc/runtime/DeviceEvent.h.jinja", "#pragma once\nnamespace {{ device_name }} {}\n// news\n"
    )
    old = template.root / "template" / "python" / "{{ package_name }}"
    (old / "{{ device_name }}").rename(old / "device")
    config = (template.root / "copier.yml").read_text().replace("\nauthor:\n", "\nmaintainer:\n")
    config = config.replace("text(author)", "text(maintainer)").replace("{{ author |", "{{ maintainer |")
    template.write("copier.yml", config)
    for path in (template.root / "template").glob("*LICENSE*"):
        path.write_text(path.read_text().replace("{{ author }}", "{{ maintainer }}"))
    template.write("migrations.yml", MIGRATIONS)
    template.release("v1.1.0")


def test_edits_and_answers_move_along(template: Template, project: Path) -> None:
    edit(project, EVENT, "#pragma once\n#include <mine>\nnamespace zed {}\n")
    edit(project, "python/torch_zed/zed/mine.py", "mine = 1\n")
    edit(project, ".copier-answers.yml", (project / ".copier-answers.yml").read_text().replace("Zed developers", "Zoe"))
    edit(project, "LICENSE", (project / "LICENSE").read_text().replace("Zed developers", "Zoe"))
    _second_version(template)
    result = run("update", "--project", str(project), "--defaults")
    assert result.exit_code == 0, result.output
    assert "Note: Rebuild from scratch." in result.output
    assert not (project / EVENT).exists()
    moved = (project / "csrc/runtime/DeviceEvent.h").read_text()
    assert moved == "#pragma once\n#include <mine>\nnamespace zed {}\n// news\n"
    assert (project / "python/torch_zed/device/mine.py").read_text() == "mine = 1\n"
    assert not (project / "python/torch_zed/zed").exists()
    answers = answers_of(project)
    assert answers["maintainer"] == "Zoe"
    assert "author" not in answers

    commit_all(project, "updated")
    template.append("template/README.md.jinja", "\nNews.\n")
    template.release("v1.2.0")
    later = run("update", "--project", str(project))
    assert later.exit_code == 0, later.output
    assert "Note:" not in later.output, "each migration is for one version"


def test_plain_copier_updates_without_trust(template: Template, project: Path) -> None:
    _second_version(template)
    command = [sys.executable, "-m", "copier", "update", "--defaults", "--quiet", str(project)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert (project / "csrc/runtime/DeviceEvent.h").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: 1", "must hold a list"),
        ("- renames: {a: b}", "an entry has a version"),
        ('- version: "1.0.0"\n  run: rm', "an entry has a version"),
        ('- version: "1.0.0"\n  renames: [a]', "an entry has a version"),
        ("- [", "cannot be read"),
    ],
)
def test_entries_of_a_wrong_form_are_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        migrations.parse(text)


@pytest.mark.parametrize(
    "path", ["../outside", "a/../../b", "/", ".git/hooks/x", "{{ no_such_name }}", "{{ ''.__class__ }}"]
)
def test_paths_do_not_lead_out_of_the_project(path: str) -> None:
    text = yaml.safe_dump([{"version": "1.0.0", "renames": {"README.md": path}}])
    with pytest.raises(UserError, match=r"version 1\.0\.0"):
        migrations.renames({}, migrations.parse(text))


def test_versions_are_taken_in_order() -> None:
    steps = migrations.parse('[{version: "1.10.0", renames: {b: c}}, {version: "1.9.0", renames: {a: b}}]')
    pairs = migrations.renames({}, steps)
    assert [migrations.rename(path, pairs) for path in ("a", "a/x", "ab", "b", "d")] == ["c", "c/x", "ab", "c", "d"]


def test_this_template_has_a_readable_file() -> None:
    steps = migrations.parse((ROOT / migrations.FILE).read_text(encoding="utf-8"))
    top, *older = sections((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert top.version is not None, "the top section names the version that commits lead to"
    assert {step.version for step in steps} <= {section.version for section in (top, *older)}


def test_every_renamed_file_of_the_template_has_a_migration() -> None:
    if reason := why_no_history():
        pytest.skip(reason)
    assert without_migration() == []


def test_what_the_old_version_asked_for_is_not_done_again() -> None:
    """Items of an entry that grew or changed its version are not repeated. A rename to and fro counts each time."""
    seen = migrations.parse('[{version: "1.0.0", renames: {a: b, b: a}, features: [x], note: Build.}]')
    text = """
- {version: "1.1.0", renames: {a: b, b: a, c: d}, features: [x, y], note: Build.}
- {version: "1.2.0", renames: {a: b}, replacements: {old: new}}
"""
    first, second = migrations.beyond(migrations.parse(text), seen)
    assert (first.renames, first.features, first.note) == ({"c": "d"}, ["y"], "")
    assert (second.renames, second.replacements) == ({"a": "b"}, {"old": "new"})
    assert list(migrations.beyond(seen, seen)) == []


def test_what_has_become_optional_stays() -> None:
    steps = migrations.parse('[{version: "1.0.0", features: [graphs, docs]}]')
    assert migrations.migrate_answers({"features": ["docs"]}, steps) == {"features": ["docs", "graphs"]}


def test_the_vendors_text_gets_the_new_names() -> None:
    steps = migrations.parse("""
- version: "1.0.0"
  renames: {csrc/a/Old.h: csrc/b/New.h, csrc/a: csrc/b}
  replacements: {"a::": "b::", "a::Old": "b::New", old: older}
- version: "1.1.0"
  replacements: {older: oldest}
""")
    rewrite = migrations.rewriter({}, steps)
    text = '#include "a/Old.h"\n  # include "a/X.h"\n#include <a/X.h>\na::f(old_, old); a::Old; aa::f; x.old\n'
    changed, what = rewrite(text)
    assert changed == (
        '#include "b/New.h"\n  # include "b/X.h"\n#include <a/X.h>\nb::f(old_, oldest); b::New; aa::f; x.oldest\n'
    )
    assert what["old", "oldest"] == 2
    assert what["a/Old.h", "b/New.h"] == 1
    assert rewrite("nothing\n") == ("nothing\n", {})
