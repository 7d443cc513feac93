"""Paths of the headers and libraries in the installed package, for builds of extensions."""

from importlib.util import find_spec
from pathlib import Path

from ._build_info import PACKAGE_NAME


def native_root() -> Path:
    """Return the folder of the native libraries. In an editable install it differs from the folder of this file."""
    spec = find_spec(f"{__package__}._C")  # not imported: a machine that builds extensions may be without the SDK
    if spec is None:
        raise ImportError(f"{PACKAGE_NAME} has no compiled module _C for this Python. Build and install it again.")
    return Path(str(spec.origin)).parent


def include_paths() -> list[str]:
    """Return the include folders: the first has ``<package>/...`` and the SDK's headers, the second those of csrc/."""
    include = native_root() / "include"
    return [str(include), str(include / PACKAGE_NAME)]


def library_paths() -> list[str]:
    """Return the folders of the libraries to link."""
    return [str(native_root() / "lib")]


def cmake_prefix_path() -> str:
    """Return the folder for CMAKE_PREFIX_PATH, so that ``find_package`` finds this package."""
    return str(native_root() / "share" / "cmake")
