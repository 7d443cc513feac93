"""A rendered project on disk: its answers and the paths of its parts."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .errors import UserError
from .render import ANSWERS_FILE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class Project:
    """A folder that holds a rendered project.

    Attributes:
        root: the folder with the answers file.
        answers: the content of the answers file, including copier's own entries.
    """

    root: Path
    answers: dict[str, Any] = field(repr=False)

    @classmethod
    def find(cls, start: Path) -> Project:
        """Finds the project that contains a folder.

        Raises:
            UserError: there is no project, or its answers cannot be read.
        """
        start = start.absolute()
        root = next((folder for folder in (start, *start.parents) if (folder / ANSWERS_FILE).is_file()), None)
        if root is None:
            raise UserError(
                f"{start} is not in a project made from the template: neither this folder nor a folder above it has "
                f"a file {ANSWERS_FILE}. Change to the project's folder, or name it with --project.",
                2,
            )
        try:
            answers = yaml.safe_load((root / ANSWERS_FILE).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise UserError(f"{root / ANSWERS_FILE} cannot be read ({error}); restore it from git.", 2) from error
        if not isinstance(answers, dict) or not isinstance(answers.get("device_name"), str):
            raise UserError(f"{root / ANSWERS_FILE} contains no answers; restore it from git.", 2)
        return cls(root, answers)

    @property
    def device_name(self) -> str:
        """The name of the device in PyTorch."""
        return str(self.answers["device_name"])

    @property
    def package_name(self) -> str:
        """The name of the Python package."""
        return str(self.answers["package_name"])

    @property
    def package(self) -> Path:
        """The folder of the Python package."""
        return self.root / "python" / self.package_name

    @property
    def build_requirements(self) -> list[str]:
        """What a build without isolation needs, as pip takes it; nothing if there is no pyproject.toml."""
        path = self.root / "pyproject.toml"
        if not path.is_file():
            return []
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        required = content.get("build-system", {}).get("requires", [])
        tools = content.get("dependency-groups", {}).get("build", [])
        return list(dict.fromkeys([*required, *tools]))

    @property
    def template_address(self) -> str | None:
        """The address of the template; None if the project does not record it."""
        return self.answers.get("_src_path")

    @property
    def template_version(self) -> str | None:
        """The template's version, as git describes it; None if the project does not record it."""
        return self.answers.get("_commit")
