"""Device against CPU, operator by operator: median times in one process, interleaved, and their ratios.

``python benchmarks/operators.py`` prints a table and the geometric mean of the ratios. Only ratios mean anything, since
both sides run on the same machine at the same time. ``--threads`` sets PyTorch's intra-op threads for both.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

DEVICE = "openreg"

Case = Callable[[], object]


def cases(device: str) -> dict[str, Case]:
    """The operators that are measured, on one device. Names end in the number of elements where that matters."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).to(device)

    small, small_other = random(4), random(4)
    large, large_other = random(1 << 20), random(1 << 20)
    matrix, matrix_other = random(256, 256), random(256, 256)
    rows = random(256, 512)
    image, filters = random(8, 16, 32, 32), random(16, 16, 3, 3)
    query = random(4, 4, 128, 32)
    table = random(1000, 64)
    indices = torch.randint(0, 1000, (512,), generator=generator).to(device)
    labels = torch.randint(0, 512, (256,), generator=generator).to(device)
    return {
        "empty 4": lambda: torch.empty(4, device=device),
        "empty 1M": lambda: torch.empty(1 << 20, device=device),
        "zeros 4": lambda: torch.zeros(4, device=device),
        "add 4": lambda: small + small_other,
        "add_ 4": lambda: small.add_(small_other),
        "add 1M": lambda: large + large_other,
        "mul 1M": lambda: large * large_other,
        "relu 1M": lambda: large.relu(),
        "exp 1M": lambda: large.exp(),
        "abs 4 (native)": lambda: small.abs(),
        "leaky_relu 1M (native)": lambda: F.leaky_relu(large),
        "sum 4": lambda: small.sum(),
        "sum 1M": lambda: large.sum(),
        "mean rows": lambda: rows.mean(1),
        "mm 256": lambda: matrix @ matrix_other,
        "linear": lambda: F.linear(rows, table.view(125, 512)),
        "softmax": lambda: rows.softmax(1),
        "layer_norm": lambda: F.layer_norm(rows, (512,)),
        "cross_entropy": lambda: F.cross_entropy(rows, labels),
        "conv2d": lambda: F.conv2d(image, filters, padding=1),
        "attention": lambda: F.scaled_dot_product_attention(query, query, query),
        "index": lambda: table[indices],
        "cat": lambda: torch.cat([small, small_other]),
        "view": lambda: small.view(2, 2),
        "copy_ 1M": lambda: large.copy_(large_other),
        "item": lambda: small[0].item(),
        "cummax (boxed)": lambda: small.cummax(0),
    }


def seconds(case: Case, repeats: int, synchronize: Callable[[], None]) -> float:
    """Mean time of one call, everything that it submitted included."""
    started = time.perf_counter()
    for _ in range(repeats):
        case()
    synchronize()
    return (time.perf_counter() - started) / repeats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="intra-op threads (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=21, help="interleaved measurements a case (default: %(default)s)")
    parser.add_argument("--filter", default="", help="only cases whose name contains this")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    module = torch.get_device_module(DEVICE)
    on_cpu, on_device = cases("cpu"), cases(DEVICE)
    ratios = []
    print(f"{'operator':<24} {'cpu us':>10} {'device us':>10} {'ratio':>7}")
    with torch.no_grad():
        for name, cpu_case in on_cpu.items():
            if options.filter not in name:
                continue
            device_case = on_device[name]
            once = max(seconds(cpu_case, 3, lambda: None), seconds(device_case, 3, module.synchronize), 1e-7)
            repeats = max(3, int(0.005 / once))
            cpu_times, device_times = [], []
            for _ in range(options.rounds):
                cpu_times.append(seconds(cpu_case, repeats, lambda: None))
                device_times.append(seconds(device_case, repeats, module.synchronize))
            cpu, device = statistics.median(cpu_times), statistics.median(device_times)
            ratios.append(device / cpu)
            print(f"{name:<24} {cpu * 1e6:10.2f} {device * 1e6:10.2f} {ratios[-1]:7.2f}")
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
    print(f"\ngeometric mean of {len(ratios)} ratios: {mean:.3f}")


if __name__ == "__main__":
    main()
