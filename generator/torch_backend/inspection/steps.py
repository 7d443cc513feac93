"""The steps of a port, in the order of the project's docs/porting.md, and what is left of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from .porting import Tag
from .seam import DECLINED_FILES, DECLINED_FUNCTIONS, Seam

# Title, and the files that the step writes.
STEPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Link the SDK", ("cmake/DeviceLibrary.cmake", "csrc/device/Handles.h")),
    ("Devices and errors", ("csrc/device/Device.cpp", "csrc/device/Error.cpp")),
    ("Memory", ("csrc/device/Memory.cpp", "csrc/device/Address.cpp")),
    ("Streams", ("csrc/device/Stream.cpp",)),
    ("Events", ("csrc/device/Event.cpp",)),
    ("First tensor", ()),
    ("Launches", ("csrc/device/Kernel.h", "csrc/device/Launch.cpp")),
    ("First native operator", ("csrc/aten/native/*.cpp",)),
    ("Decline the rest", ("csrc/device/Declined.cpp", "csrc/device/Graph.cpp", "csrc/device/Ipc.cpp")),
)
NATIVE = "csrc/aten/native"


@dataclass(frozen=True)
class Step:
    """A step of a port: its title, the files that it writes, and what is left, a line each."""

    title: str
    files: list[str]
    left: list[str]


def steps(root: Path, seam: Seam, tags: Sequence[Tag], seeds: Sequence[str]) -> list[Step]:
    """Reads what is left of each step.

    Args:
        root: the project.
        seam: its seam.
        tags: its ``PORTING:`` tags.
        seeds: names of the kernels' files that the template renders.
    """
    result: list[Step] = []
    for title, patterns in STEPS:
        if title == "First native operator":
            left = _without_native_operator(root, seeds)
        elif title == "First tensor":
            open_steps = [step.title for step in result if step.left]
            left = [f"after: {', '.join(open_steps)}"] if open_steps else []
        else:
            left = _left(patterns, seam, tags)
        result.append(Step(title, [p for p in patterns if "*" in p or (root / p).exists()], left))
    return result


def _left(patterns: Sequence[str], seam: Seam, tags: Sequence[Tag]) -> list[str]:
    left = []
    decided = {DECLINED_FILES.get(item.name) for item in seam.declined}
    for file in seam.files:
        todo = file.unwritten or file.emulated
        if file.path in patterns and todo:
            left.append(f"{file.path}: {len(todo)} of {len(file.functions)} functions")
    for item in seam.declined:
        if item.path not in patterns:
            continue
        functions = DECLINED_FUNCTIONS.get(item.name, set())
        if places := [file.path for file in seam.files if functions & set(file.functions)]:
            left.append(f"{item.path}: delete the line of `{item.name}`, because {', '.join(places)} has its functions")
        elif not item.decided:
            left.append(f"{item.path}: write `{item.name}` or put your reason into its line")
    covered = {line.partition(":")[0] for line in left}
    for tag in tags:
        if any(fnmatchcase(tag.path, pattern) for pattern in patterns) and tag.path not in covered | decided:
            covered.add(tag.path)
            left.append(f"{tag.path}:{tag.line}: a PORTING tag")
    return left


def _without_native_operator(root: Path, seeds: Sequence[str]) -> list[str]:
    """Empty if the vendor has written a kernel whose body is not on the host."""
    for path in sorted((root / NATIVE).glob("*.cpp")):
        if path.name not in seeds and "hostBody" not in path.read_text(encoding="utf-8", errors="replace"):
            return []
    return [f"{NATIVE}: no kernel of your own yet; torch-backend add-op writes its frame"]
