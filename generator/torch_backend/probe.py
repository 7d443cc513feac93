"""Asks another Python: in a process of its own, with a time limit, so that what crashes or hangs there does not here.

The scripts in ``inside/`` are what runs there. Each is one file, holds a generator ``report`` and needs nothing of this
package, since the Python that has torch is often not the one that runs this command. What ``report`` yields comes back
item by item: up to where a process died, it is known.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import UserError

AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
SCRIPTS = Path(__file__).with_name("inside")

_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)(: |$)")
_BOOTSTRAP = """\
import json, runpy, sys
out, script, *arguments = sys.argv[1:]
with open(out, "a", encoding="utf-8") as file:
    for item in runpy.run_path(script)["report"](*arguments):
        print(json.dumps(item), file=file, flush=True)
"""


@dataclass(frozen=True)
class Outcome:
    """What came of a probe.

    Attributes:
        items: what the script reported, in its order.
        failure: how the process ended if not well, a phrase such as "was ended by SIGSEGV"; empty if it ended well.
        errors: the end of what it wrote to its standard error.
    """

    items: list[Any]
    failure: str
    errors: str

    @property
    def reason(self) -> str:
        """What went wrong first: of chained exceptions the first one is the cause; without any, the last line."""
        lines = [line.strip() for line in self.errors.splitlines() if line.strip()]
        exception = next((line for line in lines if _EXCEPTION.match(line)), None)
        return exception or (lines[-1] if lines else "")


def find_python(chosen: Path | None = None) -> Path:
    """The Python that is meant: the chosen one, else this one if it has torch, else that of the active environment.

    Args:
        chosen: an interpreter, or the folder of a virtual environment.

    Raises:
        UserError: the chosen one is not there.
    """
    if chosen is not None:
        python = _python_of(chosen) if chosen.is_dir() else chosen
        if not python.is_file() or not os.access(python, os.X_OK):
            raise UserError(f"{chosen} is not a Python interpreter: give the path of one, such as .venv/bin/python.", 2)
        return python.absolute()  # not resolved: the link in a virtual environment is what makes it one
    if importlib.util.find_spec("torch") is None:
        for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
            folder = os.environ.get(variable)
            if folder and _python_of(Path(folder)).is_file():
                return _python_of(Path(folder))
    return Path(sys.executable)


def _python_of(environment: Path) -> Path:
    """The interpreter of a virtual or conda environment."""
    places = ("Scripts/python.exe", "python.exe") if os.name == "nt" else ("bin/python",)
    return next((environment / place for place in places if (environment / place).is_file()), environment / places[0])


def run_probe(
    python: Path,
    script: str,
    *arguments: str,
    time_limit: float = 120,
    variables: Mapping[str, str | None] | None = None,
) -> Outcome:
    """Runs a script of ``inside/`` in another Python and waits for it.

    Args:
        python: the interpreter.
        script: name of the script, without ``.py``.
        arguments: what its ``report`` takes.
        time_limit: in seconds; then the process is killed.
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
            str(SCRIPTS / f"{script}.py"),
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
