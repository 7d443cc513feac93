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

# Written by hand in the template, since an answer chooses whether or which; edits in the example stay there.
GENERATED = frozenset({".copier-answers.yml", ".github/CODEOWNERS", "LICENSE"})

# Not part of a project even where no .gitignore says so.
IGNORED = re.compile(
    r"(^|/)(\.git|\.venv|build|dist|__pycache__|\.pytest_cache|\.ruff_cache|\.mypy_cache|[^/]+\.egg-info)(/|$)"
    r"|\.(so|o|a|py[co]|whl)$|~$|(^|/)(\.DS_Store|CMakeUserPresets\.json)$"
)


def condition(path: str) -> tuple[int, str] | None:
    """Finds the feature that a path belongs to.

    Returns:
        The number of leading path parts that carry the condition and the feature's name, or None.
    """
    parts = path.split("/")
    for feature, prefixes in FEATURES.items():
        for prefix in prefixes:
            wanted = prefix.split("/")
            if parts[: len(wanted)] == wanted:
                return len(wanted), feature
    return None
