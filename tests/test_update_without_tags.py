"""`torch-backend update` of a template that has no tags: each commit is a version."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import answers_of
from .running import commit_all, git
from .test_cli import run
from .versions import STREAM, Template, edit, originals, project, template

__all__ = ["originals", "project", "template"]

CHANGELOG = "# Changes\n\n## 1.1.0 (not released yet)\n\n- Slow streams.\n\n## 1.0.0\n\n- Zero.\n"


@pytest.fixture
def first(template: Template, project: Path) -> str:
    """Removes the tag, and returns the commit that the project records instead."""
    git(template.root, "tag", "--delete", "v1.0.0")
    template.write("CHANGELOG.md", CHANGELOG)
    commit_all(template.root, "changelog")
    commit = git(template.root, "describe", "--always").strip()
    answers = (project / ".copier-answers.yml").read_text(encoding="utf-8")
    # In quotes, as copier writes it: YAML takes a commit of digits alone for a number.
    edit(project, ".copier-answers.yml", answers.replace("v1.0.0", f"'{commit}'"))
    return commit


def _news(template: Template) -> str:
    template.append(f"template/{STREAM}.jinja", "// news\n")
    template.write("CHANGELOG.md", CHANGELOG.replace("streams.\n", "streams.\n- Faster\n  streams.\n"))
    commit_all(template.root, "news")
    return git(template.root, "describe", "--always").strip()


def test_an_update_goes_to_the_newest_commit_of_the_branch(template: Template, project: Path, first: str) -> None:
    same = run("update", "--check", "--project", str(project))
    label = "(1.1.0, not released yet)"
    assert (same.exit_code, same.output) == (0, f"The project is at {first} {label}; there is no newer version.\n")
    second = _news(template)
    check = run("update", "--check", "--project", str(project))
    assert check.output == f"The project is at {first} {label}; newer: {second} {label}. Run `torch-backend update`.\n"
    status = json.loads(run("update", "--check", "--json", "--project", str(project)).output)
    assert (status["current"], status["latest"], status["newer"]) == (first, second, [second])
    assert status["labels"] == {first: f"{first} {label}", second: f"{second} {label}"}
    assert "Nothing was changed." in run("update", "--dry-run", "--project", str(project)).output

    done = run("update", "--project", str(project))
    assert done.exit_code == 0, done.output
    assert f"From {first} {label} to {second} {label} of the template." in done.output
    assert "1.1.0 (not released yet):\n\n- Faster\n  streams.\n" in done.output
    assert "Slow" not in done.output, "the project had that already"
    assert "Zero" not in done.output
    assert (project / STREAM).read_text().endswith("// news\n")
    assert answers_of(project)["_commit"] == second


def test_plain_copier_updates_to_the_newest_commit(template: Template, project: Path, first: str) -> None:
    second = _news(template)
    command = [sys.executable, "-m", "copier", "update", "--defaults", "--quiet", str(project)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert answers_of(project)["_commit"] == second
    assert (project / STREAM).read_text().endswith("// news\n")


def test_a_project_stays_on_its_branch(template: Template, project: Path, first: str) -> None:
    git(template.root, "checkout", "--quiet", "-b", "stable")
    stable = _news(template)
    edit(project, ".copier-answers.yml", (project / ".copier-answers.yml").read_text().replace(first, stable))
    later = template.root / "template" / "LATER.md"
    later.write_text("Later.\n")
    commit_all(template.root, "later")
    git(template.root, "checkout", "--quiet", "main")
    template.write("template/MAIN.md", "Main.\n")
    commit_all(template.root, "main goes on")
    assert run("update", "--project", str(project)).exit_code == 0
    assert (project / "LATER.md").exists()
    assert not (project / "MAIN.md").exists()


def test_an_ambiguous_branch_is_refused(template: Template, project: Path, first: str) -> None:
    git(template.root, "checkout", "--quiet", "-b", "one")
    second = _news(template)
    edit(project, ".copier-answers.yml", (project / ".copier-answers.yml").read_text().replace(first, second))
    git(template.root, "branch", "two")
    git(template.root, "checkout", "--quiet", "main")
    several = run("update", "--project", str(project))
    assert several.exit_code == 2
    assert f"several of its branches hold {second} (one, two): name the branch or the commit" in several.output
    git(template.root, "tag", "kept", "one")
    git(template.root, "branch", "--delete", "--force", "one", "two")
    assert f"none of its branches holds {second}" in run("update", "--project", str(project)).output
    assert run("update", "--ref", "kept", "--project", str(project)).exit_code == 0


def test_a_repository_with_a_detached_head_works(template: Template, project: Path, first: str) -> None:
    second = _news(template)
    git(template.root, "checkout", "--quiet", "--detach")
    git(template.root, "branch", "--delete", "--force", "main")
    assert run("update", "--project", str(project)).exit_code == 0
    assert answers_of(project)["_commit"] == second


@pytest.mark.parametrize("form", ["{}", "0.0.0.post2.dev0+{}", "0.0.0.post47+g{}"])
def test_each_form_of_a_recorded_commit_is_understood(template: Template, project: Path, first: str, form: str) -> None:
    whole = git(template.root, "rev-parse", first).strip()
    for commit in (whole, first):
        text = (project / ".copier-answers.yml").read_text().replace(str(answers_of(project)["_commit"]), "COMMIT")
        edit(project, ".copier-answers.yml", text.replace("COMMIT", form.format(commit)))
        assert "there is nothing to update" in run("update", "--project", str(project)).output


def test_tags_are_used_as_soon_as_there_are_any(template: Template, project: Path, first: str) -> None:
    _news(template)
    git(template.root, "tag", "v1.1.0")
    template.write("template/LATER.md", "Later.\n")
    commit_all(template.root, "later")
    done = run("update", "--project", str(project))
    assert done.exit_code == 0, done.output
    assert "(1.1.0, not released yet) to v1.1.0 of the template." in done.output
    assert "- Faster\n  streams.\n" in done.output
    assert answers_of(project)["_commit"] == "v1.1.0"
    assert not (project / "LATER.md").exists()
