"""Handles Ctrl-C and termination signals: before the point of no return they remove what the work has created."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def interruptible() -> Iterator[None]:
    """Turns a termination signal into an exception, so that scratch folders are removed."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = {number: signal.signal(number, stop) for number in _SIGNALS}
    except ValueError:  # not the main thread; only the main thread gets signals
        yield
        return
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, signal.SIG_DFL if old is None else old)


def point_of_no_return() -> None:
    """Ignores termination signals until ``interruptible`` ends, because half-finished work would be worse."""
    with suppress(ValueError):
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
