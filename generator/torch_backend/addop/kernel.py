"""The C++ file of an operator."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import jinja2

from torch_backend.project import Project

from .spelling import function_name, pascal

LAUNCH = "launch the device's kernel here with the addresses of the tensors, as in BiasRelu.cpp"
TARGETS = {
    "functional": "",
    "mutable": "",
    "inplace": ". It writes into its first argument",
    "out": ". It writes into its last arguments, which may have to be resized",
}


def environment() -> jinja2.Environment:
    """What the files of this package are rendered with."""
    result = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    result.filters["parameters"] = lambda arguments: ", ".join(f"{a['type']} {a['name']}" for a in arguments)
    return result


def read(name: str) -> str:
    """Returns the text of a file of this package."""
    return (files(__package__) / "files" / name).read_text(encoding="utf-8")


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
        }
        for group in operator["groups"]
    ]
    plain = [by_schema[p["schema"]] | {"note": f"{LAUNCH}{TARGETS[p['kind']]}."} for p in operator["plain"]]
    headers = [f"ATen/ops/{group['header']}_meta.h" for group in groups]
    headers += [f"ATen/ops/{function['root']}_ops.h" for function in functions]
    headers.append("torch/library.h")
    return (
        environment()
        .from_string(read("kernel.cpp.jinja"))
        .render(
            name=operator["name"],
            namespace=project.device_name,
            headers=list(dict.fromkeys(headers)),
            groups=groups,
            plain=plain,
            functions=functions,
        )
    )
