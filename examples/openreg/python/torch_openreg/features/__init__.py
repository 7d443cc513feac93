"""Optional parts of the project: one module for each, which is there if the project has the feature.

A module names in ``__all__`` what it adds to ``torch.<device>``, where it is a submodule itself. Its ``install()`` is run when
the device is made known to PyTorch.
"""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

MODULES: dict[str, ModuleType] = {
    found.name: import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)
}
