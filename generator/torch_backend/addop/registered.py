"""Which operators have a kernel in the sources of a project, built or not."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path("csrc") / "aten"

_BLOCK = re.compile(
    r"TORCH_LIBRARY_IMPL\(\s*aten\s*,\s*PrivateUse1\s*,\s*(?P<variable>\w+)\s*\)\s*\{(?P<body>.*?)\n\}", re.DOTALL
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def kernels(root: Path) -> dict[str, str]:
    """Returns the overloads that a source registers by name, such as ``add.Tensor``, and its path.

    All registrations count, however the operators run, because an operator must not be registered twice.
    """
    found: dict[str, str] = {}
    for path in sorted((root / FOLDER).rglob("*.cpp")):
        text = _COMMENT.sub("", path.read_text(encoding="utf-8", errors="replace"))
        for block in _BLOCK.finditer(text):
            for name in re.findall(rf'\b{block["variable"]}\.impl\(\s*"(?:aten::)?([\w.]+)"', block["body"]):
                found[name] = path.relative_to(root).as_posix()
    return found
