"""The device on a machine without the SDK's library: ``import torch`` works, and each use names the library.

The package is linked with the SDK, so the loader refuses `_C` where the SDK is not installed. A stand-in then takes the device's
place: it has the device's name, no devices, and one error for everything else.
"""

from types import ModuleType
from typing import Any, NoReturn

import torch
from torch.utils.backend_registration import generate_methods_for_privateuse1_backend, rename_privateuse1_backend

from ._build_info import DEVICE_NAME, PACKAGE_NAME, VENDOR_NAME
from ._loader import missing_library
from ._paths import native_root

# The library that is missing; None if `_C` was loaded.
missing: str | None = None


class MissingLibraryError(RuntimeError, AttributeError):
    """The SDK's library is not on this machine. Also an AttributeError, so that `hasattr` on the device module is false."""


def libraries() -> list[str]:
    """Return the file names of the SDK's libraries and of those that they need, as the build wrote them down."""
    record = native_root() / "share" / "sdk_libraries.txt"
    return record.read_text(encoding="utf-8").split() if record.is_file() else []


def named_in(message: str) -> str | None:
    """Return the library of the SDK that the loader's message says is missing; None if the message says anything else."""
    name = missing_library(message)
    return name if name in libraries() else None


def explanation() -> str:
    """Return the sentence that each use of the device raises."""
    return (
        f"the device '{DEVICE_NAME}' cannot be used because the loader does not find {missing}, which {PACKAGE_NAME} needs: "
        f"install the SDK of {VENDOR_NAME} or add the library's folder to the loader's path; `torch-backend doctor` checks this"
    )


def _refuse() -> NoReturn:
    raise MissingLibraryError(explanation())


class _NoDevice(ModuleType):
    """Stands in for ``torch.<device>``."""

    SUBMODULES = ()

    def is_available(self) -> bool:
        return False

    def device_count(self) -> int:
        return 0

    def is_initialized(self) -> bool:
        return False

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        """Seed all devices, of which there are none. ``torch.manual_seed`` calls this."""

    def _lazy_init(self) -> NoReturn:
        """Raise the sentence. PyTorch calls this before it makes the first tensor on a device."""
        _refuse()

    def __getattr__(self, name: str) -> Any:
        _refuse()


def register(library: str) -> None:
    """Register the stand-in instead of the device."""
    global missing
    missing = library
    rename_privateuse1_backend(DEVICE_NAME)
    torch._register_device_module(DEVICE_NAME, _NoDevice(f"{__package__}.{DEVICE_NAME}"))
    generate_methods_for_privateuse1_backend(for_storage=True)
