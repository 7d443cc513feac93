"""Describes a Python: headers, torch, installed packages, backends. It loads no backend."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import platform
import sys
import sysconfig
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

GROUP = "torch.backends"
TOOLS = ("torch", "scikit-build-core", "pybind11", "wheel", "pip", "cmake", "ninja")


def report(package: str = "") -> Iterator[tuple[str, Any]]:
    """Yields facts by name.

    Args:
        package: the package of a backend to describe in detail; empty for none.
    """
    yield "python", _python()
    yield "versions", {name: _version(name) for name in TOOLS}
    yield "backends", _backends()
    if package:
        yield "package", _package(package)
    yield "torch", _torch()


def _python() -> dict[str, Any]:
    include = sysconfig.get_path("include")
    return {
        "version": platform.python_version(),
        "executable": sys.executable,
        "include": include,
        "headers": Path(include, "Python.h").is_file(),
        "managed": sys.prefix == sys.base_prefix and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").is_file(),
        "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    }


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _normal(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


def _backends() -> list[dict[str, Any]]:
    """Lists the entry points of all distributions on the path, including distributions that others hide."""
    found = []
    for distribution in metadata.distributions():
        for entry in distribution.entry_points:
            if entry.group == GROUP:
                module = entry.value.split(":")[0].strip()
                found.append(
                    {
                        "entry_point": entry.name,
                        "module": module,
                        "distribution": distribution.metadata["Name"],
                        "version": distribution.version,
                        "folder": str(distribution.locate_file("")),
                        "found": importlib.util.find_spec(module.split(".")[0]) is not None,
                    }
                )
    return found


def _package(package: str) -> dict[str, Any]:
    """Describes where a package is imported from, and which distributions contain it."""
    installs = []
    for distribution in metadata.distributions():
        if _normal(str(distribution.metadata["Name"])) == _normal(package):
            installs.append({"version": distribution.version, "folder": str(distribution.locate_file(""))})
    owners = metadata.packages_distributions().get(package, []) if sys.version_info >= (3, 10) else []
    spec = importlib.util.find_spec(package)
    # Without an origin it is only a folder of that name without __init__.py.
    folder = Path(spec.origin).parent if spec and spec.origin else None
    library = _library(package, folder)
    return {
        "installs": installs,
        "owners": sorted(set(owners)),
        "folder": str(folder) if folder else None,
        "library": str(library) if library else None,
        "built": _built(package, library) if library else None,
        "torch_minor": _built_for(folder) if folder else None,
    }


def _library(package: str, folder: Path | None) -> Path | None:
    """Finds the compiled module. An editable install keeps it apart from the Python files."""
    folders = [folder] if folder else []
    folders += [Path(entry, package) for entry in sys.path if entry]
    for candidate in folders:
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            if (candidate / f"_C{suffix}").is_file():
                return candidate / f"_C{suffix}"
    return None


def _built(package: str, library: Path) -> float:
    """Returns the time of the last build. A build may link only some libraries, so the newest file counts."""
    files = [library, *library.parent.joinpath("lib").glob("*")]
    try:
        listed = metadata.distribution(package).files or []
    except metadata.PackageNotFoundError:
        listed = []
    files += [Path(str(file.locate())) for file in listed if file.parts[0].endswith(".dist-info")]
    return max(file.stat().st_mtime for file in files if file.is_file())


def _built_for(folder: Path) -> str | None:
    path = folder / "_build_info.py"
    if not path.is_file():
        return None
    values: dict[str, Any] = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), values)
    return values.get("TORCH_MINOR")


def _torch() -> dict[str, Any]:
    """Imports torch without any backend."""
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    try:
        import torch
        import torch.utils
    except ImportError as error:
        return {"version": None, "error": str(error)}
    prefix = Path(torch.utils.cmake_prefix_path)
    return {
        "version": torch.__version__,
        "file": torch.__file__,
        "cxx11_abi": torch.compiled_with_cxx11_abi(),
        "cmake_prefix": str(prefix),
        "cmake_files": (prefix / "Torch" / "TorchConfig.cmake").is_file(),
        "headers": Path(str(torch.__file__)).parent.joinpath("include", "torch", "library.h").is_file(),
    }
