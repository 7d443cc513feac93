"""Compares each operator on the device with the CPU: median times of interleaved measurements, and their ratios.

``python benchmarks/operators.py`` prints a table, what is above its bar, and the geometric mean of the operators' ratios.
Only ratios mean anything, since both sides run on the same machine at the same time. ``--threads`` sets PyTorch's
intra-op threads for both. Fails with ``--strict`` if anything is above its bar.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable
from itertools import chain

import torch
from cases import Call, Case, operators, training

DEVICE = "openreg"

BAR_OF_MEAN = 1.10
BARS = {"small": 1.5, "boxed": 1.6, "training": 1.10}
BAR_OF_LONG_ONES = 1.10
LONG = 100e-6  # seconds that the CPU takes


def bar_of(case: Case, cpu: float) -> float | None:
    """Return the highest accepted ratio. Large operands have no limit if the CPU is very fast."""
    return BARS.get(case.kind, BAR_OF_LONG_ONES if cpu > LONG else None)


def seconds(call: Call, repeats: int, synchronize: Callable[[], None]) -> float:
    """Return the mean time of one call, including all work that it submits."""
    started = time.perf_counter()
    for _ in range(repeats):
        call()
    synchronize()
    return (time.perf_counter() - started) / repeats


def measure(cpu: Call, device: Call, rounds: int) -> tuple[float, float]:
    """Return the median seconds of a call on each side, measured alternately."""
    synchronize = torch.get_device_module(DEVICE).synchronize
    once = max(seconds(cpu, 3, lambda: None), seconds(device, 3, synchronize), 1e-7)
    repeats = max(3, int(0.005 / once))
    pairs = [(seconds(cpu, repeats, lambda: None), seconds(device, repeats, synchronize)) for _ in range(rounds)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="intra-op threads (default: %(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=21, help="interleaved measurements of each case (default: %(default)s)"
    )
    parser.add_argument("--filter", default="", help="only cases whose name contains this")
    parser.add_argument("--strict", action="store_true", help="exit with code 1 if a ratio is above its limit")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    ratios, above = [], []
    print(f"{'operator':<26} {'cpu us':>10} {'device us':>10} {'ratio':>7}")
    with torch.no_grad():
        on_cpu, on_device = (chain(operators(where), training(where)) for where in ("cpu", DEVICE))
        for on_cpu_case, case in zip(on_cpu, on_device, strict=True):
            if options.filter not in case.name:
                continue
            cpu, device = measure(on_cpu_case.call, case.call, options.rounds)
            ratio, bar = device / cpu, bar_of(case, cpu)
            mark = ""
            if bar is not None and ratio > bar:
                above.append(case.name)
                mark = f"  above {bar:.2f}"
            if case.kind != "training":
                ratios.append(ratio)
            print(f"{case.name:<26} {cpu * 1e6:10.2f} {device * 1e6:10.2f} {ratio:7.2f}{mark}")
    if ratios:
        mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
        if mean > BAR_OF_MEAN:
            above.append("geometric mean")
        print(f"\ngeometric mean of {len(ratios)} ratios: {mean:.3f}, limit {BAR_OF_MEAN:.2f}")
    print(f"above their limits: {', '.join(above) or 'none'}")
    sys.exit(1 if options.strict and above else 0)


if __name__ == "__main__":
    main()
