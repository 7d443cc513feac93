"""The Python that knows the project's torch, and what it says of operators."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from torch_backend.errors import UserError
from torch_backend.project import Project

NO_SAMPLES = "--no-samples"

# Importing torch would take seconds.
CHECK = """
from importlib.metadata import version
from importlib.util import find_spec
missing = [name for name in ("torch", "torchgen", "yaml") if find_spec(name) is None]
if missing:
    raise SystemExit(f"it has no module {missing[0]}")
print(version("torch"))
"""


def choose(project: Project, wanted: Path | None) -> Path:
    """Returns an interpreter whose torch is of the project's release series.

    It is the one that is asked for; else the first that has torch among the one that runs this code, the activated
    environment, and the project's ``.venv``.

    Raises:
        UserError: none has it, or it is of another series.
    """
    if wanted is not None:
        candidates = [wanted]
    else:
        active = os.environ.get("VIRTUAL_ENV")
        folders = [Path(sys.prefix), *([Path(active)] if active else []), project.root / ".venv"]
        inside = Path("Scripts/python.exe" if os.name == "nt" else "bin/python")
        candidates = [Path(sys.executable), *(folder / inside for folder in folders[1:])]
    minor = str(project.answers.get("torch_minor", ""))
    problems = []
    for candidate in dict.fromkeys(candidates):
        version, problem = _torch_of(candidate)
        if version is None:
            problems.append(f"{candidate}: {problem}")
        elif minor and not version.startswith(f"{minor}."):
            problems.append(f"{candidate}: torch {version}, and the project is for {minor}")
        else:
            return candidate
    listing = "\n".join(f"  {problem}" for problem in problems)
    raise UserError(
        f"Operators are looked up in an installed torch{f' {minor}' if minor else ''}, and there is none:\n{listing}\n"
        f'Install it there (pip install "torch=={minor or "2"}.*" pyyaml), or name an interpreter that has it '
        "with --python.",
        2,
    )


def _torch_of(python: Path) -> tuple[str | None, str]:
    """Returns the version of torch, or None and what is in the way."""
    try:
        done = _run(python, "-c", CHECK)
    except OSError as error:
        return None, error.strerror or str(error)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["it cannot be run"]
        return None, lines[-1]
    return done.stdout.split()[-1], ""


def describe(python: Path, names: list[str]) -> dict[str, dict[str, Any]]:
    """Returns what torch says of operators, as ``schemas`` prints it.

    Raises:
        UserError: it could not be asked.
    """
    done = _ask(python, names)
    if _crashed(done):
        # Some of the CPU's kernels do not survive arguments that were made from a schema: leave those without samples.
        answers: dict[str, dict[str, Any]] = {}
        for name in names:
            done = _ask(python, [name])
            if _crashed(done):
                done = _ask(python, [NO_SAMPLES, name])
            answers |= _answers(python, done)
        return answers
    return _answers(python, done)


def _ask(python: Path, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return _run(python, "-m", "schemas", *arguments, path=str(Path(__file__).parent))


def _crashed(done: subprocess.CompletedProcess[str]) -> bool:
    return done.returncode != 0 and "Traceback" not in done.stderr


def _answers(python: Path, done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    if done.returncode != 0:
        raise UserError(f"The schemas of torch cannot be read with {python}:\n{done.stderr.strip()[-2000:]}", 2)
    answers: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])["operators"]
    return answers


def _run(python: Path, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """Runs an interpreter without the backends that are installed in it."""
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}}
    extra = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PYTHONIOENCODING": "utf-8"} | ({"PYTHONPATH": path} if path else {})
    return subprocess.run(
        [str(python), *arguments],
        env=kept | extra,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
