"""Talks to a command at a terminal of 80 columns."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterable, Sequence

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


def talk(command: Sequence[str], replies: Iterable[tuple[str, str]], limit: float = 120) -> tuple[int, str]:
    """Runs a command. Waits for each text and types the reply to it.

    Returns:
        The exit code, and all that was shown, without control sequences.
    """
    terminal, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        command, stdin=there, stdout=there, stderr=there, env=os.environ | {"TERM": "xterm"}, start_new_session=True
    )
    os.close(there)
    end = time.monotonic() + limit
    shown = ""
    try:
        for awaited, reply in replies:
            seen = len(shown)
            while awaited not in _CONTROL.sub("", shown[seen:]):
                text = _read(terminal)
                if text is None or time.monotonic() > end:
                    raise AssertionError(f"{awaited!r} was not shown:\n{shown}")
                shown += text
            os.write(terminal, reply.encode())
        while (text := _read(terminal)) is not None and time.monotonic() < end:
            shown += text
        return process.wait(timeout=10), _CONTROL.sub("", shown)
    finally:
        process.kill()
        os.close(terminal)


def _read(terminal: int) -> str | None:
    """Returns what was shown within a moment; None when the command has ended."""
    if not select.select([terminal], [], [], 0.1)[0]:
        return ""
    try:
        return os.read(terminal, 65536).decode(errors="replace") or None
    except OSError:
        return None
