"""Which operators have a kernel in the sources of a project, built or not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path("csrc") / "aten"

_BLOCK = re.compile(
    r"TORCH_LIBRARY_IMPL\(\s*aten\s*,\s*PrivateUse1\s*,\s*(?P<variable>\w+)\s*\)\s*\{(?P<body>.*?)\n\}", re.DOTALL
)
_HANDED_ON = re.compile(r"\b(?:Emulated|handedOnTo)<at::_ops::(?P<op>\w+)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def kernels(root: Path) -> dict[str, str]:
    """Returns the overloads that a source registers by name, such as ``add.Tensor``, and its path.

    All registrations count, however the operators run, because an operator must not be registered twice.
    """
    found: dict[str, str] = {}
    for path, text in _sources(root):
        for block in _BLOCK.finditer(text):
            for name in re.findall(rf'\b{block["variable"]}\.impl\(\s*"(?:aten::)?([\w.]+)"', block["body"]):
                found[name] = path
    return found


def handed_on(root: Path) -> dict[str, str]:
    """Returns the operators that other operators' kernels hand their operands on to, and the paths of these kernels.

    Operators have their names in ``at::_ops``, such as ``convolution`` or ``add_Tensor``.
    """
    return {match["op"]: path for path, text in _sources(root) for match in _HANDED_ON.finditer(text)}


def _sources(root: Path) -> Iterator[tuple[str, str]]:
    """Yields the path and the text, without comments, of each file with registrations."""
    for path in sorted((root / FOLDER).rglob("*.cpp")):
        yield path.relative_to(root).as_posix(), _COMMENT.sub("", path.read_text(encoding="utf-8", errors="replace"))
