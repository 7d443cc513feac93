"""The progress of a port: the parts that still belong to the emulated device."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet

from torch_backend.errors import UserError
from torch_backend.project import Project
from torch_backend.source import find_source

from .doctor.requirements import of_project, written
from .operators import Coverage, count, coverage
from .porting import Tag, tags
from .seam import Seam, read_seam
from .steps import NATIVE, Step, steps


@dataclass(frozen=True)
class Status:
    """The report of `torch-backend status`.

    Attributes:
        project: the project.
        torch: the versions of torch that the project builds with.
        seam: the functions of the seam.
        tags: the ``PORTING:`` tags that are left.
        steps: the steps of the port in the order of docs/porting.md.
        operators: the operators of the built backend; None if the backend was not loaded.
        unavailable: the reason why ``operators`` is None.
    """

    project: Project
    torch: str
    seam: Seam
    tags: list[Tag]
    steps: list[Step]
    operators: Coverage | None
    unavailable: str

    def to_json(self) -> dict[str, Any]:
        """Returns the same data as plain values."""
        answers = self.project.answers
        return {
            "project": str(self.project.root),
            "vendor": answers.get("vendor_name"),
            "device": self.project.device_name,
            "package": self.project.package_name,
            "template": {"address": self.project.template_address, "version": self.project.template_version},
            "torch": {"minor": answers.get("torch_minor"), "range": self.torch},
            "features": answers.get("features", []),
            "seam": {
                "sdk": self.seam.sdk,
                "functions": self.seam.functions,
                "emulated": self.seam.emulated,
                "unwritten": self.seam.unwritten,
                "files": [asdict(file) for file in self.seam.files],
            },
            "steps": [{**asdict(step), "done": not step.left} for step in self.steps],
            "declined": {item.name: item.reason for item in self.seam.declined},
            "porting_tags": [asdict(tag) for tag in self.tags],
            "operators": {
                "running": count(self.operators.operators) if self.operators else None,
                "unavailable": self.unavailable or None,
            },
        }


def read_status(project: Project, python: Path | None, time_limit: float) -> Status:
    """Reads the sources and the coverage of the built backend.

    Args:
        project: the project.
        python: the interpreter with the built backend; None to read only the sources.
        time_limit: for loading the backend, in seconds.

    Raises:
        UserError: a file of the project cannot be read.
    """
    operators, unavailable = None, "not loaded (--static): only a built backend knows how operators run"
    if python is not None:
        try:
            operators, unavailable = coverage(project, python, time_limit), ""
        except UserError as error:
            unavailable = str(error)
    seam, left = read_seam(project), tags(project.root)
    kernels = [file.name.removesuffix(".jinja") for file in (find_source().template / NATIVE).iterdir()]
    return Status(
        project,
        written(of_project(project).packages.get("torch", SpecifierSet())),
        seam,
        left,
        steps(project.root, seam, left, kernels),
        operators,
        unavailable,
    )
