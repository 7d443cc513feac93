"""An installed torch-backend needs no checkout and no network to make projects, and its next version updates them."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from torch_backend.source import PACKAGED

from .conftest import answers_of, write_repository
from .running import IDENTITY, ROOT, checked, commit_all, git
from .versions import EVENT, STREAM

PACKAGING = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore", "migrations.yml", "CHANGELOG.md")


@dataclass(frozen=True)
class Installed:
    """A torch-backend in a folder of its own; its history names the repository that it was built from."""

    site: Path

    @property
    def bundle(self) -> Path:
        return self.site / "torch_backend" / "bundled" / "versions.bundle"

    def run(self, *arguments: str | Path, cwd: Path, code: int = 0) -> str:
        variables = IDENTITY | {"PYTHONPATH": str(self.site), "GIT_ALLOW_PROTOCOL": "file"}
        return checked(
            sys.executable, "-m", "torch_backend", *arguments, cwd=cwd, env=os.environ | variables, code=code
        )


def build(repository: Path, folder: Path, *, kind: str = "wheel") -> tuple[Path, str]:
    """Builds a wheel or an sdist, and returns it with what was printed."""
    printed = checked(
        *(sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", folder, "."), cwd=repository
    )
    (archive,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return archive, printed


def install(wheel: Path, site: Path) -> Installed:
    options = ("--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")
    checked(sys.executable, "-m", "pip", "install", *options, "--target", site, wheel, cwd=wheel.parent)
    return Installed(site)


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This repository with a small template, of which there are two versions."""
    root = write_repository(tmp_path_factory.mktemp("repository") / "template", small=True).source.root
    for name in PACKAGING:
        shutil.copy2(ROOT / name, root / name)
    shutil.copytree(ROOT / "generator", root / "generator", ignore=shutil.ignore_patterns("__pycache__"))
    package = root / "generator" / "torch_backend" / "__init__.py"
    package.write_text('"""The first."""\n\n__version__ = "1.0.0"\n')
    commit_all(root, "First version", tag="v1.0.0")
    package.write_text('"""The second."""\n\n__version__ = "1.1.0"\n')
    for name, text in ((STREAM, "// news for {{ device_name }}\n"), (EVENT, "// the template's last line\n")):
        with (root / "template" / f"{name}.jinja").open("a") as file:
            file.write(text)
    (root / "CHANGELOG.md").write_text("# Changes\n\n## 1.1.0\n\n- Faster streams.\n")
    commit_all(root, "Second version", tag="v1.1.0")
    return root


@pytest.fixture(scope="session")
def installed(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Installed]:
    """Both versions, installed from wheels."""
    folder = tmp_path_factory.mktemp("installed")
    found = {}
    for tag in ("v1.0.0", "v1.1.0"):
        clone = folder / f"clone-{tag}"
        git(folder, "clone", "--quiet", "--branch", tag, str(repository), str(clone))
        wheel, printed = build(clone, folder / f"wheel-{tag}")
        assert "cannot be updated" not in printed
        assert git(clone, "status", "--porcelain") == ""
        found[tag] = install(wheel, folder / f"site-{tag}")
    return found


@pytest.fixture
def project(installed: dict[str, Installed], tmp_path: Path) -> Path:
    """A project of the first version with edits of the vendor. One of them conflicts with the second version."""
    installed["v1.0.0"].run("new", "torch_zed", "--defaults", cwd=tmp_path)
    folder = tmp_path / "torch_zed"
    (folder / STREAM).write_text(f"// the vendor's line\n{(folder / STREAM).read_text()}")
    (folder / "csrc/aten/native/Add.cpp").write_text("// the vendor's kernel\n")
    commit_all(folder, "edits")
    return folder


def test_the_next_version_updates_a_project(installed: dict[str, Installed], project: Path) -> None:
    first, second = installed["v1.0.0"], installed["v1.1.0"]
    origin = answers_of(project)
    assert (origin["_commit"], origin["_src_path"]) == ("v1.0.0", PACKAGED)
    assert git(project, "log", "--format=%s").splitlines()[-1] == "Start from the template v1.0.0"
    assert "there is nothing to update" in first.run("update", cwd=project)

    moved = first.site.with_name("gone")
    first.site.rename(moved)  # the environment that made the project need not be there
    try:
        status = json.loads(second.run("update", "--check", "--json", cwd=project, code=1))
        assert (status["current"], status["latest"], status["newer"]) == ("v1.0.0", "v1.1.0", ["v1.1.0"])
        output = second.run("update", cwd=project)
    finally:
        moved.rename(first.site)
    assert "From v1.0.0 to v1.1.0" in output
    assert "- Faster streams." in output
    text = (project / STREAM).read_text()
    assert text.startswith("// the vendor's line\n")
    assert text.endswith("// news for zed\n")
    assert (project / "csrc/aten/native/Add.cpp").read_text() == "// the vendor's kernel\n"
    origin = answers_of(project)
    assert (origin["_commit"], origin["_src_path"]) == ("v1.1.0", PACKAGED)
    commit_all(project, "updated")
    assert "Files:" in second.run("remove-feature", "benchmarks", cwd=project)
    git(project, "reset", "--quiet", "--hard")
    assert "Install a newer torch-backend" in first.run("update", cwd=project, code=2), "and no way back"


