"""The C++ file of an operator."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
import yaml

from torch_backend.project import Project

from .spelling import function_name, pascal

NOTES = {
    "functional": "",
    "mutable": "",
    "inplace": "It writes into its first argument.",
    "out": "It writes into its last arguments, which may have to be resized.",
}


def environment() -> jinja2.Environment:
    """Returns the Jinja environment for the files of this package."""
    result = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    result.filters["parameters"] = lambda arguments: ", ".join(f"{a['type']} {a['name']}" for a in arguments)
    return result


def read(name: str) -> str:
    """Returns the text of a file of this package."""
    return (files(__package__) / "files" / name).read_text(encoding="utf-8")


@cache
def _formulas() -> dict[str, Any]:
    empty: dict[str, Any] = {"once": [], "capture": [], "steps": []}
    return {name: empty | formula for name, formula in yaml.safe_load(read("formulas.yml")).items()}


def functions_of(operator: dict[str, Any]) -> list[dict[str, Any]]:
    """All overloads of a description that get a kernel."""
    return [*(variant for group in operator["groups"] for variant in group["variants"]), *operator["plain"]]


def kernel_source(project: Project, operator: dict[str, Any]) -> str:
    """Returns the C++ source for an operator.

    Args:
        operator: its description, as ``schemas`` prints it.
    """
    functions = [function | {"function": function_name(function)} for function in functions_of(operator)]
    by_schema = {function["schema"]: function for function in functions}
    groups = [
        group
        | {
            "struct": pascal(group["class"]),
            "variants": [by_schema[variant["schema"]] for variant in group["variants"]],
            "formula": _formulas().get(group["class"]) if group["inherits"] else None,
        }
        for group in operator["groups"]
    ]
    plain = [by_schema[p["schema"]] | {"note": NOTES[p["kind"]]} for p in operator["plain"]]
    formulas = any(group["formula"] for group in groups)
    headers = ["ATen/Dispatch.h", "ATen/OpMathType.h"] if formulas else []
    headers += [f"ATen/ops/{group['header']}_meta.h" for group in groups]
    headers += [f"ATen/ops/{function['root']}_ops.h" for function in functions]
    headers.append("torch/library.h")
    return (
        environment()
        .from_string(read("kernel.cpp.jinja"))
        .render(
            name=operator["name"],
            namespace=project.device_name,
            formulas=formulas,
            headers=list(dict.fromkeys(headers)),
            groups=groups,
            plain=plain,
            functions=functions,
        )
    )
