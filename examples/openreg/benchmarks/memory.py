"""Compares allocating and freeing a cached block with the CPU's allocator: median times of interleaved measurements.

``python benchmarks/memory.py`` prints a table of ratios. One call is ``torch.empty`` and the end of its result. One
thread is measured in processor time, which other processes disturb little; several in the time of the clock, which
shows how they wait for each other: that of all, divided by the number of calls.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time

import torch

DEVICE = "openreg"

SIZES = {"16 B": 16, "4 KiB": 4 << 10, "1 MiB": 1 << 20, "4 MiB": 4 << 20, "64 MiB": 64 << 20}


def seconds(device: str, size: int, calls: int, threads: int) -> float:
    """Return the mean time of a call that allocates and frees `size` bytes."""
    start = threading.Barrier(threads + 1)

    def work() -> None:
        start.wait()
        for _ in range(calls):
            torch.empty(size, dtype=torch.uint8, device=device)

    clock = time.process_time if threads == 1 else time.perf_counter
    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    start.wait()
    started = clock()
    for worker in workers:
        worker.join()
    return (clock() - started) / (calls * threads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 8], help="threads that allocate (default: 1 8)")
    parser.add_argument("--rounds", type=int, default=41, help="interleaved measurements (default: %(default)s)")
    parser.add_argument("--calls", type=int, default=2000, help="calls in each measurement (default: %(default)s)")
    options = parser.parse_args()

    print(f"{'size':<8} {'threads':>7} {'cpu us':>9} {'device us':>9} {'ratio':>6}")
    for threads in options.threads:
        for name, size in SIZES.items():
            times: dict[str, list[float]] = {"cpu": [], DEVICE: []}
            for _ in range(options.rounds):
                for where, found in times.items():
                    found.append(seconds(where, size, options.calls // threads, threads))
            cpu, device = (statistics.median(found) * 1e6 for found in times.values())
            print(f"{name:<8} {threads:>7} {cpu:9.2f} {device:9.2f} {device / cpu:6.2f}")


if __name__ == "__main__":
    main()
