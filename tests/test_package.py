"""The wheel of the command contains the template."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

from .running import ROOT, checked


def test_wheel_holds_the_template(tmp_path: Path) -> None:
    checked(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "installed")
    assert {path.relative_to(ROOT / "generator").as_posix() for path in (ROOT / "generator").rglob("*.py")} <= names
    assert {"torch_backend/maintenance/reserved_words.yml", "torch_backend/bundled/copier.yml"} <= names
    for path in (ROOT / "template").rglob("*"):
        if path.is_file():
            assert f"torch_backend/bundled/template/{path.relative_to(ROOT / 'template').as_posix()}" in names

    target = tmp_path / "project"
    code = "from torch_backend.cli import main; main()"
    installed = tmp_path / "installed"
    env = {"PATH": "", "PYTHONPATH": str(installed)}
    checked(sys.executable, "-c", code, "new", target, "--defaults", cwd=installed, env=env)
    assert (target / "LICENSE").exists()