def test_without_tags_each_commit_is_a_version(repository: Path, tmp_path: Path) -> None:
    """A later package updates a project to the commit that the package renders."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--no-tags", str(repository), str(clone))
    newest = git(clone, "rev-parse", "--short", "HEAD").strip()
    later = install(build(clone, tmp_path / "wheel-later")[0], tmp_path / "later")
    git(clone, "checkout", "--quiet", "HEAD~1")
    earlier = install(build(clone, tmp_path / "wheel-earlier")[0], tmp_path / "earlier")

    earlier.run("new", "torch_zed", "--defaults", cwd=tmp_path)
    project = tmp_path / "torch_zed"
    first = answers_of(project)["_commit"]
    assert first == git(clone, "rev-parse", "--short", "HEAD").strip()
    assert "there is nothing to update" in earlier.run("update", cwd=project)
    shutil.rmtree(earlier.site)
    assert f"newer: {newest} (1.1.0)" in later.run("update", "--check", cwd=project, code=1)
    output = later.run("update", cwd=project)
    assert f"to {newest} (1.1.0) of the template." in output
    assert "- Faster streams." in output
    assert (project / STREAM).read_text().endswith("// news for zed\n")
    origin = answers_of(project)
    assert (origin["_commit"], origin["_src_path"]) == (newest, PACKAGED)
    git(project, "reset", "--quiet", "--hard")

    answers = project / ".copier-answers.yml"
    answers.write_text(answers.read_text().replace(PACKAGED, str(later.bundle)))
    commit_all(project, "an address that copier understands")
    checked(sys.executable, "-m", "copier", "update", "--defaults", "--quiet", cwd=project)
    assert answers_of(project)["_commit"] == newest


def test_a_project_that_records_a_path_is_updated(installed: dict[str, Installed], project: Path) -> None:
    """Older projects record the path of the bundle in the environment that made them."""
    answers = project / ".copier-answers.yml"
    answers.write_text(answers.read_text().replace(PACKAGED, "/gone/site/torch_backend/bundled/versions.bundle"))
    commit_all(project, "made by an older torch-backend")
    assert "From v1.0.0 to v1.1.0" in installed["v1.1.0"].run("update", cwd=project)
    assert answers_of(project)["_src_path"] == PACKAGED


def test_a_checkout_updates_a_project_of_a_package(
    installed: dict[str, Installed], repository: Path, project: Path
) -> None:
    checkout = Installed(repository / "generator")
    assert "From v1.0.0 to v1.1.0" in checkout.run("update", cwd=project)
    assert answers_of(project)["_src_path"] == PACKAGED


def test_plain_copier_shows_what_to_do(project: Path) -> None:
    shown = checked(sys.executable, "-m", "copier", "update", "--defaults", cwd=project, code=1)
    address = PACKAGED.removeprefix("git+")
    assert f"fatal: '{address}' does not appear to be a git repository" in shown
    assert "torch-backend update" in address


def test_an_installed_package_has_no_commands_for_the_template(installed: dict[str, Installed], tmp_path: Path) -> None:
    package = installed["v1.1.0"]
    listed = re.findall(r"^  ([a-z-]+)  ", package.run("--help", cwd=tmp_path).split("Commands:")[1], re.MULTILINE)
    assert not {"demo", "render-example", "check-example", "backport", "lint-template"} & set(listed)
    assert {"new", "update", "add-feature", "remove-feature", "add-op", "doctor", "status", "list-ops"} <= set(listed)
    for command in ("demo", "render-example", "check-example", "backport", "lint-template", "format-cpp", "reserved"):
        shown = package.run(command, "--folder", "x", cwd=tmp_path, code=2)
        assert shown.startswith(f"`torch-backend {command}` works on the template itself, and this torch-backend is ")
        assert "clone the repository" in shown
    assert not list(tmp_path.iterdir())


def test_conflicts_are_shown(installed: dict[str, Installed], project: Path) -> None:
    (project / EVENT).write_text(f"{(project / EVENT).read_text()}// the vendor's last line\n")
    commit_all(project, "another edit")
    output = installed["v1.1.0"].run("update", cwd=project, code=1)
    assert f"  {EVENT}: edited on both sides" in output
    assert "=======" in (project / EVENT).read_text()


def test_plain_copier_updates_from_package_and_address(
    installed: dict[str, Installed], repository: Path, project: Path
) -> None:
    """It updates from the package, and from the git repository if the project records its address."""
    second = installed["v1.1.0"]
    answers = project / ".copier-answers.yml"
    by_command = project.with_name("by_command")
    shutil.copytree(project, by_command)
    second.run("update", "--template", repository, cwd=by_command)
    assert answers_of(by_command)["_src_path"] == str(repository)
    for address in (second.bundle, repository):
        answers.write_text(answers.read_text().replace(str(answers_of(project)["_src_path"]), str(address)))
        commit_all(project, "the template has moved")
        checked(sys.executable, "-m", "copier", "update", "--defaults", "--quiet", cwd=project)
        assert answers_of(project)["_commit"] == "v1.1.0"
        assert (project / STREAM).read_text() == (by_command / STREAM).read_text()
        git(project, "reset", "--quiet", "--hard", "HEAD")


def test_new_gives_what_copier_copy_gives(installed: dict[str, Installed], repository: Path, tmp_path: Path) -> None:
    second = installed["v1.1.0"]
    second.run("new", "made", "--defaults", "--vendor-name", "Zed", "--features", "docs", "--no-git", cwd=tmp_path)
    data = ("--data", "vendor_name=Zed", "--data", "features=[docs]")
    copier = (sys.executable, "-m", "copier", "copy", "--defaults", "--quiet", *data)
    checked(*copier, repository, tmp_path / "copied", cwd=tmp_path)
    for folder, address in (("made", PACKAGED), ("copied", repository)):
        answers = tmp_path / folder / ".copier-answers.yml"
        assert f"_src_path: {address}\n" in answers.read_text()
        answers.write_text(answers.read_text().replace(str(address), "ADDRESS"))
    assert checked("diff", "--recursive", "made", "copied", cwd=tmp_path) == ""


def test_ref_renders_an_older_version(installed: dict[str, Installed], tmp_path: Path) -> None:
    second = installed["v1.1.0"]
    second.run("new", "torch_zed", "--defaults", "--ref", "v1.0.0", cwd=tmp_path)
    origin = answers_of(tmp_path / "torch_zed")
    assert (origin["_commit"], origin["_src_path"]) == ("v1.0.0", PACKAGED)
    assert "news" not in (tmp_path / "torch_zed" / STREAM).read_text()
    assert "From v1.0.0 to v1.1.0" in second.run("update", cwd=tmp_path / "torch_zed")


def test_a_public_address_is_what_projects_record(repository: Path, tmp_path: Path) -> None:
    """If the package knows the project's version, the package updates it; otherwise the address does."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(repository), str(clone))
    git(clone, "remote", "set-url", "origin", "https://zoe:secret@example.com/acme/template.git")
    package = install(build(clone, tmp_path / "wheel")[0], tmp_path / "site")
    package.run("new", "torch_zed", "--defaults", "--ref", "v1.0.0", cwd=tmp_path)
    project = tmp_path / "torch_zed"
    assert answers_of(project)["_src_path"] == "https://example.com/acme/template.git"
    assert "From v1.0.0 to v1.1.0" in package.run("update", cwd=project)
    assert answers_of(project)["_src_path"] == "https://example.com/acme/template.git"
    git(project, "reset", "--quiet", "--hard")
    answers = project / ".copier-answers.yml"
    answers.write_text(answers.read_text().replace("v1.0.0", "v7.0.0"))
    commit_all(project, "a version that the package does not know")
    assert "https://example.com/acme/template.git cannot be read" in package.run("update", cwd=project, code=2)


