"""Virtual environments that see the packages of another environment, except for its backends.

Only one backend can own the dispatch key PrivateUse1 of a process. An environment for a second backend must therefore
hide the first one, but can share the large packages such as torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from .errors import UserError


@dataclass(frozen=True)
class Environment:
    """A virtual environment in ``folder``."""

    folder: Path

    @property
    def python(self) -> Path:
        """The interpreter."""
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    @property
    def site_packages(self) -> Path:
        """The folder that packages are installed into."""
        base = {"base": str(self.folder), "platbase": str(self.folder)}
        return Path(sysconfig.get_path("purelib", scheme="nt" if os.name == "nt" else "posix_prefix", vars=base))

    def variables(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The variables for commands in this environment. Its scripts precede those of the running environment."""
        path = os.pathsep.join([str(self.python.parent), str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        dropped = {"PYTHONPATH", "PYTHONHOME", "TORCH_DEVICE_BACKEND_AUTOLOAD"}
        kept = {name: value for name, value in os.environ.items() if name not in dropped}
        return kept | {"PATH": path, "VIRTUAL_ENV": str(self.folder)} | dict(extra or {})

    def run(self, *arguments: str, cwd: Path | None = None, extra: Mapping[str, str] | None = None) -> None:
        """Runs the environment's Python. Its output goes to the terminal.

        Raises:
            UserError: the command failed.
        """
        done = subprocess.run([str(self.python), *arguments], cwd=cwd, env=self.variables(extra), check=False)
        if done.returncode != 0:
            raise UserError(f"failed with exit code {done.returncode}: {self.python} {' '.join(arguments)}")


def this_environment() -> Environment:
    """The environment that runs this code."""
    return Environment(Path(sys.prefix))


def _entries(site_packages: Path, without: Collection[str]) -> set[str]:
    """Returns the entries of a site-packages folder that belong to installed backends or to these distributions."""
    names = set()
    for distribution in distributions(path=[str(site_packages)]):
        if distribution.name in without or distribution.entry_points.select(group="torch.backends"):
            names |= {file.parts[0] for file in distribution.files or []}
    return names


def create_environment(folder: Path, without: Collection[str] = ()) -> Environment:
    """Creates an environment that sees the packages of the running environment, except for backends.

    Args:
        folder: the folder of the environment; an existing environment is kept.
        without: other distributions that are hidden.
    """
    environment = Environment(folder.absolute())
    if not environment.python.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        environment.site_packages.mkdir(parents=True, exist_ok=True)
        for below in dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]):
            hidden = _entries(Path(below), without) | {"__pycache__"}
            for entry in Path(below).iterdir():
                if entry.name not in hidden:
                    (environment.site_packages / entry.name).symlink_to(entry)
    return environment
