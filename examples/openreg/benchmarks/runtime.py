"""Measures copies, events, launches and start-up of the device, each with a limit.

``python benchmarks/runtime.py`` prints one line a measurement. Ratios compare medians of interleaved runs, in one
process, with the CPU's; times in microseconds are the best of many, since on a busy machine the rest measures the others.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch

DEVICE = "openreg"
SIZE = 64 << 20

Case = Callable[[], object]


def clock(case: Case) -> float:
    """Return the seconds of one call."""
    started = time.perf_counter()
    case()
    return time.perf_counter() - started


def report(name: str, value: float, unit: str, bar: float) -> bool:
    within = value <= bar
    print(f"{name:<48} {value:9.2f} {unit:<12} bar {bar:<6g} {'' if within else 'ABOVE'}".rstrip())
    return within


def copies(rounds: int) -> list[bool]:
    """Measure synchronous copies of 64 MB in every direction, compared with copy_ on the CPU."""
    synchronize = torch.accelerator.synchronize
    source, target = (torch.ones(SIZE, dtype=torch.uint8) for _ in range(2))
    pinned = source.pin_memory()
    there, other = source.to(DEVICE), source.to(DEVICE)

    def within() -> None:
        other.copy_(there)
        synchronize()

    cases: dict[str, Case] = {
        "host to device, pageable": lambda: there.copy_(source),
        "host to device, pinned": lambda: there.copy_(pinned),
        "device to host, pageable": lambda: target.copy_(there),
        "device to host, pinned": lambda: pinned.copy_(there),
        "device to device": within,
    }
    if torch.accelerator.device_count() > 1:
        second = source.to(f"{DEVICE}:1")

        def across() -> None:
            second.copy_(there)
            synchronize(0)
            synchronize(1)

        cases["device to another device"] = across
    results = []
    for name, case in cases.items():
        times: tuple[list[float], list[float]] = ([], [])
        for i in range(rounds + 2):
            cpu, device = clock(lambda: target.copy_(source)), clock(case)
            if i >= 2:
                times[0].append(cpu)
                times[1].append(device)
        ratio = statistics.median(times[1]) / statistics.median(times[0])
        results.append(report(f"copy 64 MB, {name}", ratio, "x CPU copy_", 1.1))
    return results


def overlap(rounds: int) -> list[bool]:
    """Measure how soon an asynchronous copy returns, as a part of its duration."""
    pinned = torch.ones(SIZE, dtype=torch.uint8).pin_memory()
    there = torch.empty(SIZE, dtype=torch.uint8, device=DEVICE)
    there.copy_(pinned)
    parts = []
    for _ in range(rounds):
        started = time.perf_counter()
        there.copy_(pinned, non_blocking=True)
        returned = time.perf_counter()
        torch.accelerator.synchronize()
        parts.append((returned - started) / (time.perf_counter() - started))
    return [report("non-blocking pinned copy of 64 MB returns after", 100 * statistics.median(parts), "% of it", 5)]


def best(case: Case, rounds: int, repeats: int) -> float:
    """Return the microseconds of one call, from the best of several runs of many calls."""

    def run() -> None:
        for _ in range(repeats):
            case()

    run()
    return min(clock(run) for _ in range(rounds)) / repeats * 1e6


def latencies(rounds: int) -> list[bool]:
    """Measure events on an idle stream, and the host's time for a queued launch."""
    stream, event = torch.accelerator.current_stream(), torch.Event(DEVICE)

    def record_and_wait() -> None:
        event.record(stream)
        event.synchronize()

    results = [report("event record + synchronize, idle stream", best(record_and_wait, rounds, 1000), "us", 3)]

    pinned = torch.ones(SIZE, dtype=torch.uint8).pin_memory()
    there = torch.empty(SIZE, dtype=torch.uint8, device=DEVICE)
    x, host = torch.ones(4, device=DEVICE), torch.ones(4)
    queued = []
    for _ in range(rounds):
        for _ in range(4):
            there.copy_(pinned, non_blocking=True)
        queued.append(clock(lambda: [x.abs_() for _ in range(500)]) / 500 * 1e6)
        assert not stream.query(), "the copies ended before the launches were submitted"
        torch.accelerator.synchronize()
    cpu = best(host.abs_, rounds, 500)
    print(f"{'  abs_ of 4 elements: queued, on the CPU':<48} {min(queued):9.2f} us, {cpu:.2f} us")
    results.append(report("  so queueing a launch takes", min(queued) - cpu, "us", 1))
    return results


FIRST_TENSOR = """
import sys, time, torch
started = time.perf_counter()
x = torch.ones(4, device=sys.argv[1])
print(time.perf_counter() - started)
"""

IMPORT = """
import sys, time, torch
started = time.perf_counter()
__import__(sys.argv[1])
print(time.perf_counter() - started)
"""


def in_a_process(code: str, argument: str, autoload: bool) -> float:
    environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "1" if autoload else "0"}
    done = subprocess.run(
        [sys.executable, "-c", code, argument], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout) * 1e3


def start_up(processes: int) -> list[bool]:
    """Measure the time from the end of ``import torch`` to the first tensor, and the import of the package."""
    package = torch.get_device_module(DEVICE).__name__.partition(".")[0]
    first: dict[str, list[float]] = {"cpu": [], DEVICE: []}
    imports = []
    for _ in range(processes):
        for device, times in first.items():
            times.append(in_a_process(FIRST_TENSOR, device, autoload=True))
        imports.append(in_a_process(IMPORT, package, autoload=False))
    added = statistics.median(first[DEVICE]) - statistics.median(first["cpu"])
    print(f"{'import of the package, after that of torch':<48} {statistics.median(imports):9.2f} ms")
    return [report("first tensor of a process, over the CPU's", added, "ms", 5)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="intra-op threads (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="measurements of each kind (default: %(default)s)")
    parser.add_argument(
        "--processes",
        type=int,
        default=5,
        help="processes for the start-up measurement, 0 for none (default: %(default)s)",
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with torch.no_grad():
        results = copies(options.rounds) + overlap(options.rounds) + latencies(options.rounds)
    if options.processes > 0:
        results += start_up(options.processes)
    print(f"{sum(results)} of {len(results)} within their limits")


if __name__ == "__main__":
    main()
