"""Builds the example with operators from `torch-backend add-op`, and runs the tests that came with them."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner
from torch_backend.cli import main
from torch_backend.environment import create_environment
from torch_backend.maintenance.example import Example
from torch_backend.maintenance.trees import read_project

from .running import sync
from .test_build import SCRATCH

pytestmark = pytest.mark.build

# Element-wise with its gradient and without a structured kernel, a reduction, factories, several results, random
# numbers, lists, out variants that write another tensor too or a list.
OPERATORS = (
    "gelu",
    "gelu_backward",
    "relu",
    "sum",
    "arange",
    "full",
    "add.Tensor",
    "topk",
    "uniform_",
    "_foreach_add_",
    "rrelu_with_noise",
    "unbind_copy",
    "quantize_per_tensor",
    "clamp",
)

# Each operator by the way users call it. Each call must reach a kernel that was added, whose body runs on the host.
CALLS = """
import json, torch
from torch.nn import functional as F
device = torch._C._get_privateuse1_backend_name()
operators = torch.get_device_module(device).operators
x = torch.ones(3, 4, device=device, requires_grad=True)
grad = torch.ones(4, device=device)
operators.reset_fallback_counts()
with torch.no_grad():
    torch.empty(3, device=device).uniform_()
    torch.topk(F.relu(x) + x, 2)
    y = x * 1
    torch._foreach_add_([y], 1)
    assert y._version == 1 and y[0, 0].item() == 2
    torch.full((2,), 1.5, device=device)
    torch.arange(3, device=device)
F.gelu(x).sum(0).backward(grad)
assert operators.usage()["aten::gelu"]["first_call"] == [
    {"argument": "self", "dtype": torch.float32, "shape": (3, 4)}
]
told = operators.coverage()
print(json.dumps({name: told[name]["state"] for name in operators.fallback_counts()}))
operators.set_operator_policy("aten::gelu", "error")
try:
    F.gelu(x)
except NotImplementedError as error:
    assert "aten::gelu still runs on the host, because its kernel in csrc/aten/native/Gelu.cpp:" in str(error), error
else:
    raise AssertionError("the policy `error` did not refuse aten::gelu")
"""

# An out tensor of another dtype than the result: the kernel computes in the dtype of the result, as on the CPU.
OTHER_DTYPES = """
import torch
device = torch.accelerator.current_accelerator().type
yes, both = torch.tensor([True, True]), torch.tensor([False, True])
for dtype in (torch.bool, torch.int64, torch.float16):
    out = torch.zeros(2, dtype=dtype, device=device)
    assert torch.add(both.to(device), yes.to(device), alpha=True, out=out) is out
    assert torch.equal(out.cpu(), torch.add(both, yes, alpha=True, out=torch.zeros(2, dtype=dtype))), out
x = torch.tensor([1.5, 2.5], device=device)
assert torch.add(x, x, out=torch.empty(0, dtype=torch.float64, device=device)).tolist() == [3, 5]
pairs = torch.zeros(4, dtype=torch.float64, device=device)
torch.add(x, x, out=pairs[::2])
assert pairs.tolist() == [3, 0, 5, 0], pairs
for out in (torch.zeros(2, dtype=torch.int64, device=device), torch.zeros(2, dtype=torch.float64)):
    try:
        torch.add(x, x, out=out)
    except RuntimeError as error:
        wanted = "can't be cast to the desired output type" if out.dtype == torch.int64 else "device"
        assert wanted in str(error), error
    else:
        raise AssertionError(f"{out.dtype} on {out.device} was accepted")
"""

# Tensors of one element on the host, which the fallback takes beside tensors of the device.
NUMBERS = """
import torch
device = torch.accelerator.current_accelerator().type
x, out = torch.tensor([-1.0, 0.5, 3.0], device=device), torch.empty(3, device=device)
low, high = torch.tensor(0.0), torch.tensor(2.0)
assert x.clamp(max=high).tolist() == [-1, 0.5, 2]
assert x.clamp(low, high).tolist() == [0, 0.5, 2]
assert torch.clamp(x, min=low, out=out) is out and out.tolist() == [0, 0.5, 3]
assert x.clamp_(max=high) is x and x.tolist() == [-1, 0.5, 2]
assert torch.add(x, torch.tensor(1, dtype=torch.int64)).tolist() == [0, 1.5, 3]
assert (torch.tensor(1.0, dtype=torch.float64) + x).dtype == torch.float32
try:
    x.clamp(max=torch.tensor([1.0, 1.0, 1.0]))
except RuntimeError as error:
    assert "device" in str(error), error
else:
    raise AssertionError("a larger tensor on the host was accepted")
"""

# A graph with kernels that have no code of the device's own yet.
CAPTURE = """
import torch
device = torch.accelerator.current_accelerator().type
x = torch.ones(3, 4, dtype=torch.int64, device=device)
graph, stream = torch.accelerator.Graph(), torch.Stream()
with stream, graph:
    y = torch.relu(x).sum(0)
for value, expected in ((-5, 0), (2, 6)):
    x.fill_(value)
    graph.replay()
    assert y.tolist() == [expected] * 4, y
"""


def test_added_operators_build_and_pass_their_tests(
    example: Example, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = SCRATCH / "add_op"
    project = folder / "project"
    sync(read_project(example.folder), project)
    shutil.rmtree(folder / "venv", ignore_errors=True)
    environment = create_environment(folder / "venv")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("SKBUILD_CMAKE_DEFINE", "WARNINGS_AS_ERRORS=ON")  # as test_build.py, so that it is in ccache
    for name, value in environment.variables({"TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}).items():
        monkeypatch.setenv(name, value)

    arguments = ["--project", str(project), "--python", str(environment.python), "--build"]
    result = CliRunner().invoke(main, ["add-op", *OPERATORS, *arguments])
    out, err = capfd.readouterr()
    assert result.exit_code == 0, result.output + out[-8000:] + err[-4000:]
    print(out.splitlines()[-1])

    environment.run("-m", "pytest", "-q", "tests/test_operator_list.py", "tests/test_docs.py", cwd=project)
    capfd.readouterr()
    environment.run("-c", CALLS, cwd=folder)
    states = json.loads(capfd.readouterr().out)
    assert states.pop("aten::mul.Tensor") == "emulated"
    assert set(states.values()) == {"host body"}
    assert {
        "aten::gelu",
        "aten::gelu_backward",
        "aten::sum.dim_IntList",
        "aten::topk",
        "aten::uniform_",
    } <= states.keys()
    assert {"aten::_foreach_add_.Scalar", "aten::full", "aten::arange.start_out"} <= states.keys()
    environment.run("-c", OTHER_DTYPES, cwd=folder)
    environment.run("-c", NUMBERS, cwd=folder)
    environment.run("-c", CAPTURE, cwd=folder)
