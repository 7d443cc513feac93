"""Long work for streams, so that a test can look at what is still pending."""

import time
from collections.abc import Callable
from functools import cache

import pytest
import torch
from conftest import DEVICE, MODULE

MiB = 1 << 20


needs_queues = pytest.mark.needs("queues")


@cache
def pinned_source() -> torch.Tensor:
    """Return 64 MB of pinned memory."""
    return torch.zeros(64 * MiB, dtype=torch.uint8).pin_memory()


@cache
def _target(device: torch.device) -> torch.Tensor:
    # In a segment of its own: the target stays allocated, and would keep the rest of a larger segment for the tests that follow.
    MODULE.empty_cache()
    target = torch.zeros(64 * MiB, dtype=torch.uint8, device=device)
    torch.accelerator.synchronize(device)
    return target


def occupy(stream: torch.Stream, copies: int = 16) -> None:
    """Submit copies of 64 MB, some 10 ms each, to `stream`, and return at once. The copied values have no meaning."""
    target = _target(stream.device)
    with stream:
        for _ in range(copies):
            target.copy_(pinned_source(), non_blocking=True)


def becomes_true(question: Callable[[], bool], seconds: float = 10) -> bool:
    """Ask until the answer is yes, for at most `seconds`. Even an idle stream may need a moment to reach a recorded event."""
    end = time.monotonic() + seconds
    while not question():
        if time.monotonic() > end:
            return False
        time.sleep(0.0005)
    return True


def default_stream(index: int = 0) -> torch.Stream:
    """Return the stream that is current unless a test has set another."""
    return torch.accelerator.current_stream(torch.device(DEVICE, index))
