"""Paths of the headers and libraries in the installed package, for builds of extensions."""

from pathlib import Path

from ._build_info import PACKAGE_NAME


def _root() -> Path:
    """Return the folder of the native libraries. In an editable install it differs from the folder of this file."""
    from . import _C

    return Path(str(_C.__file__)).parent


def include_paths() -> list[str]:
    """Return the include folders: the first has ``<package>/...`` and the SDK's headers, the second those of csrc/."""
    include = _root() / "include"
    return [str(include), str(include / PACKAGE_NAME)]


def library_paths() -> list[str]:
    """Return the folders of the libraries to link."""
    return [str(_root() / "lib")]


def cmake_prefix_path() -> str:
    """Return the folder for CMAKE_PREFIX_PATH, so that ``find_package`` finds this package."""
    return str(_root() / "share" / "cmake")
