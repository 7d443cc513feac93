"""Runs clang-format over the C and C++ files of a project."""

from __future__ import annotations

import subprocess
from pathlib import Path

from torch_backend.errors import UserError

from .trees import project_files

CXX_SUFFIXES = (".c", ".cc", ".cpp", ".h", ".hpp")


def format_cpp(folder: Path, *, check: bool) -> int:
    """Formats by the project's own .clang-format, or only checks.

    Returns:
        How many files were looked at.

    Raises:
        UserError: clang-format is missing, or a file is not formatted.
    """
    files = [name for name in project_files(folder) if name.endswith(CXX_SUFFIXES)]
    if not files:
        return 0
    arguments = ["--dry-run", "-Werror"] if check else ["-i"]
    try:
        done = subprocess.run(
            ["clang-format", "--style=file", *arguments, *files],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise UserError("clang-format is missing: pip install clang-format.", 2) from None
    if done.returncode != 0:
        raise UserError(f"{done.stderr}\nNot formatted: run `make format`.")
    return len(files)
