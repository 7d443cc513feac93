"""Loads a backend and checks its registrations in PyTorch one by one."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator

FUNCTIONS = (
    "is_available",
    "device_count",
    "current_device",
    "_is_in_bad_fork",
    "manual_seed_all",
    "get_amp_supported_dtype",
)
KERNELS = (
    "aten::empty.memory_format",
    "aten::empty_strided",
    "aten::as_strided",
    "aten::view",
    "aten::_copy_from",
    "aten::_local_scalar_dense",
    "aten::resize_",
    "aten::set_.source_Storage_storage_offset",
)


class MissingError(Exception):
    """A registration is missing; the text names it."""


class SkippedError(Exception):
    """A check does not apply; the text says why."""


def report(package: str, device: str) -> Iterator[tuple[str, str, str]]:
    """Yields for each check (name, "running", "") and then (name, "ok", "missing" or "skip", text).

    Args:
        package: the backend's Python package.
        device: the name that it gives to its device.
    """
    checks: dict[str, Callable[[], str]] = {
        "autoload": lambda: _autoload(package, device),
        "import": lambda: _import(package, device),
        "SDK library": lambda: _sdk_library(package),
        "device module": lambda: _module(device),
        "guard": _guard,
        "hooks": _hooks,
        "allocator": lambda: _allocator(device),
        "generator": lambda: _generator(device),
        "minimal kernels": _kernels,
        "fallback": _fallback,
        "autocast": lambda: _autocast(device),
        "stream": lambda: _stream(device),
        "pinned memory": _pinned,
        "first tensor": lambda: _first_tensor(device),
    }
    for name, check in checks.items():
        yield name, "running", ""
        try:
            state, text = "ok", check()
        except SkippedError as reason:
            state, text = "skip", str(reason)
        except Exception as error:
            first = str(error).strip().split("\n")[0]
            state, text = "missing", first if isinstance(error, MissingError) else f"{type(error).__name__}: {first}"
            if name in ("import", "SDK library") or (name == "autoload" and "torch" not in sys.modules):
                yield name, state, text
                return  # the checks that follow need the import and the library
        yield name, state, text


def _autoload(package: str, device: str) -> str:
    """Loads the backend as users do, with `import torch` only."""
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        raise SkippedError("switched off by TORCH_DEVICE_BACKEND_AUTOLOAD=0 in the environment")
    try:
        import torch
    except RuntimeError as error:
        raise MissingError(f"`import torch` fails: {_cause(error)}") from None
    if package not in sys.modules:
        raise MissingError(f"`import torch` did not import {package}")
    name = torch._C._get_privateuse1_backend_name()
    if name != device:
        raise MissingError(f"after `import torch` the backend is called {name!r}, not {device!r}")
    return f"`import torch` loads {package}"


def _cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).strip().split("\n")[0]


def _import(package: str, device: str) -> str:
    import torch

    module = importlib.import_module(package)
    name = torch._C._get_privateuse1_backend_name()
    if name != device:
        raise MissingError(
            f"PyTorch calls the backend {name!r}, not {device!r}: rename_privateuse1_backend was not called"
        )
    return f"torch {torch.__version__}, device {name!r} from {module.__file__}"


def _sdk_library(package: str) -> str:
    """Asks the package, which registers a stand-in for the device if the loader does not find the SDK's library."""
    library = sys.modules.get(f"{package}._missing_library")
    if library is None:
        raise SkippedError(f"{package} does not tell its SDK's libraries: it was made by an older template")
    if library.missing:
        raise MissingError(f"the loader does not find {library.missing}: `import torch` works, the device does not")
    names = library.libraries()
    if not names:
        raise SkippedError(f"{package} is not linked with a library of an SDK yet")
    return f"the loader finds {', '.join(names)}"


def _module(device: str) -> str:
    import torch

    module = getattr(torch, device, None)
    if module is None:
        raise MissingError(f"torch.{device} does not exist")
    absent = [name for name in FUNCTIONS if not hasattr(module, name)]
    if absent:
        raise MissingError(f"torch.{device} has no {', '.join(absent)}")
    return f"torch.{device}, {module.device_count()} devices, available: {module.is_available()}"


def _guard() -> str:
    import torch

    try:
        index = torch._C._accelerator_getDeviceIndex()
    except RuntimeError as error:
        if "not linked with support" in str(error):
            raise MissingError("no device guard is registered for PrivateUse1") from None
        _need_device()
        raise
    return f"{index} is the current device"


def _hooks() -> str:
    import torch

    return f"{torch._C._accelerator_hooks_device_count()} devices"


def _devices() -> int:
    import torch

    return int(torch._C._accelerator_hooks_device_count())


def _need_device() -> None:
    if _devices() == 0:
        raise SkippedError("this check needs a device, and device_count() is 0")


def _allocator(device: str) -> str:
    import torch

    try:
        torch._C._accelerator_isAllocatorInitialized()
    except RuntimeError as error:
        if "not a DeviceAllocator" in str(error):
            raise MissingError("no c10::DeviceAllocator is registered for PrivateUse1") from None
        raise
    _need_device()
    storage = torch.UntypedStorage(1024, device=device)
    return f"allocated {storage.nbytes()} bytes on {storage.device}"


def _generator(device: str) -> str:
    import torch

    _need_device()
    generator = torch.Generator(device)
    generator.manual_seed(7)
    return f"seed {generator.initial_seed()} on {generator.device}"


def _kernels() -> str:
    import torch

    absent = [name for name in KERNELS if not torch._C._dispatch_has_kernel_for_dispatch_key(name, "PrivateUse1")]
    if absent:
        raise MissingError(f"no kernel for {', '.join(absent)}")
    return f"{len(torch._C._dispatch_get_registrations_for_dispatch_key('PrivateUse1'))} kernels registered"


def _fallback() -> str:
    import torch

    if not torch._C._dispatch_has_backend_fallback(torch._C.DispatchKey.PrivateUse1):
        raise MissingError("operators without a kernel raise NotImplementedError")
    return "takes every operator that has no kernel"


def _autocast(device: str) -> str:
    import torch

    if not torch._C._dispatch_has_backend_fallback(torch._C.DispatchKey.AutocastPrivateUse1):
        raise MissingError("no fallthrough is registered for the key AutocastPrivateUse1")
    with torch.autocast(device):
        return f"to {torch.get_autocast_dtype(device)} by default"


def _stream(device: str) -> str:
    import torch

    _need_device()
    stream = torch.Stream(device=device)
    event = torch.Event(device=device)
    event.record(stream)
    stream.synchronize()
    if not event.query():
        raise MissingError("an event is not complete after its stream was synchronized")
    return "created a stream, recorded an event, waited for it"


def _pinned() -> str:
    import torch

    _need_device()
    if not torch.ones(4).pin_memory().is_pinned():
        raise MissingError("pin_memory() returns memory that is not pinned")
    return "pinned host memory"


def _first_tensor(device: str) -> str:
    import torch

    _need_device()
    x = torch.arange(4.0).to(device)
    y = (x + 1).sum().item()
    if y != 10:
        raise MissingError(f"(arange(4) + 1).sum() is {y}, not 10")
    return "copied a tensor to the device, added, summed, and read the result"
