"""The folders of csrc/ are layers: each includes its own files and those of the layers below it (docs/architecture.md)."""

import re
from pathlib import Path

import pytest
from conftest import PROJECT

CSRC = PROJECT / "csrc"
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)

RUNTIME = ("device", "runtime", "runtime/memory")
FALLBACK = (*RUNTIME, "fallback")
# Folder -> the folders whose headers its files may include, besides its own.
LAYERS: dict[str, tuple[str, ...]] = {
    "device": ("device/substitutes",),
    "device/substitutes": ("device",),
    "runtime": RUNTIME,
    "runtime/memory": RUNTIME,
    "runtime/ipc": RUNTIME,
    "fallback": RUNTIME,
    "graph": FALLBACK,
    "aten": (*FALLBACK, "aten/support"),
    "aten/support": FALLBACK,
    "aten/native": (*FALLBACK, "aten/support"),
    "amp": FALLBACK,
}


def folders() -> set[str]:
    """Return the folders of csrc/ that hold sources."""
    return {path.parent.relative_to(CSRC).as_posix() for path in CSRC.rglob("*") if path.suffix in (".h", ".cpp")}


def test_every_folder_is_in_a_layer() -> None:
    assert folders() <= LAYERS.keys(), "write into LAYERS what the new folder may include"


@pytest.mark.parametrize("folder", sorted(folders()))
def test_a_layer_includes_only_layers_below(folder: str) -> None:
    allowed = {folder, *LAYERS[folder]}
    wrong = [
        f"{path.relative_to(CSRC).as_posix()} includes {header}"
        for path in sorted((CSRC / folder).iterdir())
        if path.suffix in (".h", ".cpp")
        for header in INCLUDE.findall(path.read_text(encoding="utf-8"))
        if (CSRC / header).exists() and Path(header).parent.as_posix() not in allowed
    ]
    assert not wrong, wrong
