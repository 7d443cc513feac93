"""How each operator of the installed torch runs on the device, read from PyTorch's dispatcher."""

import re
from collections.abc import Iterable
from typing import TypedDict

import torch

from .. import _C
from ._states import State


class OperatorCoverage(TypedDict):
    """How one operator runs: one of ``STATES``, and the reason."""

    state: State
    reason: str


_BY_POLICY: dict[str, State] = {"emulate": "emulated", "cpu": "cpu", "error": "none"}

# Files whose registrations are not kernels of the device's own.
_LIST, _WHOLE, _COMPOUND, _HOST, _TRANSFORMS, _NANSUM = (
    "RegisterEmulated.cpp",
    "RegisterFallbacks.cpp",
    "MultiPartFallback.cpp",
    "HostOperators.cpp",
    "Fft.cpp",
    "Nansum.cpp",
)

# In the order of the dispatcher's search; all precede the backend's fallback.
_COMPOSITE_KEYS = ("CompositeExplicitAutogradNonFunctional", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
_COMPOUND_KEYS = ("SparsePrivateUse1", "SparseCsrPrivateUse1", "QuantizedPrivateUse1", "NestedTensorPrivateUse1")

# What PyTorch leaves to each device by a name of its own is emulated by the CPU's operator of another name.
_HANDED_ON = {
    "aten::convolution_overrideable": "aten::convolution",
    "aten::convolution_backward_overrideable": "aten::convolution_backward",
    "aten::_scaled_dot_product_fused_attention_overrideable": "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": (
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward"
    ),
}


def coverage() -> dict[str, OperatorCoverage]:
    """Return how each overload of PyTorch's own operators runs, by its full name, such as ``"aten::add.Tensor"``.

    Operators without a kernel of their own are told as they would run now: by their own policy, else by that of the
    process. Under the policy ``error`` their state is ``none``. An operator that has kernels for sparse, quantized or
    nested tensors alone is told by those.
    """
    return describe_operators(name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::"))


def describe_operators(names: Iterable[str]) -> dict[str, OperatorCoverage]:
    """Return how the operators of these full names run, sorted by name. An unknown name has the state ``none``."""
    dispatcher = _Dispatcher()
    described: dict[str, OperatorCoverage] = {}
    for name in sorted(names):
        state, reason = dispatcher.describe(name)
        described[name] = {"state": state, "reason": reason}
    return described


class _Dispatcher:
    """The state of PyTorch's dispatcher and of the policies at one moment."""

    def __init__(self) -> None:
        registrations = torch._C._dispatch_get_registrations_for_dispatch_key
        self.kernels = {
            key: set(registrations(key)) for key in ("CPU", "PrivateUse1", *_COMPOSITE_KEYS, *_COMPOUND_KEYS)
        }
        self.emulated = set(_C._emulated_operators())
        self.policy, _ = _C._get_fallback_policy()
        self.own_policies = _C._get_operator_policies()

    def describe(self, name: str) -> tuple[State, str]:
        if name in self.kernels["PrivateUse1"]:
            return self._registered(name, "PrivateUse1")
        if name in self.emulated:
            return self._by_policy(name, "called by a kernel of the device")
        for key in _COMPOSITE_KEYS:
            if name in self.kernels[key]:
                return "composite", key
        if name in self.kernels["CPU"]:
            return self._by_policy(name, "the fallback of the backend")
        for key in _COMPOUND_KEYS:
            if name in self.kernels[key]:
                return self._registered(name, key)
        return "none", "neither the device nor the CPU has a kernel"

    def _registered(self, name: str, key: str) -> tuple[State, str]:
        file, line, boxed = _registration(name, key)
        if _HANDED_ON.get(name) in self.emulated:
            return self._by_policy(_HANDED_ON[name], f"handed on to {_HANDED_ON[name]}")
        if file == _LIST:
            return self._by_policy(name, "listed in operators.def")
        if file == _NANSUM:
            return self._by_policy(name, "of complex numbers taken apart")
        if file == _WHOLE:
            return self._by_policy(name, "the CPU has a kernel for the whole, which PyTorch would take apart")
        if file == _COMPOUND and boxed:
            return self._by_policy(name, f"the CPU's kernel for {key.removesuffix('PrivateUse1')} tensors")
        if file == _TRANSFORMS:
            return "composite", "CompositeImplicitAutograd, in a wider type where it is of half precision"
        return "cpu" if file == _HOST else "native", f"registered at {file}:{line}"

    def _by_policy(self, name: str, reason: str) -> tuple[State, str]:
        own = self.own_policies.get(name)
        policy = own or self.policy
        if own or policy == "error":
            reason += f"; {'its own' if own else 'the'} policy is {policy!r}"
        return _BY_POLICY[policy], reason


def _registration(name: str, key: str) -> tuple[str, str, bool]:
    """Return the name of the file, the line, and whether there is a boxed form only, of the kernel for a key.

    The dispatcher tells of each kernel in one line: ``PrivateUse1: registered at FILE:LINE :: TYPE [ boxed unboxed ]``.
    """
    row = re.search(rf"^{key}: registered at (.*?):(\d+) .*\[([a-z ]*)\]", torch._C._dispatch_dump(name), re.MULTILINE)
    if row is None:
        return "an unknown place", "0", False
    return re.split(r"[\\/]", row[1])[-1], row[2], "unboxed" not in row[3]
