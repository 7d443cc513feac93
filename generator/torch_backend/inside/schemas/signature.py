"""C++ signatures from torchgen: those of kernels for the dispatcher, and those of PyTorch's structured kernels."""

from __future__ import annotations

import re
from typing import Any

from torchgen.api import meta, structured
from torchgen.api.translate import translate
from torchgen.api.types import Binding, DispatcherSignature
from torchgen.context import native_function_manager
from torchgen.model import ListType, NativeFunction, NativeFunctionsGroup


def describe_group(group: NativeFunctionsGroup, functions: list[NativeFunction]) -> dict[str, Any]:
    """Describes a structured group: PyTorch's class, the arguments of its body, and the variants.

    ``call`` of a variant holds the arguments for meta(), in its types.
    """
    variants = [describe_plain(function) for function in functions]
    with native_function_manager(group):
        for function, variant in zip(functions, variants, strict=True):
            arguments = DispatcherSignature(function.func, symint=False).arguments()
            goals = structured.meta_arguments(group)
            variant["call"] = [expression.expr for expression in translate(arguments, goals, method=False)]
        body = [_argument(binding) for binding in structured.impl_arguments(group)]
    return {
        "class": meta.name(group),
        "header": group.root_name,
        "inherits": group.out.structured_inherits,
        "op": _op(group.out),
        "body": body,
        "variants": variants,
    }


def describe_plain(function: NativeFunction) -> dict[str, Any]:
    """Describes an overload: its names, its kind, and the signature of its kernel.

    ``options`` says whether it is a factory function. ``written`` names the arguments that it changes. ``lists`` names
    those of them that are lists and whose writes the kernel itself must report to autograd.
    """
    with native_function_manager(function):
        signature = DispatcherSignature(function.func, symint=False)
        arguments = [_argument(binding) for binding in signature.arguments()]
        returns = _cpp(signature.returns_type().cpp_type())
    flat = function.func.arguments
    # If the CPU has its own kernel, that kernel reports the writes to lists.
    composite = function.has_composite_explicit_autograd_kernel
    return {
        "schema": str(function.func.name),
        "declaration": str(function.func),
        "op": _op(function),
        "root": function.root_name,
        "python": python_name(function),
        "signature": str(function.func.signature()),
        "kind": function.func.kind().name,
        "returns": returns,
        "arguments": arguments,
        "options": flat.tensor_options is not None,
        "lists": [a.name for a in flat.flat_all if a.is_write and isinstance(a.type, ListType)] if composite else [],
        "written": [argument.name for argument in flat.flat_all if argument.is_write],
    }


def python_name(function: NativeFunction) -> str:
    """The name in torch.ops.aten, with the overload."""
    name = function.func.name
    return f"{name.name}.{name.overload_name or 'default'}"


def _op(function: NativeFunction) -> str:
    """The name in at::_ops."""
    return str(function.func.name.unambiguous_name())


def _argument(binding: Binding) -> dict[str, str]:
    return {"type": _cpp(binding.nctype.type.cpp_type()), "name": binding.name}


def _cpp(text: str) -> str:
    """Spells a type like the project's sources."""
    text = text.replace("::std::", "std::").replace("::c10::", "c10::")
    return re.sub(r",(?=\S)", ", ", re.sub(r"\s+&", "&", text))
