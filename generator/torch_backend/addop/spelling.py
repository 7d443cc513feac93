"""Names of files and functions for an operator."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from torch_backend.maintenance.reserved import WORDS

NATIVE = Path("csrc") / "aten" / "native"

# Names of operators that a function cannot have: keywords, and functions that the generated files call.
_RESERVED = {
    "functional",
    "inPlace",
    "outVariant",
    "runReference",
    "checkFactoryOptions",
    "adapt",
    *WORDS["cxx_keywords"],
}


def words(name: str) -> list[str]:
    """Returns the words in the name of an operator: ``sum.dim_IntList`` -> sum, dim, Int, List."""
    return [part for word in re.split(r"[_.]+", name) for part in re.findall(r"[A-Z]*[a-z0-9]+|[A-Z]+", word)]


def pascal(name: str) -> str:
    """``gelu_backward`` -> GeluBackward."""
    return "".join(word[:1].upper() + word[1:] for word in words(name))


def snake(name: str) -> str:
    """``sum.dim_IntList`` -> sum_dim_int_list."""
    return "_".join(word.lower() for word in words(name))


def kernel_path(name: str) -> Path:
    """The file of an operator's kernel, relative to the project."""
    return NATIVE / f"{pascal(name)}.cpp"


def test_paths(name: str) -> list[Path]:
    """The file of an operator's test, and the one that earlier versions wrote, relative to the project."""
    return [Path("tests") / f"test_op_{snake(name)}.py", Path("tests") / f"test_{snake(name)}.py"]


def function_name(function: dict[str, Any]) -> str:
    """The C++ function for an overload: ``gelu_`` -> geluInPlace, ``gelu.out`` -> geluOut."""
    name = pascal(function["schema"])
    name = name[:1].lower() + name[1:]
    if function["kind"] == "inplace":
        name += "InPlace"
    elif function["kind"] == "out" and not name.endswith("Out"):
        name += "Out"
    return f"{name}Kernel" if name in _RESERVED else name
