"""A CUDA build of torch that a machine without CUDA can import.

The wheel is the package index's. Of the libraries that it needs, the small ones come from there too. The others take
several gigabytes, and nothing here calls them: they are stand-ins, which the C compiler makes from the symbols that
torch's libraries ask for. All of it, 540 MB to fetch, is kept in a folder outside of the work tree.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .running import checked

CACHE = "TORCH_BACKEND_CACHE"  # the environment variable that names the folder
SMALL = ("nvidia-cuda-runtime", "nvidia-cuda-cupti", "nvidia-nvtx")


class UnavailableError(Exception):
    """This machine cannot get such a build. The message gives the reason."""


def cache_folder() -> Path:
    """Returns the folder in which builds are kept."""
    if chosen := os.environ.get(CACHE):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torch-backend"


def cuda_build(release: str) -> Path:
    """Returns a folder of packages that holds this release of torch, built for CUDA. Fetches it if it is not there.

    Raises:
        UnavailableError: the package index cannot be reached, or has no such build for this machine.
    """
    folder = cache_folder() / f"torch-{release}-cuda-{sys.implementation.cache_tag}"
    if folder.is_dir():
        return folder
    if sys.platform != "linux":
        raise UnavailableError("stand-ins for CUDA's libraries are made on Linux only")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}-") as scratch:
        packages = Path(scratch) / "packages"
        _install(packages, f"torch==={release}")  # three signs: not the CPU build of this release
        cuda = re.search(r"(?m)^cuda\b.*= '(\d+\.\d+)'", (packages / "torch" / "version.py").read_text("utf-8"))
        if cuda is None:
            raise UnavailableError(
                f"torch {release} is not built for CUDA in what the package index has for this machine"
            )
        _install(packages, *(f"{name}~={cuda[1]}" for name in SMALL))
        _write_stand_ins(packages)
        packages.rename(folder)
    return folder


def _install(packages: Path, *requirements: str) -> None:
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-cache-dir", "--only-binary", ":all:")
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(packages), *requirements]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        told = done.stderr.strip().splitlines() or ["no message"]
        raise UnavailableError(f"pip cannot install {' '.join(requirements)}: {told[-1]}")


def _write_stand_ins(packages: Path) -> None:
    """Makes the libraries that `import torch` does not find. A call of one ends the process."""
    library = packages / "torch" / "lib" / "libtorch_python.so"  # needs all that is loaded by `import torch`
    (runtime,) = packages.glob("nvidia/*/lib/libcudart.so.*")
    folder = runtime.parent  # one of those that torch's libraries look into
    missing = set(re.findall(r"(?m)^\s*(\S+) => not found", _linked(library)))
    for name in missing:
        _compile(folder / name, "")

    # With empty ones in their places, the loader says which symbols are missing, and of which version.
    symbols: dict[str, set[str]] = {}
    for symbol, version in re.findall(r"(?m)^undefined symbol: (\w+)(?:, version (\S+))?", _linked(library, "-r")):
        if not re.match(r"_?Py", symbol):  # the interpreter has these
            symbols.setdefault(version, set()).add(symbol)
    named = sorted(symbol for group in symbols.values() for symbol in group)
    body = r'{ fprintf(stderr, "%s is a stand-in\n", __func__); abort(); }'
    code = "#include <stdio.h>\n#include <stdlib.h>\n" + "".join(f"void {symbol}(void) {body}\n" for symbol in named)
    script = "".join(
        f"{version} {{ {' '.join(f'{symbol};' for symbol in sorted(group))} }};\n"
        for version, group in symbols.items()
        if version
    )
    # Each has all symbols: which of the libraries one belongs to makes no difference to the loader.
    for name in missing:
        _compile(folder / name, code, script)


def _linked(library: Path, *options: str) -> str:
    """Returns the output of ldd for a library: the found libraries, and with -r the missing symbols."""
    done = subprocess.run(["ldd", *options, str(library)], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def _compile(library: Path, code: str, script: str = "") -> None:
    """Makes a shared library under its own name; the script puts symbols into versions."""
    with tempfile.TemporaryDirectory() as folder:
        source, versions = Path(folder) / "standin.c", Path(folder) / "standin.map"
        source.write_text(code, encoding="utf-8")
        versions.write_text(script, encoding="utf-8")
        options = ["-shared", "-fPIC", "-fno-builtin", f"-Wl,-soname,{library.name}"]
        options += [f"-Wl,--version-script={versions}"] if script else []
        compiler = os.environ.get("CC") or shutil.which("cc") or "gcc"
        checked(compiler, *options, "-o", library, source, cwd=library.parent)
