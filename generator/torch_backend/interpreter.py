"""The Python that has a project's torch: which one that is, and asking it.

It is often not the one that runs this command, so it is asked in a process of its own, with a time limit: what crashes
or hangs there does not crash or hang here. The modules in ``inside/`` are what runs there; each has a generator
``report``, and they need nothing else of this package. What ``report`` yields comes back item by item, so all that a
process said before it died is known.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import UserError
from .project import Project

AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
INSIDE = Path(__file__).with_name("inside")

_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)(: |$)")
# The folder becomes a package without being on the path: nothing else there can be imported by accident.
_BOOTSTRAP = """\
import importlib, importlib.util, json, os, sys
out, folder, module, *arguments = sys.argv[1:]
init = os.path.join(folder, "__init__.py")
package = importlib.util.spec_from_file_location("inside", init, submodule_search_locations=[folder])
sys.modules["inside"] = importlib.util.module_from_spec(package)
report = importlib.import_module("inside." + module).report
with open(out, "a", encoding="utf-8") as file:
    for item in report(*arguments):
        print(json.dumps(item), file=file, flush=True)
"""


@dataclass(frozen=True)
class Outcome:
    """What came of asking.

    Attributes:
        items: what the module reported, in its order.
        failure: how the process ended if not well, a phrase such as "was ended by SIGSEGV"; empty if it ended well.
        errors: the end of what it wrote to its standard error.
    """

    items: list[Any]
    failure: str
    errors: str

    @property
    def crashed(self) -> bool:
        """True if the process ended otherwise than by its end or a Python exception."""
        return bool(self.failure) and "Traceback (most recent call last)" not in self.errors

    @property
    def reason(self) -> str:
        """What went wrong first: of chained exceptions the first one is the cause; without any, the last line."""
        lines = [line.strip() for line in self.errors.splitlines() if line.strip()]
        exception = next((line for line in lines if _EXCEPTION.match(line)), None)
        return exception or (lines[-1] if lines else "")


def find_python(project: Project | None = None, chosen: Path | None = None) -> Path:
    """The Python that is meant, whether or not it has all that is needed.

    It is the chosen one; else the first with a torch of the project's release series, among the one that runs this
    command, that of the active environment, and that of the project's ``.venv``; else the first of them with any torch;
    else the one that runs this command.

    Args:
        project: the project, if there is one.
        chosen: an interpreter, or the folder of a virtual environment.

    Raises:
        UserError: the chosen one is not there.
    """
    if chosen is not None:
        return _existing(chosen)
    with_torch: list[Path] = []
    for candidate in _candidates(project):
        found = _look_at(candidate, project, ["torch"])
        if not found.problem:
            return candidate
        if found.torch is not None:
            with_torch.append(candidate)
    return [*with_torch, Path(sys.executable)][0]


def require_python(project: Project, chosen: Path | None, modules: Sequence[str], purpose: str, install: str) -> Path:
    """The same Python, if it has torch of the project's release series, and other modules.

    Args:
        project: the project.
        chosen: an interpreter, or the folder of a virtual environment.
        modules: what it has to have beside torch.
        purpose: what it is needed for, the beginning of a sentence such as "Operators are looked up in".
        install: packages that bring those modules, beside torch, as pip is told.

    Raises:
        UserError: none is such; the text says of each why.
    """
    candidates = [_existing(chosen)] if chosen is not None else _candidates(project)
    problems = []
    for candidate in candidates:
        found = _look_at(candidate, project, ["torch", *modules])
        if not found.problem:
            return candidate
        problems.append(f"  {candidate}: {found.problem}")
    minor = _minor(project)
    raise UserError(
        "\n".join(
            [
                f"{purpose} an installed torch{f' {minor}' if minor else ''}, and there is none:",
                *problems,
                f'Install it there (pip install "torch=={minor or "2"}.*" {install}), '
                "or name an interpreter that has it with --python.",
            ]
        ),
        2,
    )


def _existing(chosen: Path) -> Path:
    python = _python_of(chosen) if chosen.is_dir() else chosen
    if not python.is_file() or not os.access(python, os.X_OK):
        raise UserError(f"{chosen} is not a Python interpreter: give the path of one, such as .venv/bin/python.", 2)
    return python.absolute()  # not resolved: the link in a virtual environment is what makes it one


def _candidates(project: Project | None) -> list[Path]:
    """The interpreters that may be meant if none is named, those that are there."""

    def environments() -> Iterator[Path]:
        for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
            if folder := os.environ.get(variable):
                yield Path(folder)
        if project is not None:
            yield project.root / ".venv"

    found = [python for folder in environments() if (python := _python_of(folder)).is_file()]
    return list(dict.fromkeys([Path(sys.executable), *found]))


@dataclass(frozen=True)
class _Found:
    """The version of an interpreter's torch (None without one), and what keeps it from being the one that is meant."""

    torch: str | None
    problem: str


