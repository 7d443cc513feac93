"""Stand-ins that need no compiler: packages that pretend to be a backend, and a torch that is imported in no time."""

from __future__ import annotations

from pathlib import Path

from .torch_release import FIRST

FAKE_TORCH = """\
__version__ = "{version}"
def compiled_with_cxx11_abi():
    return {abi}
"""


def install(site: Path, package: str, code: str = "", *, entry_point: str | None = None, version: str = "1.0") -> Path:
    """Puts a package and its metadata into a folder, as an installer would. Returns the package's folder."""
    folder = site / package
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(code, encoding="utf-8")
    describe(site, package, module=package, entry_point=entry_point or package, version=version)
    return folder


def describe(site: Path, name: str, *, module: str, entry_point: str, version: str = "1.0") -> None:
    """Writes the metadata of a distribution whose entry point makes torch load a module."""
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[torch.backends]\n{entry_point} = {module}:_autoload\n", encoding="utf-8")
    (info / "RECORD").write_text(f"{module}/__init__.py,,\n", encoding="utf-8")


def fake_torch(site: Path, version: str = FIRST, *, abi: bool = True) -> None:
    """Writes a torch that has metadata and loads no backend."""
    folder = site / "torch"
    (folder / "include" / "torch").mkdir(parents=True)
    (folder / "include" / "torch" / "library.h").touch()
    cmake = folder / "share" / "cmake"
    (cmake / "Torch").mkdir(parents=True)
    (cmake / "Torch" / "TorchConfig.cmake").touch()
    (folder / "__init__.py").write_text(FAKE_TORCH.format(version=version, abi=abi), encoding="utf-8")
    (folder / "utils.py").write_text(f"cmake_prefix_path = {str(cmake)!r}\n", encoding="utf-8")
