"""Kernels that a project has already, read from its sources."""

from __future__ import annotations

import re
from pathlib import Path

from torch_backend.project import Project

_BLOCK = re.compile(r"^TORCH_LIBRARY_IMPL\(\s*aten\s*,\s*PrivateUse1\s*,\s*(\w+)\s*\)\s*\{(.*?)^\}", re.M | re.S)


def registered(project: Project) -> dict[str, Path]:
    """Returns the operators with a kernel for the device, such as ``add.Tensor``, and the file of each."""
    found: dict[str, Path] = {}
    for path in sorted((project.root / "csrc").rglob("*.cpp")):
        text = _without_comments(path.read_text(encoding="utf-8"))
        for library, body in _BLOCK.findall(text):
            for name in re.findall(rf'\b{library}\.impl\(\s*"(?:aten::)?([\w.]+)"', body):
                found.setdefault(name, path.relative_to(project.root))
    return found


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
