"""Arguments for an operator, made from its schema and tested on the CPU."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torchgen.model import Argument, BaseTy, BaseType, ListType, NativeFunction, OptionalType, SchemaKind, Type

from .signature import python_name

# SHAPES: shapes for the tensors of a call, in order; the last shape is repeated. INTEGERS: values for its integers.
SHAPES: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((3, 4),),
    ((3, 4), (4, 5)),
    ((4, 4),),
    ((2, 3, 4),),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 3, 8, 8),),
    ((2, 3, 8, 8), (4, 3, 3, 3)),
    ((5, 4), (3, 4), (4, 5)),
    ((3, 4), (4,)),
    ((3, 4), (3,)),
    ((4,),),
)
INTEGERS = (1, 3, 0)
SCALARS = {"float32": ("0.5", "2.5"), "int64": ("1", "7"), "bool": ("1", "7")}
DTYPES = ("float32", "int64", "bool")
INDICES = ("index", "indices", "target")
LIMIT = 3


def find_samples(functions: list[NativeFunction]) -> list[dict[str, Any]]:
    """Returns calls that the CPU accepts, up to three for each overload, as texts of Python expressions."""
    found = []
    for function in functions:
        returns_result = function.func.kind() in {SchemaKind.functional, SchemaKind.mutable}
        if returns_result or not _has_functional(functions, function):
            found += [{"op": python_name(function), "arguments": texts} for texts in _working(function)]
    return found


def parts_of(functions: list[NativeFunction]) -> list[str]:
    """Returns the operators that composite operators call on the CPU, without views and allocations."""

    class Recorder(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            is_view = any(a.alias_info is not None and not a.alias_info.is_write for a in func._schema.arguments)
            name, kwargs = func.name(), kwargs or {}
            with self:  # what a composite operator calls comes here too
                if name in own:
                    return func.redispatch(cpu, *args, **kwargs)
                composed = func.decompose(*args, **kwargs)
            if composed is not NotImplemented:
                return composed
            if not is_view and "empty" not in name and name not in parts:
                parts.append(name)
            return func(*args, **kwargs)

    own = {f"aten::{function.func.name}" for function in functions}
    cpu = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    parts: list[str] = []
    for function in functions:
        for texts in _working(function):
            args, kwargs = _make(texts)
            with Recorder(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _find(function)(*args, **kwargs)
    return parts


def _has_functional(functions: list[NativeFunction], function: NativeFunction) -> bool:
    """Returns whether another overload takes the same arguments and returns its result."""
    signature = function.func.signature()
    return any(f.func.kind() == SchemaKind.functional and f.func.signature() == signature for f in functions)


def _working(function: NativeFunction) -> Iterator[list[str]]:
    """Yields argument lists that the CPU accepts, in the order of the schema; keyword arguments include their name."""
    done: list[list[str]] = []
    for shapes in SHAPES:
        for integer in INTEGERS:
            for dtype in DTYPES:
                texts = _arguments(function, shapes, integer, dtype)
                if texts is None or texts in done:
                    continue
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        args, kwargs = _make(texts)
                        _find(function)(*args, **kwargs)
                except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError, MemoryError):
                    continue
                done.append(texts)
                yield texts
                if len(done) == LIMIT:
                    return


def _make(texts: list[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of a call on the CPU."""
    torch.manual_seed(0)
    scope = {"torch": torch, "tensor": _tensor, "device": "cpu", "given": lambda *args, **kwargs: (args, kwargs)}
    made: tuple[tuple[Any, ...], dict[str, Any]] = eval(f"given({', '.join(texts)})", scope)
    return made


def _find(function: NativeFunction) -> Any:
    packet, overload = python_name(function).rsplit(".", 1)
    return getattr(getattr(torch.ops.aten, packet), overload)


def _tensor(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.testing.make_tensor(shape, dtype=dtype, device="cpu", low=0, high=2)


def _arguments(
    function: NativeFunction, shapes: tuple[tuple[int, ...], ...], integer: int, dtype: str
) -> list[str] | None:
    """Returns the texts of the arguments without defaults, or None if one of them cannot be made."""
    arguments = function.func.arguments
    texts: list[str] = []
    next_shape, next_scalar = _Series(shapes), _Series(SCALARS[dtype])
    of_result = "quint8" if "quantize" in function.root_name else dtype

    for argument in arguments.flat_positional:
        if argument.default is not None:
            break
        text = _text(argument, argument.type, next_shape, next_scalar, integer, dtype, of_result)
        if text is None:
            return None
        texts.append(text)
    for argument in [*arguments.pre_tensor_options_kwarg_only, *arguments.post_tensor_options_kwarg_only]:
        if argument.default is None:
            text = _text(argument, argument.type, next_shape, next_scalar, integer, dtype, of_result)
            if text is None:
                return None
            texts.append(f"{argument.name}={text}")
    if arguments.tensor_options is not None:
        texts.append("device=device")
    return texts + [f"{argument.name}=tensor(0)" for argument in arguments.out]


class _Series:
    """Returns one value after the other, then repeats the last value."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = list(values)

    def __call__(self) -> Any:
        return self._values.pop(0) if len(self._values) > 1 else self._values[0]


def _text(
    argument: Argument,
    kind: Type,
    next_shape: _Series,
    next_scalar: _Series,
    integer: int,
    dtype: str,
    of_result: str,
) -> str | None:
    if isinstance(kind, OptionalType):
        return "None"
    if isinstance(kind, ListType):
        if isinstance(kind.elem, OptionalType):
            return "[tensor(2, dtype=torch.int64)]"  # indices
        one = _text(argument, kind.elem, next_shape, next_scalar, integer, dtype, of_result)
        return None if one is None else f"[{', '.join([one] * (kind.size or 2))}]"
    if kind == BaseType(BaseTy.Tensor):
        chosen = "int64" if argument.name in INDICES else dtype
        suffix = "" if chosen == "float32" else f", dtype=torch.{chosen}"
        return f"tensor({', '.join(map(str, next_shape()))}{suffix})"
    if kind == BaseType(BaseTy.Scalar):
        return str(next_scalar())
    simple = {
        BaseType(BaseTy.float): "0.5",
        BaseType(BaseTy.int): str(integer),
        BaseType(BaseTy.SymInt): str(integer),
        BaseType(BaseTy.bool): "False",
        BaseType(BaseTy.ScalarType): f"torch.{of_result}",
    }
    return simple.get(kind)
