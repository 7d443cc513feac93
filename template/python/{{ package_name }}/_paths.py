"""Where the C++ side of the installed package is, for builds of extensions that bring kernels for the device."""

from pathlib import Path

from ._build_info import PACKAGE_NAME


def _root() -> Path:
    """Return the folder of the native libraries; if the package is installed editable, it is not that of this file."""
    from . import _C

    return Path(str(_C.__file__)).parent


def include_paths() -> list[str]:
    """Return the folders to search for headers: the first holds ``<package>/...`` and the SDK's, the second csrc/'s."""
    include = _root() / "include"
    return [str(include), str(include / PACKAGE_NAME)]


def library_paths() -> list[str]:
    """Return the folders that hold the libraries to link."""
    return [str(_root() / "lib")]


def cmake_prefix_path() -> str:
    """Return what CMAKE_PREFIX_PATH has to name for ``find_package`` to find this package."""
    return str(_root() / "share" / "cmake")
