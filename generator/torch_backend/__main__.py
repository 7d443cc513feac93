"""Starts the command line, for `torch-backend` and for `python -m torch_backend`."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line. Ctrl-C ends it without a traceback, even while it is still being imported."""
    try:
        from .cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
