"""Which paths of a rendered project belong to which feature, and how paths turn into template paths."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

# Feature (as in copier.yml) -> patterns of the files and folders that are rendered only with it; `*` is one name.
# A feature is whole files, so that no source file needs an `if`.
FEATURES: dict[str, tuple[str, ...]] = {
    "benchmarks": ("benchmarks",),
    "docs": ("docs",),
    "github": (".github",),
    "graphs": (
        "csrc/device/Graph.cpp",
        "csrc/device/Graph.h",
        "csrc/device/substitutes/Graph.cpp",
        "csrc/graph",
        "docs/graphs.md",
        "python/*/features/graphs.py",
        "tests/test_graphs.py",
    ),
    "sharing": (
        "csrc/device/Ipc.cpp",
        "csrc/device/Ipc.h",
        "csrc/device/substitutes/Ipc.cpp",
        "csrc/runtime/ipc",
        "docs/multiprocessing.md",
        "examples/two_processes.py",
        "python/*/_C/_sharing.pyi",
        "python/*/csrc/Sharing.cpp",
        "python/*/features/multiprocessing.py",
        "tests/peer.py",
        "tests/test_multiprocessing.py",
    ),
}

# Files and folders that are rendered only with the emulated device library. But for the emulator itself, the template
# holds others at the same paths, for a library of the vendor's; those are written by hand.
EMULATED = re.compile(
    r"third_party(?=/)|csrc/device(?=/[^/]+\.cpp$|/(Handles|Kernel)\.h$)|cmake/DeviceLibrary\.cmake$|CMakePresets\.json$"
)

# Written by hand in the template, since an answer chooses whether or which; edits in the example stay there.
GENERATED = frozenset({".copier-answers.yml", ".github/CODEOWNERS", "LICENSE"})

# Not part of a project even where no .gitignore says so.
IGNORED = re.compile(
    r"(^|/)(\.git|\.venv|build|dist|__pycache__|\.pytest_cache|\.ruff_cache|\.mypy_cache|[^/]+\.egg-info)(/|$)"
    r"|\.(so|o|a|py[co]|whl)$|~$|(^|/)(\.DS_Store|CMakeUserPresets\.json)$"
)


def conditions(path: str) -> dict[int, str]:
    """Finds the answers that a path of the example depends on.

    Returns:
        For each number of leading path parts that carries a condition, the condition as Jinja has it.
    """
    parts = path.split("/")
    found = {}
    for feature, patterns in FEATURES.items():
        for pattern in patterns:
            wanted = pattern.split("/")
            if len(parts) >= len(wanted) and all(map(fnmatchcase, parts, wanted)):
                found[len(wanted)] = f"'{feature}' in features"
    if emulated := EMULATED.match(path):
        found[len(emulated[0].split("/"))] = "device_library == 'emulated'"
    return found
