"""The wheel of the command itself: the template travels with it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from .conftest import ROOT


def test_wheel_holds_the_template(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "installed")
    assert {"torch_backend/cli.py", "torch_backend/reserved_words.yml", "torch_backend/bundled/copier.yml"} <= names
    for path in (ROOT / "template").rglob("*"):
        if path.is_file():
            assert f"torch_backend/bundled/template/{path.relative_to(ROOT / 'template').as_posix()}" in names

    target = tmp_path / "project"
    code = "from torch_backend.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "new", str(target), "--defaults"],
        cwd=tmp_path / "installed",
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "", "PYTHONPATH": str(tmp_path / "installed")},
    )
    assert done.returncode == 0, done.stderr
    assert (target / "LICENSE").exists()