def _look_at(python: Path, project: Project | None, modules: Sequence[str]) -> _Found:
    try:
        outcome = ask(python, "modules", *modules)
    except UserError as error:
        return _Found(None, str(error))
    if outcome.failure:
        return _Found(None, f"it {outcome.failure}: {outcome.reason}")
    versions: dict[str, str | None] = dict(outcome.items)
    torch, minor = versions["torch"], _minor(project)
    if missing := [name for name, version in versions.items() if version is None]:
        return _Found(torch, f"it has no module {missing[0]}")
    if torch and minor and not torch.startswith(f"{minor}."):
        return _Found(torch, f"torch {torch}, and the project is for {minor}")
    return _Found(torch, "")


def _minor(project: Project | None) -> str:
    return str(project.answers.get("torch_minor", "")) if project else ""


def _python_of(environment: Path) -> Path:
    """The interpreter of a virtual or conda environment."""
    places = ("Scripts/python.exe", "python.exe") if os.name == "nt" else ("bin/python",)
    return next((environment / place for place in places if (environment / place).is_file()), environment / places[0])


def ask(
    python: Path,
    module: str,
    *arguments: str,
    time_limit: float | None = 120,
    variables: Mapping[str, str | None] | None = None,
) -> Outcome:
    """Runs a module of ``inside/`` in a Python and waits for it.

    Args:
        python: the interpreter.
        module: its name.
        arguments: what its ``report`` takes.
        time_limit: in seconds; then the process is killed. None for no limit.
        variables: environment variables to set, or to take away where the value is None.

    Raises:
        UserError: the interpreter cannot be started.
    """
    environment = dict(os.environ)
    for name, value in (variables or {}).items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    # A folder of its own: nothing that lies about can be imported by accident, and core dumps go with it.
    with tempfile.TemporaryDirectory(prefix="torch-backend-") as name:
        folder = Path(name)
        out, log = folder / "out", folder / "log"
        command = [
            str(python),
            "-X",
            "faulthandler",
            "-c",
            _BOOTSTRAP,
            str(out),
            str(INSIDE),
            module,
            *arguments,
        ]
        try:
            # Into a file: a pipe stays open as long as any grandchild lives, whatever the time limit.
            with log.open("wb") as errors:
                done = subprocess.run(
                    command,
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    timeout=time_limit,
                    check=False,
                )
            failure = _describe(done.returncode)
        except subprocess.TimeoutExpired:
            failure = f"did not end within {time_limit:g} seconds and was killed"
        except OSError as error:
            raise UserError(f"{python} cannot be started: {error}.", 2) from error
        items = _read_items(out)
        text = log.read_text(encoding="utf-8", errors="replace")
    return Outcome(items, failure, text[-8000:])


def _describe(code: int) -> str:
    if code == 0:
        return ""
    if code < 0:
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"
    return f"ended with exit code {code}"


def _read_items(path: Path) -> list[Any]:
    """Reads what was reported; a last line that the process did not live to finish is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1]]
