"""Which operators the sources of a project register for the device, without building or loading it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"TORCH_LIBRARY_IMPL\(\s*(?P<library>\w+)\s*,\s*PrivateUse1\s*,\s*(?P<variable>\w+)\s*\)\s*\{")
_LISTED = re.compile(r'^\s*(?P<macro>[A-Z][A-Z0-9_]*)\(\s*"(?P<name>[\w.]+)"', re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True)
class Registration:
    """An overload (``aten::add.Tensor``), how it runs ("native", "emulated", "cpu"), and the file that says so."""

    name: str
    state: str
    path: str


def registrations(root: Path) -> list[Registration]:
    """Returns what ``csrc/`` registers, by name, each overload once.

    An entry of ``operators.def`` has the state that its macro is named after. A kernel registered by ``impl`` is
    native, but for two kinds: a boxed one hands the operator on to the host, and one that calls ``Emulated`` to the
    CPU's kernel of another operator. What is listed and registered counts where it is registered.
    """
    listed: dict[str, Registration] = {}
    registered: dict[str, Registration] = {}
    for path in sorted((root / "csrc").rglob("*")):
        if path.suffix not in (".def", ".cpp"):
            continue
        text = _COMMENT.sub("", path.read_text(encoding="utf-8", errors="replace"))
        relative = path.relative_to(root).as_posix()
        if path.suffix == ".def":
            for entry in _LISTED.finditer(text):
                name = f"aten::{entry['name']}"
                listed[name] = Registration(name, entry["macro"].lower(), relative)
        else:
            registered |= {registration.name: registration for registration in _in_source(text, relative)}
    return sorted((listed | registered).values(), key=lambda registration: registration.name)


def kernels(root: Path) -> dict[str, str]:
    """Returns the ATen operators with a kernel in C++ sources, such as ``add.Tensor``, and the file of each."""
    return {
        registration.name.removeprefix("aten::"): registration.path
        for registration in registrations(root)
        if registration.name.startswith("aten::") and registration.path.endswith(".cpp")
    }


def _in_source(text: str, path: str) -> Iterator[Registration]:
    for block in _BLOCK.finditer(text):
        body = text[block.end() : text.find("\n}", block.end())]
        impl = re.compile(rf'\b{block["variable"]}\.impl\(\s*"(?P<name>[^"]+)"\s*,(?P<kernel>[^;]*);')
        for match in impl.finditer(body):
            state = "cpu" if "makeFromBoxedFunction" in match["kernel"] else _state_of_function(match["kernel"], text)
            library = block["library"]
            name = match["name"] if "::" in match["name"] else f"{library}::{match['name']}"
            yield Registration(name, state, path)


def _state_of_function(kernel: str, text: str) -> str:
    """The state of what is registered as ``TORCH_FN(name)``, by the body of that function if it is in the same file."""
    function = re.search(r"TORCH_FN\(\s*(\w+)\s*\)", kernel)
    if function is None:
        return "native"
    body = re.search(rf"^\S[^;{{}}\n]*\b{function[1]}\([^;]*?\) \{{\n(.*?)^\}}", text, re.MULTILINE | re.DOTALL)
    return "emulated" if body and re.search(r"\bEmulated<", body[1]) else "native"
