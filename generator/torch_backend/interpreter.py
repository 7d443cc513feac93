"""Finds the Python that has a project's torch, and runs modules in it.

Often another Python runs this command. The modules therefore run in a separate process with a time limit, so that a
crash or a hang there does not affect this process. The modules are those in ``inside/``; they need nothing else of
this package. Each has a generator ``report``. The process returns its items one by one, so that the items before a
crash are known.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import UserError
from .project import Project

AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
INSIDE = Path(__file__).with_name("inside")

_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)(: |$)")
# Imports the folder as a package without adding it to the path, so that its modules hide no other modules.
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
    """The result of a process.

    Attributes:
        items: the items that the module reported, in its order.
        failure: how the process failed, a phrase such as "was ended by SIGSEGV"; empty if it did not fail.
        errors: the end of its standard error output.
    """

    items: list[Any]
    failure: str
    errors: str

    @property
    def crashed(self) -> bool:
        """True if the process failed without a Python exception."""
        return bool(self.failure) and "Traceback (most recent call last)" not in self.errors

    @property
    def reason(self) -> str:
        """The first exception in the output (the first of chained exceptions is the cause); else the last line."""
        lines = [line.strip() for line in self.errors.splitlines() if line.strip()]
        exception = next((line for line in lines if _EXCEPTION.match(line)), None)
        return exception or (lines[-1] if lines else "")


def find_python(project: Project | None = None, chosen: Path | None = None) -> Path:
    """Finds the Python to use; it may lack other requirements.

    The candidates are the Python that runs this command, the Python of the active environment, and the Python of the
    project's ``.venv``. The result is the chosen Python; else the first candidate with a torch of the project's release
    series; else the first candidate with any torch; else the Python that runs this command.

    Args:
        project: the project, if there is one.
        chosen: an interpreter, or the folder of a virtual environment.

    Raises:
        UserError: the chosen Python does not exist.
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
    """Finds a Python with torch of the project's release series and with other modules.

    Args:
        project: the project.
        chosen: an interpreter, or the folder of a virtual environment.
        modules: required modules besides torch.
        purpose: the purpose, the beginning of a sentence such as "Operators are looked up in".
        install: arguments for pip that install these modules.

    Raises:
        UserError: no Python has them; the text says for each Python what it lacks.
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
                f"{purpose} an installed torch{f' {minor}' if minor else ''}, and no Python has it:",
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
        raise UserError(
            f"{chosen} is not a Python interpreter: give the path of an interpreter, such as .venv/bin/python.", 2
        )
    return python.absolute()  # not resolved: an interpreter finds its virtual environment by this path


def _candidates(project: Project | None) -> list[Path]:
    """Returns the existing interpreters to try if none is named."""

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
    """The version of an interpreter's torch (None without torch), and the reason why it does not qualify."""

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
        return _Found(torch, f"it has torch {torch}, and the project needs {minor}")
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
    progress: Callable[[int], None] | None = None,
) -> Outcome:
    """Runs a module of ``inside/`` in a Python and waits for it.

    Args:
        python: the interpreter.
        module: the name of the module.
        arguments: the arguments of its ``report``.
        time_limit: seconds until the process is killed. None for no limit.
        variables: environment variables to set; None as a value removes the variable.
        progress: is called with the number of items that the module has reported so far.

    Raises:
        UserError: the interpreter cannot be started.
    """
    environment = dict(os.environ)
    for name, value in (variables or {}).items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    # In a new folder no other files can be imported by accident, and core dumps are deleted with it.
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
            # Not a pipe: a pipe stays open while any grandchild lives, even after the time limit.
            with (
                log.open("wb") as errors,
                subprocess.Popen(
                    command,
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                ) as process,
            ):
                try:
                    failure = _describe(_wait(process, time_limit, out, progress))
                except BaseException:
                    process.kill()
                    raise
        except subprocess.TimeoutExpired:
            failure = f"did not end within {time_limit:g} seconds and was killed"
        except OSError as error:
            raise UserError(f"{python} cannot be started: {error}.", 2) from error
        items = _read_items(out)
        text = log.read_text(encoding="utf-8", errors="replace")
    return Outcome(items, failure, text[-8000:])


def _wait(
    process: subprocess.Popen[bytes], time_limit: float | None, out: Path, progress: Callable[[int], None] | None
) -> int:
    """Waits for a process, and reports the number of its items meanwhile.

    Raises:
        subprocess.TimeoutExpired: it did not end in time.
    """
    if progress is None:
        return process.wait(time_limit)
    end = None if time_limit is None else time.monotonic() + time_limit
    while True:
        try:
            return process.wait(0.2)
        except subprocess.TimeoutExpired:
            if end is not None and time.monotonic() > end:
                raise
            progress(len(_read_items(out)))


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
    """Reads the reported items. An incomplete last line of a process that died is ignored."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1]]
