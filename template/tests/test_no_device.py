"""Without a device: everything loads and answers, and the first use of the device says what is missing."""

import pytest
from abilities import has
from busy import launch_variable
from conftest import MODULE, RunPython

pytestmark = pytest.mark.no_device


@pytest.fixture
def without() -> dict[str, str]:
    """The environment in which there is no device."""
    if MODULE.device_count() == 0:
        return {}
    if not has("emulator"):
        pytest.skip("this machine has a device, and nothing can hide it")
    return {str(launch_variable()).removesuffix("LAUNCH") + "NUM_DEVICES": "0"}


def test_everything_loads_without_a_device(without: dict[str, str], run_python: RunPython) -> None:
    code = """
import torch
module = torch.get_device_module(device)
print(module.device_count(), module.is_available(), torch.accelerator.is_available(), torch.accelerator.device_count())
print(torch.device(device), module.is_initialized(), module.memory_stats() if module.is_initialized() else {})
"""
    done = run_python(code, env=without)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "0 False False 0"
    assert done.stdout.split("\n")[1].endswith("False {}")


def test_each_use_says_that_there_is_no_device(without: dict[str, str], run_python: RunPython) -> None:
    code = """
import torch
module = torch.get_device_module(device)
for use in (
    lambda: torch.ones(2, device=device),
    lambda: torch.ones(2).to(device),
    lambda: torch.nn.Linear(2, 2).to(device),
    module.init,
):
    try:
        use()
    except RuntimeError as error:  # or NotImplementedError, which is one
        print(str(error).splitlines()[0])
"""
    done = run_python(code, env=without)
    assert done.returncode == 0, done.stderr
    messages = done.stdout.splitlines()
    assert len(messages) == 4, messages
    for message in messages:
        assert "device is available on this machine" in message or "is not written yet" in message


def test_the_cpu_works_without_a_device(without: dict[str, str], run_python: RunPython) -> None:
    code = """
import torch
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader
torch.manual_seed(3)
net = torch.nn.Linear(3, 1)
with torch.autocast("cpu", dtype=torch.bfloat16):
    checkpoint(net, torch.ones(2, 3), use_reentrant=False).sum().backward()
torch.optim.AdamW(net.parameters()).step()
print(torch.cat(list(DataLoader(torch.arange(8.0), batch_size=4))).sum().item())
"""
    done = run_python(code, env=without)
    assert (done.returncode, done.stdout, done.stderr) == (0, "28.0\n", "")
