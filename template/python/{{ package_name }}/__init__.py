"""The PyTorch backend of the device. ``import torch`` loads it through the entry point group ``torch.backends``."""

from typing import Any

from ._paths import include_paths as include_paths
from ._paths import library_paths as library_paths

_loaded = False


def _autoload() -> None:
    """Register the device with PyTorch. This is the entry point; a second call does nothing."""
    global _loaded
    if _loaded:
        return
    from . import _registration

    _registration.register()
    _loaded = True


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version(__name__)
    if name == "cmake_prefix_path":
        from . import _paths

        return _paths.cmake_prefix_path()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# After `_autoload`, because with autoload on, this import calls it before this module is complete.
import torch  # noqa: E402, F401

_autoload()
