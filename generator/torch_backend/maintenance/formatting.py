"""Runs clang-format over the C and C++ files of a project.

The style has no column limit, because the same sources are formatted under names of every length. Formatting breaks
long lines in a second pass. A check accepts lines of any length; ``line_length`` checks those of the example.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from torch_backend.errors import UserError

from .line_length import LIMIT
from .trees import project_files

CXX_SUFFIXES = (".c", ".cc", ".cpp", ".h", ".hpp")


def format_cpp(folder: Path, *, check: bool) -> int:
    """Formats with the project's .clang-format, or only checks the format.

    Returns:
        The number of files.

    Raises:
        UserError: clang-format is missing, or a file is not formatted.
    """
    files = [name for name in project_files(folder) if name.endswith(CXX_SUFFIXES)]
    if not files:
        return 0
    if check:
        _clang_format(folder, "--style=file", "--dry-run", "-Werror", *files)
        return len(files)
    _clang_format(folder, "--style=file", "-i", *files)
    for name in files:
        _break_long_lines(folder, name)
    return len(files)


def _clang_format(folder: Path, *arguments: str) -> None:
    try:
        done = subprocess.run(["clang-format", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise UserError("clang-format is missing: pip install clang-format.", 2) from None
    if done.returncode != 0:
        raise UserError(f"{done.stderr}\nNot formatted: run `make format`.")


def _break_long_lines(folder: Path, name: str) -> None:
    """Formats the lines over the limit with a column limit, and then the file without one.

    It breaks after an opening bracket: aligned arguments would depend on the length of names.
    """
    lines = (folder / name).read_text(encoding="utf-8").split("\n")
    long = [number for number, line in enumerate(lines, 1) if len(line) > LIMIT]
    if not long:
        return
    style = (folder / ".clang-format").read_text(encoding="utf-8")
    with tempfile.NamedTemporaryFile("w", suffix=".clang-format", encoding="utf-8") as limited:
        limited.write(
            re.sub(r"(?m)^ColumnLimit:.*$", f"ColumnLimit: {LIMIT}\nAlignAfterOpenBracket: AlwaysBreak", style)
        )
        limited.flush()
        ranges = [f"--lines={number}:{number}" for number in long]
        _clang_format(folder, f"--style=file:{limited.name}", "-i", *ranges, name)
    _clang_format(folder, "--style=file", "-i", name)
