"""What the runtime costs beside the kernels: copies, events, launches, start-up.

``python benchmarks/runtime.py`` prints each with the limit that it is held to. Copies are compared with the CPU's own, in
one process and interleaved; the rest is in microseconds, and means something on an idle machine only.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

DEVICE = "openreg"
BYTES = 64 << 20

Action = Callable[[], object]


def median_us(action: Action, after: Action, repeat: int) -> float:
    """Median microseconds of `action`; `after` runs between, untimed."""
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
        after()
    return statistics.median(times) * 1e6


def ratios(candidates: dict[str, Action], reference: Action, repeat: int = 15) -> dict[str, float]:
    """Median times of `candidates` over that of `reference`, all taken in turns."""
    names = ["", *candidates]
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(repeat):
        for name in names:
            action = candidates.get(name, reference)
            begin = time.perf_counter()
            action()
            times[name].append(time.perf_counter() - begin)
    base = statistics.median(times[""])
    return {name: statistics.median(times[name]) / base for name in candidates}


def start_ms(device: str) -> float:
    """Median milliseconds from an imported torch to the first tensor on `device`, in fresh processes."""
    code = (
        "import time, torch; begin = time.perf_counter(); "
        f"torch.ones(4, device='{device}').sum().item(); print((time.perf_counter() - begin) * 1e3)"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    return statistics.median(float(run.stdout) for run in runs)


def report(name: str, value: float, unit: str, limit: float) -> None:
    """Print one line of the table."""
    print(f"{name:<48}{value:>10.2f} {unit:<3}{limit:>10.2f}{'' if value <= limit else '  over'}")


def main() -> None:
    """Measure and print."""
    module = torch.get_device_module(DEVICE)
    wait = module.synchronize
    print(f"{'':<48}{'measured':>10}    {'limit':>10}")

    host, host_target = torch.ones(BYTES, dtype=torch.uint8), torch.ones(BYTES, dtype=torch.uint8)
    device, device_target = host.to(DEVICE), host.to(DEVICE)

    def within() -> None:
        device_target.copy_(device)
        wait()

    copies: dict[str, Action] = {
        "64 MB host to device, over CPU copy_": lambda: device.copy_(host),
        "64 MB device to host, over CPU copy_": lambda: host_target.copy_(device),
        "64 MB within the device, over CPU copy_": within,
    }
    for name, ratio in ratios(copies, lambda: host_target.copy_(host)).items():
        report(name, ratio, "x", 1.1)

    event = torch.Event(DEVICE)

    def record_and_wait() -> None:
        event.record()
        event.synchronize()

    report("event: record and synchronize, idle stream", median_us(record_and_wait, wait, 2000), "us", 3.0)

    pinned = host.pin_memory()
    returned = median_us(lambda: device.copy_(pinned, non_blocking=True), wait, 15)

    def complete() -> None:
        device.copy_(pinned, non_blocking=True)
        wait()

    whole = median_us(complete, wait, 15)
    report("64 MB non-blocking copy: returns after, of all", 100 * returned / whole, "%", 5.0)

    # Behind a long copy nothing can run at once, so each launch is queued.
    x = torch.ones(4, device=DEVICE)

    def launches(number: int) -> Action:
        def run() -> None:
            device.copy_(pinned, non_blocking=True)
            for _ in range(number):
                F.leaky_relu_(x, 0.5)

        return run

    one, many = median_us(launches(0), wait, 15), median_us(launches(500), wait, 15)
    idle = median_us(lambda: F.leaky_relu_(x, 0.5), wait, 500)
    report("operator, queued behind a copy", (many - one) / 500, "us", 2 * idle)

    cpu, ours = start_ms("cpu"), start_ms(DEVICE)
    report("first tensor of a process, over the CPU's", ours - cpu, "ms", 5.0)


if __name__ == "__main__":
    main()
