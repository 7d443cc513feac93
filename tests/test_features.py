"""`torch-backend add-feature` and `remove-feature` on a project that a vendor has edited."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch_backend.source import Source

from .conftest import answers_of, render_into, write_repository
from .running import ROOT, commit_all, git
from .test_cli import run
from .versions import STREAM, Template, edit, originals, snapshot, template

__all__ = ["originals", "template"]


@pytest.fixture
def project(template: Template, tmp_path: Path) -> Path:
    """A project with documentation and without benchmarks, edited by its vendor, and a newer template."""
    template.write("template/{% if 'docs' in features %}docs{% endif %}/index.md.jinja", "# {{ vendor_name }}\n")
    template.write("template/{% if 'docs' in features %}docs{% endif %}/porting.md", "Port it.\n")
    template.append("template/README.md.jinja", "\n{% if 'docs' in features %}\nSee docs/.\n{% endif %}\n")
    template.release("v1.1.0")
    folder = render_into(Source(template.root), tmp_path / "torch_zed", vendor_name="Zed", features=["docs"])
    commit_all(folder, "rendered")
    edit(folder, STREAM, "the vendor's\n")
    template.append(f"template/{STREAM}.jinja", "// news\n")
    template.release("v1.2.0")
    return folder


def test_adding_a_feature_adds_its_files(project: Path) -> None:
    result = run("add-feature", "benchmarks", "docs", "--project", str(project))
    assert result.exit_code == 0, result.output
    assert "The project already has docs." in result.output
    assert "Files: 1 changed, 1 added." in result.output
    assert 'git commit -m "Add benchmarks"' in result.output
    assert (project / "benchmarks" / "run.py").read_text() == "print()\n"
    assert (project / STREAM).read_text() == "the vendor's\n"
    answers = answers_of(project)
    assert (answers["features"], answers["_commit"]) == (["benchmarks", "docs"], "v1.1.0"), "at the same version"
    assert git(project, "status", "--porcelain") == " M .copier-answers.yml\n?? benchmarks/\n"


def test_removing_a_feature_keeps_the_vendors_files(project: Path) -> None:
    edit(project, "docs/mine.md", "# Mine\n")
    result = run("remove-feature", "docs", "--project", str(project))
    assert result.exit_code == 0, result.output
    assert "These are yours and stay: docs/mine.md." in result.output
    assert [path.name for path in (project / "docs").iterdir()] == ["mine.md"]
    assert "See docs/" not in (project / "README.md").read_text()
    assert answers_of(project)["features"] == []


def test_removing_and_adding_gives_the_same_project(project: Path) -> None:
    before = snapshot(project)
    assert run("remove-feature", "docs", "--project", str(project)).exit_code == 0
    assert not (project / "docs").exists()
    commit_all(project, "removed")
    assert run("add-feature", "docs", "--project", str(project)).exit_code == 0
    commit_all(project, "added")
    after = snapshot(project)
    assert after.pop("git log") != before.pop("git log")
    assert after == before


def test_edited_files_are_not_removed_unasked(project: Path) -> None:
    edit(project, "docs/index.md", "# Zed\n\nOur words.\n")
    before = snapshot(project)
    refused = run("remove-feature", "docs", "--project", str(project))
    assert refused.exit_code == 1
    assert "You have edited these files, which would be removed:\n  docs/index.md\n" in refused.output
    assert "--force" in refused.output
    assert snapshot(project) == before

    tried = run("remove-feature", "docs", "--force", "--dry-run", "--project", str(project))
    assert tried.exit_code == 0
    assert "-Our words." in tried.output
    assert snapshot(project) == before

    forced = run("remove-feature", "docs", "--force", "--project", str(project))
    assert forced.exit_code == 0, forced.output
    assert "Removed, although you had edited them (git still has them): docs/index.md." in forced.output
    assert not (project / "docs").exists()


def test_a_file_of_the_vendor_at_the_same_place_is_a_conflict(project: Path) -> None:
    edit(project, "benchmarks/run.py", "the vendor's\n")
    result = run("add-feature", "benchmarks", "--project", str(project))
    assert result.exit_code == 1
    assert "  benchmarks/run.py: added on both sides" in result.output
    assert "the vendor's\n" in (project / "benchmarks" / "run.py").read_text()


def test_adding_a_present_or_removing_an_absent_feature_changes_nothing(project: Path) -> None:
    before = snapshot(project)
    there = run("add-feature", "docs", "--project", str(project))
    assert (there.exit_code, there.output) == (0, "The project already has docs.\n")
    missing = run("remove-feature", "benchmarks", "--project", str(project))
    assert (missing.exit_code, missing.output) == (0, "The project does not have benchmarks.\n")
    assert snapshot(project) == before


@pytest.mark.parametrize("command", ["add-feature", "remove-feature"])
def test_an_unknown_feature_is_refused_with_a_suggestion(project: Path, command: str) -> None:
    before = snapshot(project)
    near = run(command, "benchmark", "--project", str(project))
    assert near.exit_code == 2
    assert "no feature benchmark in version v1.1.0: did you mean benchmarks? It has benchmarks, docs" in near.output
    assert "no feature xyz in version v1.1.0. It has" in run(command, "xyz", "--project", str(project)).output
    assert snapshot(project) == before


def test_a_work_tree_with_edits_is_refused(project: Path) -> None:
    (project / "mine.txt").write_text("mine\n")
    result = run("add-feature", "benchmarks", "--project", str(project))
    assert result.exit_code == 2
    assert "?? mine.txt" in result.output
    assert not (project / "benchmarks").exists()


def test_a_capability_goes_and_comes_back(tmp_path: Path) -> None:
    """This test uses the whole template, because graph capture and sharing have files in many folders."""
    source = write_repository(tmp_path / "template", small=False).source
    commit_all(source.root, "First version", tag="v1.0.0")
    project = render_into(source, tmp_path / "torch_zed", vendor_name="Zed")
    commit_all(project, "rendered")
    before = snapshot(project)
    removed = run("remove-feature", "graphs", "sharing", "--project", str(project))
    assert removed.exit_code == 0, removed.output
    kept = ["benchmarks", "docs", "github"]
    minimal = render_into(source, tmp_path / "minimal" / "torch_zed", vendor_name="Zed", features=kept)
    commit_all(minimal, "rendered")
    files, expected = snapshot(project), snapshot(minimal)
    for name in (".copier-answers.yml", "git status", "git log"):
        del files[name], expected[name]
    assert files == expected
    commit_all(project, "removed")
    assert run("add-feature", "sharing", "graphs", "--project", str(project)).exit_code == 0
    commit_all(project, "added")
    after = snapshot(project)
    assert after.pop("git log") != before.pop("git log")
    assert after == before


def test_an_update_keeps_what_became_a_feature(template: Template, tmp_path: Path) -> None:
    """A project that is older than the choice has the files but no answer for them."""
    choices = "".join(line for line in _config_lines(template) if not line.strip().endswith((": graphs", ": sharing")))
    new = (template.root / "copier.yml").read_text(encoding="utf-8")
    template.write("copier.yml", choices.replace(", graphs, sharing]", "]"))
    template.write("migrations.yml", "[]\n")
    template.write("template/csrc/graph/Graph.h", "#pragma once\n")
    template.release("v1.1.0")
    project = render_into(Source(template.root), tmp_path / "torch_zed", vendor_name="Zed")
    commit_all(project, "rendered")
    assert answers_of(project)["features"] == ["benchmarks", "docs", "github"]
    edit(project, "csrc/graph/Graph.h", "#pragma once\n// the vendor's\n")

    template.write("copier.yml", new)
    template.write("migrations.yml", (ROOT / "migrations.yml").read_text(encoding="utf-8"))
    git(template.root, "mv", "template/csrc/graph", "template/csrc/{% if 'graphs' in features %}graph{% endif %}")
    template.release("v1.2.0")
    updated = run("update", "--project", str(project), "--defaults")
    assert updated.exit_code == 0, updated.output
    assert answers_of(project)["features"] == ["benchmarks", "docs", "github", "graphs", "sharing"]
    assert "the vendor's" in (project / "csrc/graph/Graph.h").read_text()

    commit_all(project, "updated")
    assert run("remove-feature", "graphs", "--force", "--project", str(project)).exit_code == 0
    commit_all(project, "removed")
    template.append("template/README.md.jinja", "\nNews.\n")
    template.release("v1.3.0")
    assert run("update", "--project", str(project), "--defaults").exit_code == 0
    assert "graphs" not in answers_of(project)["features"], "declined after the choice was there"


def _config_lines(template: Template) -> list[str]:
    return (template.root / "copier.yml").read_text(encoding="utf-8").splitlines(keepends=True)
