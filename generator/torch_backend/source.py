"""Where the template is, and what it asks."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from .errors import UserError

BUNDLED = "bundled"  # the folder in an installed package
PARTS = ("copier.yml", "includes", "template")

# What projects record as the address of a template that only an installed torch-backend has. A path on this machine
# would mean nothing on another. Plain copier gives git the part after the prefix, and git's error shows that part.
PACKAGED = "git+torch-backend (installed; run `torch-backend update`)"


@dataclass(frozen=True)
class Versions:
    """The template's history inside an installed package; see hatch_build.py.

    Attributes:
        bundle: the file that git reads as it reads a repository.
        name: the version that lies beside it as files.
        home: the public address of the repository that the package was built from, if it has one.
    """

    bundle: Path
    name: str
    home: str | None

    @property
    def address(self) -> str:
        """The address that projects record for their template."""
        return self.home or PACKAGED

    @staticmethod
    def is_packaged(address: str) -> bool:
        """Returns whether an address means an installed torch-backend. Older projects have the path of its bundle."""
        return address == PACKAGED or Path(address).parts[-3:] == ("torch_backend", BUNDLED, "versions.bundle")


@dataclass(frozen=True)
class Source:
    """A folder with copier.yml, includes/ and template/: this repository, or its copy inside an installed wheel."""

    root: Path

    @property
    def template(self) -> Path:
        """The folder whose files are rendered."""
        return self.root / "template"

    @cached_property
    def config(self) -> dict[str, Any]:
        """The content of copier.yml."""
        loaded: dict[str, Any] = yaml.safe_load((self.root / "copier.yml").read_text(encoding="utf-8"))
        return loaded

    @property
    def is_checkout(self) -> bool:
        """Whether this is the repository, not its copy inside an installed wheel."""
        return self.root.name != BUNDLED

    @property
    def variables(self) -> list[str]:
        """The names that a template file may use: questions and derived values."""
        return [name for name in self.config if not name.startswith("_")]

    @property
    def questions(self) -> dict[str, dict[str, Any]]:
        """The questions, in the order in which they are asked."""
        return {name: self.config[name] for name in self.variables if self.config[name].get("when") is not False}

    @cached_property
    def versions(self) -> Versions | None:
        """The history in an installed package; None in a checkout, and in a package that was built without it."""
        bundle, origin = self.root / "versions.bundle", self.root / "origin.json"
        if not bundle.is_file() or not origin.is_file():
            return None
        made_from = json.loads(origin.read_text(encoding="utf-8"))
        return Versions(bundle, made_from["version"], made_from["address"])

    def git(self, *arguments: str) -> str | None:
        """Returns the output of a git command in the template's repository; None if it fails."""
        try:
            done = subprocess.run(
                ["git", "-C", str(self.root), *arguments], capture_output=True, text=True, check=False
            )
        except FileNotFoundError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    def is_clean_checkout(self) -> bool:
        """Returns whether the folder's content equals a commit. `copier update` can then find this version."""
        top = self.git("rev-parse", "--show-toplevel")
        if top is None or Path(top) != self.root or self.git("rev-parse", "--verify", "HEAD") is None:
            return False
        return self.git("status", "--porcelain", "--", *PARTS) == ""

    @contextmanager
    def snapshot(self, template: Path | None = None) -> Iterator[Source]:
        """Copies the template from the work tree, because copier would use the last tag of a git checkout.

        Args:
            template: another folder that replaces ``template/``.
        """
        with tempfile.TemporaryDirectory(prefix="torch-backend-") as folder:
            root = Path(folder)
            for part in PARTS:
                origin = template if part == "template" and template else self.root / part
                if origin.is_dir():
                    shutil.copytree(origin, root / part)
                else:
                    shutil.copy2(origin, root / part)
            yield Source(root)


def find_source() -> Source:
    """Finds the template in the installed package, or in the checkout that contains this package."""
    here = Path(__file__).resolve()
    for root in (here.parent / BUNDLED, here.parents[2]):
        if (root / "copier.yml").exists() and (root / "template").is_dir():
            return Source(root)
    raise UserError("There is no template: run from a checkout, or give its address with --template.", 2)


@cache
def template_module(path: str) -> ModuleType:
    """Imports a Python file of the template, so that projects and this command share its code.

    Args:
        path: the file in ``template/``. It has no placeholders and imports only the standard library.
    """
    file = find_source().template / path
    module = ModuleType(f"torch_backend.template.{file.stem}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module  # where dataclasses look
    # Not with importlib, which would write compiled files into the template.
    exec(compile(file.read_text(encoding="utf-8"), file, "exec"), module.__dict__)
    return module