def test_versions_travel_through_an_sdist(repository: Path, installed: dict[str, Installed], tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(repository), str(clone))
    archive, _ = build(clone, tmp_path / "sdist", kind="sdist")
    shutil.unpack_archive(archive, tmp_path / "unpacked", filter="data")
    (root,) = (tmp_path / "unpacked").iterdir()
    package = install(build(root, tmp_path / "wheel")[0], tmp_path / "site")
    package.run("new", "torch_zed", "--defaults", cwd=tmp_path)
    origin = answers_of(tmp_path / "torch_zed")
    assert (origin["_commit"], origin["_src_path"]) == ("v1.1.0", PACKAGED)
    assert package.bundle.read_bytes() == installed["v1.1.0"].bundle.read_bytes()


def test_a_build_from_something_else_says_what_is_missing(repository: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(repository), str(clone))
    (clone / "template" / "README.md.jinja").write_text("an edit\n")
    wheel, printed = build(clone, tmp_path / "wheel")
    assert "cannot be updated by the next: the template has changes that are not committed" in printed
    package = install(wheel, tmp_path / "site")
    assert not package.bundle.exists()
    assert "cannot update it" in package.run("new", "torch_zed", "--defaults", cwd=tmp_path)
    origin = answers_of(tmp_path / "torch_zed")
    assert (origin.get("_commit"), origin["_src_path"]) == (None, PACKAGED)
    with (tmp_path / "torch_zed" / ".copier-answers.yml").open("a") as answers:
        answers.write("_commit: v1.0.0\n")
    commit_all(tmp_path / "torch_zed", "as if another package had made it")
    refused = package.run("update", cwd=tmp_path / "torch_zed", code=2)
    assert "this one contains no versions of the template" in refused
    assert "has no versions" in package.run("new", "other", "--defaults", "--ref", "v1.0.0", cwd=tmp_path, code=2)
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repository}", str(shallow))
    assert "the checkout is shallow" in build(shallow, tmp_path / "shallow-wheel")[1]
