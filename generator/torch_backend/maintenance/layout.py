"""Which paths of a rendered project belong to which feature, and how paths turn into template paths."""

from __future__ import annotations

import re

# Feature (as in copier.yml) -> the files and folders that are rendered only with it, named as in the example.
# A feature is whole files, so that no source file needs an `if`.
FEATURES: dict[str, tuple[str, ...]] = {
    "benchmarks": ("benchmarks",),
    "docs": ("docs",),
    "github": (".github",),
}

# Files and folders that are rendered only with the emulated device library. But for the emulator itself, the template
# holds others at the same paths, for a library of the vendor's; those are written by hand.
EMULATED = re.compile(
    r"third_party(?=/)|csrc/device(?=/[^/]+\.cpp$|/Handles\.h$)|cmake/DeviceLibrary\.cmake$|CMakePresets\.json$"
)

# Written by hand in the template, since an answer chooses whether or which; edits in the example stay there.
GENERATED = frozenset({".copier-answers.yml", ".github/CODEOWNERS", "LICENSE"})

# Not part of a project even where no .gitignore says so.
IGNORED = re.compile(
    r"(^|/)(\.git|\.venv|build|dist|__pycache__|\.pytest_cache|\.ruff_cache|\.mypy_cache|[^/]+\.egg-info)(/|$)"
    r"|\.(so|o|a|py[co]|whl)$|~$|(^|/)(\.DS_Store|CMakeUserPresets\.json)$"
)


def condition(path: str) -> tuple[int, str] | None:
    """Finds the answer that a path of the example depends on.

    Returns:
        The number of leading path parts that carry the condition and the condition as Jinja has it, or None.
    """
    parts = path.split("/")
    for feature, prefixes in FEATURES.items():
        for prefix in prefixes:
            wanted = prefix.split("/")
            if parts[: len(wanted)] == wanted:
                return len(wanted), f"'{feature}' in features"
    if found := EMULATED.match(path):
        return len(found[0].split("/")), "device_library == 'emulated'"
    return None
