"""Two processes that work on the same device memory.

Run it from anywhere: ``python examples/two_processes.py``. It needs the package installed and nothing else.
"""

from multiprocessing import Queue

import torch
import torch.multiprocessing as mp


def work(tasks: "Queue[torch.Tensor | None]", results: "Queue[str]") -> None:
    while (x := tasks.get()) is not None:
        x.mul_(2)  # in the memory of the other process
        torch.accelerator.synchronize()
        results.put("done")


def main() -> None:
    device = torch.accelerator.current_accelerator()
    context = mp.get_context("spawn")
    tasks, results = context.Queue(), context.Queue()
    worker = context.Process(target=work, args=(tasks, results))
    worker.start()

    x = torch.arange(5, device=device)
    tasks.put(x)
    results.get()
    print(x)  # the doubled values

    tasks.put(None)
    worker.join()


if __name__ == "__main__":
    main()
