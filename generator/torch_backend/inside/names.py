"""Reports the names that Python and torch have taken, and the folder of torch."""

from __future__ import annotations

import builtins
import keyword
import pkgutil
import sys
from collections.abc import Iterator


def report() -> Iterator[tuple[str, list[str]]]:
    """Yields the keywords, the names of Python, the names of torch, and torch's folder, each as a list."""
    yield "keyword", [*(word.lower() for word in keyword.kwlist), *keyword.softkwlist]
    yield "python", [*dir(builtins), *sys.stdlib_module_names, "pip", "setuptools"]
    import torch

    yield "torch", sorted(_attributes() | _operators())
    yield "folder", [str(torch.__path__[0])]


def _attributes() -> set[str]:
    """Attributes of torch, Tensor, Module and storages, and the submodules of torch that an import would add."""
    import torch

    names = set(dir(torch)) | {module.name for module in pkgutil.iter_modules(torch.__path__)}
    tensor, module = torch.empty(0), torch.nn.Linear(1, 1)
    for target in (tensor, module, tensor.untyped_storage(), torch.nn.utils.rnn.PackedSequence):
        # PyTorch's function that generates methods adds both <name>() and is_<name>.
        names |= {attribute.removeprefix("is_") for attribute in dir(target)} | set(dir(target))
    return names


def _operators() -> set[str]:
    """Attributes of torch.ops and the namespaces of registered operators, of which a device has its own."""
    import torch

    return set(dir(torch.ops)) | {name.split("::")[0] for name in torch._C._dispatch_get_all_op_names()}
