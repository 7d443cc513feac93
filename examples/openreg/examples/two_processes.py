"""Two processes that work on the same device memory.

Run it from anywhere: ``python examples/two_processes.py``. It needs the package installed and nothing else.
"""

import sys
from multiprocessing.connection import Connection

import torch
import torch.multiprocessing as mp


def work(parent: Connection) -> None:
    while (x := parent.recv()) is not None:
        x.mul_(2)  # in the memory of the other process
        torch.accelerator.synchronize()
        parent.send("done")


def main() -> None:
    if torch.accelerator.device_count() == 0:
        sys.exit("there is no device on this machine")
    device = torch.accelerator.current_accelerator()
    if sentence := torch.get_device_module(device).missing_capabilities().get("sharing"):
        sys.exit(sentence)
    context = mp.get_context("spawn")
    connection, other_end = context.Pipe()
    worker = context.Process(target=work, args=(other_end,), daemon=True)
    worker.start()
    other_end.close()  # the worker alone has it now, so that reading raises an error when the worker ends

    x = torch.arange(5, device=device)
    try:
        connection.send(x)
        connection.recv()
        print(x)  # the doubled values
        connection.send(None)
    except (EOFError, OSError):
        pass  # the worker has ended; its exit code says why
    worker.join()
    if worker.exitcode != 0:
        sys.exit(f"the other process failed with exit code {worker.exitcode}")


if __name__ == "__main__":
    main()
