"""The library that the system's loader does not find, as its messages name it. The standard library alone is imported here."""

import re
from pathlib import Path

# The messages of glibc, musl and macOS. Windows does not name the library.
_NOT_FOUND = re.compile(
    r"(?P<glibc>\S+): cannot open shared object file"
    r"|Error loading shared library (?P<musl>\S+?):"
    r"|Library not loaded: (?P<macos>\S+)",
)


def missing_library(message: str) -> str | None:
    """Return the file name of the library that the message says is missing; None if the message says anything else."""
    found = _NOT_FOUND.search(message)
    return Path(next(filter(None, found.groups()))).name if found else None
