"""Operators of native_functions.yaml: families of overloads, and the overloads that a device must implement."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torchgen
from torchgen.gen import get_grouped_native_functions, parse_native_yaml
from torchgen.model import DispatchKey, NativeFunction, NativeFunctionsGroup

from .refusal import PartsOf, refusal
from .samples import parts_of
from .signature import describe_group, describe_plain

Kernels = list[tuple[NativeFunctionsGroup | None, list[NativeFunction]]]


class RefusedError(Exception):
    """An operator that cannot have a kernel; the text says why, and what to do instead."""


@dataclass(frozen=True)
class Operator:
    """The overloads of one operator that need a kernel.

    Attributes:
        name: the requested name without a namespace.
        base: the name without an overload and the trailing underscore.
        kernels: groups of overloads. The overloads of a structured group share one body; others have the group None.
        left: overloads that PyTorch computes from others.
        unserved: overloads that get no kernel, because the CPU has no kernel to use as a reference.
    """

    name: str
    base: str
    kernels: Kernels
    left: list[str]
    unserved: list[str]

    @property
    def functions(self) -> list[NativeFunction]:
        """All overloads that get a kernel."""
        return [function for _, functions in self.kernels for function in functions]

    def describe(self) -> dict[str, Any]:
        """Returns the values for the templates, in types of JSON."""
        return {
            "name": self.name,
            "base": self.base,
            "left": self.left,
            "unserved": self.unserved,
            "groups": [describe_group(group, functions) for group, functions in self.kernels if group is not None],
            "plain": [describe_plain(f) for group, functions in self.kernels if group is None for f in functions],
        }


class Schemas:
    """All operators of the installed torch."""

    def __init__(self, parts_of: PartsOf = parts_of) -> None:
        """``parts_of`` calls composite operators on the CPU. Some of these calls end the process."""
        self._parts_of = parts_of
        folder = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
        parsed = parse_native_yaml(str(folder / "native_functions.yaml"), str(folder / "tags.yaml"))
        self._cpu = parsed.backend_indices[DispatchKey.CPU]
        self._groups = get_grouped_native_functions(parsed.native_functions)
        self._families: dict[str, list[NativeFunction]] = {}
        self._group_of: dict[str, NativeFunctionsGroup] = {}
        for entry in self._groups:
            for function in entry.functions() if isinstance(entry, NativeFunctionsGroup) else [entry]:
                self._families.setdefault(str(function.func.name.name.base), []).append(function)
                if isinstance(entry, NativeFunctionsGroup):
                    self._group_of[str(function.func.name)] = entry

    def names(self) -> list[str]:
        """Returns the names of all families."""
        return sorted(self._families)

    def find(self, asked: str) -> Operator:
        """Returns the operator of a family such as ``gelu``, or of an overload such as ``add.Tensor``.

        Raises:
            RefusedError: there is no such operator, or PyTorch computes it from others.
        """
        name = asked.removeprefix("aten::")
        if "::" in name:
            raise RefusedError(
                f"{name} is not one of PyTorch's own operators, whose namespace is aten: "
                "write its kernel by hand, with csrc/aten/native/BiasRelu.cpp as a model."
            )
        family, overloads = self._select(name)
        if any("generated" in f.tags and str(f.func.name) == name for f in overloads):
            raise RefusedError(
                f"aten::{name} needs no kernel, because PyTorch computes it with aten::{family}: add that one."
            )
        wanted = [f for f in overloads if "generated" not in f.tags]
        if views := [str(f.func.name) for f in wanted if f.is_view_op]:
            raise RefusedError(
                f"aten::{views[0]} returns a view and computes nothing: "
                "register PyTorch's own function in csrc/aten/Views.cpp, like the other views."
            )
        chosen = [f for f in wanted if self._on_cpu(f)]
        if not chosen and not any(f.has_composite_implicit_autograd_kernel for f in wanted):
            chosen = [f for f in wanted if self._composite(f)]
        if not chosen:
            self._refuse(name, wanted or overloads)
        else:
            chosen = self._framed(name, chosen)
            # Users also call the other overloads of the group, which would be slower if derived from the out overload.
            groups = [self._group(f) for f in chosen]
            chosen = [f for f in wanted if f in chosen or (self._group(f) is not None and self._group(f) in groups)]
        kernels = self._arrange(chosen)
        rest = [f for f in overloads if f not in chosen]
        left = [str(f.func.name) for f in rest if self._composite(f)]
        return Operator(name, family, kernels, left, [str(f.func.name) for f in rest if not self._composite(f)])

    def _select(self, name: str) -> tuple[str, list[NativeFunction]]:
        """Returns the name of a family and the overloads meant."""
        for family, functions in self._families.items():
            if name == family or any(name == str(f.func.name.name) for f in functions):
                return family, functions  # the name of the in-place variant also means the family
            for function in functions:
                if name == str(function.func.name):
                    group = self._group_of.get(name)
                    return family, [f for f in functions if f is function or (group and self._group(f) is group)]
        every = [str(f.func.name) for functions in self._families.values() for f in functions]
        near = dict.fromkeys(difflib.get_close_matches(name, [*self._families, *every], 5, 0.7))
        hint = f" Did you mean {', '.join(near)}?" if near else " Look it up in torch.ops.aten."
        raise RefusedError(f"PyTorch has no operator aten::{name}.{hint}")

    def _framed(self, name: str, chosen: list[NativeFunction]) -> list[NativeFunction]:
        """Returns the overloads that a kernel of the device can answer for.

        Raises:
            RefusedError: there is none.
        """
        reasons = {str(function.func.name): self._refusal(function) for function in chosen}
        if all(reasons.values()):
            raise RefusedError(f"aten::{name} {next(iter(reasons.values()))}")
        return [function for function in chosen if not reasons[str(function.func.name)]]

    def _refusal(self, function: NativeFunction) -> str | None:
        overrideable = f"{function.func.name.name.base}_overrideable" in self._families
        return refusal(function, self._parts_of, on_cpu=self._on_cpu(function), overrideable=overrideable)

    def _group(self, function: NativeFunction) -> NativeFunctionsGroup | None:
        return self._group_of.get(str(function.func.name))

    def _on_cpu(self, function: NativeFunction) -> bool:
        if self._cpu.has_kernel(function):
            return True
        group = self._group(function)
        return group is not None and group.structured and self._cpu.has_kernel(group)

    @staticmethod
    def _composite(function: NativeFunction) -> bool:
        return bool(
            "generated" in function.tags
            or function.has_composite_implicit_autograd_kernel
            or function.has_composite_explicit_autograd_kernel
            or function.has_composite_explicit_autograd_non_functional_kernel
        )

    def _arrange(self, chosen: list[NativeFunction]) -> Kernels:
        """Groups the overloads of a structured group, if the helpers in Structured.h support the group."""
        kernels: Kernels = []
        done: list[NativeFunctionsGroup] = []
        for function in chosen:
            group = self._group(function)
            if group is None or not self._servable(group):
                kernels.append((None, [function]))
            elif not any(group is other for other in done):
                done.append(group)
                variants = [f for f in (group.functional, group.inplace, group.out) if f is not None]
                kernels.append((group, [f for f in variants if any(f is c for c in chosen)]))
        return kernels

    @staticmethod
    def _servable(group: NativeFunctionsGroup) -> bool:
        return group.structured and group.out.precomputed is None and len(group.out.func.returns) == 1

    def _refuse(self, name: str, overloads: list[NativeFunction]) -> None:
        implicit = [f for f in overloads if f.has_composite_implicit_autograd_kernel]
        if not implicit:
            raise RefusedError(
                f"aten::{name} has no CPU kernel to use as a reference: it belongs to another device or to another "
                "layout of tensors. Write it by hand, with csrc/aten/native/BiasRelu.cpp as a model."
            )
        parts = self._parts_of(implicit)
        advice = f"port these operators: {', '.join(parts)}" if parts else "port the operators that it calls"
        raise RefusedError(
            f"aten::{name} needs no kernel, because PyTorch computes it from other operators on every device; {advice}."
        )
