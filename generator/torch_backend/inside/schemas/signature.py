"""C++ signatures, from torchgen: as the dispatcher calls a kernel, and as PyTorch's structured kernels are called."""

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

    The variants' ``call`` are the arguments for meta(), in the types that it takes.
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
    """Describes an overload: its names, its kind, and the signature that its kernel has.

    ``options`` says whether it is a factory function, ``written`` which arguments it changes, and ``lists`` which of
    them are lists whose writes nobody else tells autograd of.
    """
    with native_function_manager(function):
        signature = DispatcherSignature(function.func, symint=False)
        arguments = [_argument(binding) for binding in signature.arguments()]
        returns = _cpp(signature.returns_type().cpp_type())
    flat = function.func.arguments
    # A kernel of the CPU's own does for lists what is to be done.
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
    """As the project's sources write types."""
    text = text.replace("::std::", "std::").replace("::c10::", "c10::")
    return re.sub(r",(?=\S)", ", ", re.sub(r"\s+&", "&", text))
