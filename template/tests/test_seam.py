"""The seam: only csrc/device includes the SDK, so a port replaces only that folder."""

import re
from pathlib import Path

import pytest
from conftest import PROJECT

pytestmark = pytest.mark.no_device

INCLUDED = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


# Headers of PyTorch, of this project and of the system, which say nothing about the SDK. Those of C++ itself have no dot.
SYSTEM = re.compile(
    r"((ATen|c10|device|linux|sys|torch)/.*|("
    r"assert|complex|ctype|dirent|dlfcn|errno|execinfo|fcntl|fenv|float|inttypes|limits|locale|malloc|math"
    r"|poll|pthread|pwd|sched|semaphore|setjmp|signal|spawn|stdarg|stdatomic|stdbool|stddef|stdint|stdio"
    r"|stdlib|string|strings|syslog|termios|time|ucontext|uchar|unistd|wchar|wctype"
    r")\.h)"
)


def sources(*folders: str) -> list[Path]:
    """Return the C and C++ files below folders of the project."""
    found = [path for folder in folders for path in Path(PROJECT, folder).rglob("*") if path.is_file()]
    return [path for path in found if path.suffix in {".h", ".c", ".cpp"}]


def may_be_of_the_sdk(header: str) -> bool:
    """Return whether a header belongs neither to C++, nor to the system, PyTorch or this project."""
    return "." in header and not SYSTEM.fullmatch(header)


def sdk_headers() -> set[str]:
    """Return the include paths of the SDK's headers: those of the emulated SDK, and those that Handles.h includes."""
    folders = PROJECT.glob("third_party/*/include")
    emulated = {header.relative_to(folder).as_posix() for folder in folders for header in folder.rglob("*.h")}
    handles = INCLUDED.findall(Path(PROJECT, "csrc", "device", "Handles.h").read_text())
    return emulated | {name for name in handles if may_be_of_the_sdk(name)}


def test_headers_of_the_system_are_none_of_the_sdk() -> None:
    for name in ("vector", "unistd.h", "sys/mman.h", "c10/util/Exception.h", "device/Stream.h"):
        assert not may_be_of_the_sdk(name), name
    for name in ("mychip.h", "mychip.hpp", "mychip/runtime.h"):
        assert may_be_of_the_sdk(name), name


def test_only_the_seam_includes_the_sdk() -> None:
    headers = sdk_headers()
    users = {path for path in sources("csrc", "python") if headers & set(INCLUDED.findall(path.read_text()))}
    assert {path.parent.relative_to(PROJECT).as_posix() for path in users} <= {"csrc/device"}


def test_every_function_of_the_seam_is_defined_in_it() -> None:
    declared = {
        name
        for path in Path(PROJECT, "csrc", "device").glob("*.h")
        for name in re.findall(r"(?m)^(?:\[\[noreturn\]\] )?BACKEND_API [\w:*& ]+?\**(\w+)\(", path.read_text())
    }
    defined = "\n".join(path.read_text() for path in Path(PROJECT, "csrc", "device").rglob("*.cpp"))
    assert len(declared) > 30
    assert sorted(name for name in declared if not re.search(rf"\b{name}\(", defined)) == []
