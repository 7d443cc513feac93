"""The error that the commands print without a traceback."""

from __future__ import annotations

import errno
import os
import re
import shutil


class UserError(Exception):
    """An error that the user can fix; the text says how. The exit code is 1 for a finding, 2 for wrong input."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def describe(error: OSError) -> str:
    """Returns the system's reason, the file, and what to do about a full disk."""
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list):
        # One tuple for each file that could not be copied: its source, its target, and the error, which names both.
        text = re.sub(r"^\[Errno \d+\] ", "", str(error.args[0][0][2]))
        full = os.strerror(errno.ENOSPC) in text
    else:
        file = error.filename2 or error.filename
        text = f"{error.strerror or error}{f': {file}' if file else ''}"
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return f"{text}. Free some space, or name a folder for temporary files in TMPDIR." if full else f"{text}."
