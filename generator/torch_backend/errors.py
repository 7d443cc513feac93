"""The error that the commands print without a traceback."""

from __future__ import annotations


class UserError(Exception):
    """An error that the user can fix; the text says how. The exit code is 1 for a finding, 2 for wrong input."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code
