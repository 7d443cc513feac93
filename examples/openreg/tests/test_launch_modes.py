"""The launch mode decides whether work is pending when a call returns. The results do not depend on the mode."""

import json
from functools import cache
from typing import Any

import pytest
from conftest import RunPython, emulator_variable

MODES = ("inline", "async", "blocking")

pytestmark = pytest.mark.needs("emulator")

PENDING = """
import json, torch
from torch.nn import functional as F
module = torch.get_device_module(device)
source = torch.arange(16 << 20, dtype=torch.float32).pin_memory()
target = torch.empty_like(source, device=device)
x = torch.full((4 << 20,), -1.0, device=device)
y = torch.empty_like(x)
z = torch.zeros(10, device=device)
number = torch.ones((), device=device)
pinned, pageable = torch.arange(10.0).pin_memory(), torch.arange(10.0)
landing = torch.zeros(10).pin_memory()
target.copy_(source)
module.synchronize()

def is_pending(action, busy=True):
    if busy:
        for _ in range(16):
            target.copy_(source, non_blocking=True)
    action()
    event = torch.Event(device)
    event.record()
    stream_busy, pending = not module.current_stream().query(), not event.query()
    module.synchronize()
    assert event.query() and module.current_stream().query()
    assert stream_busy >= pending
    return pending

# Without a kernel of the device's own, whatever a port has by now.
library = torch.library.Library("launch_tests", "FRAGMENT")
library.define("grow_(Tensor(a!) x) -> Tensor(a!)")
library.impl("grow_", lambda x: x.add_(1), "CPU")

def chain():
    for _ in range(50):
        F.leaky_relu_(x, 0.5)

facts = {
    "native, in place": is_pending(lambda: F.leaky_relu_(x)),
    "native, out": is_pending(lambda: torch.abs(x, out=y)),
    "native, strided": is_pending(lambda: x.view(2048, 2048).t()[::2].abs_()),
    "fill": is_pending(lambda: y.zero_()),
    "pinned to device": is_pending(lambda: z.copy_(pinned, non_blocking=True)),
    "device to pinned": is_pending(lambda: landing.copy_(z, non_blocking=True)),
    "within the device": is_pending(lambda: y.copy_(x)),
    "chain on an idle stream": is_pending(chain, busy=False),
    "emulated": is_pending(lambda: torch.ops.launch_tests.grow_(x)),
    "pageable to device": is_pending(lambda: z.copy_(pageable, non_blocking=True)),
    "device to pageable": is_pending(lambda: pageable.copy_(z, non_blocking=True)),
    "blocking from pinned": is_pending(lambda: z.copy_(pinned)),
    "item": is_pending(lambda: number.item()),
}
assert torch.equal(landing, torch.arange(10.0))
assert torch.equal(target.cpu(), source)
print(json.dumps(facts))
"""

QUEUED = (
    "native, in place",
    "native, out",
    "native, strided",
    "fill",
    "pinned to device",
    "device to pinned",
    "within the device",
)

RESULTS = """
import hashlib, torch
from torch import nn
module = torch.get_device_module(device)
torch.manual_seed(0)
digest = hashlib.sha256()

def note(t):
    digest.update(t.detach().cpu().contiguous().numpy().tobytes())

model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.LeakyReLU(), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 5)).to(device)
optimizer = torch.optim.AdamW(model.parameters())
data = torch.randn(6, 4, 3, 8, 8).pin_memory()
for batch in data:
    optimizer.zero_grad()
    loss = model(batch.to(device, non_blocking=True)).abs().sum()
    loss.backward()
    optimizer.step()
    note(loss)
for p in model.parameters():
    note(p)

a, b = torch.Stream(device), torch.Stream(device)
x = torch.randn(512, 512, device=device)
a.wait_stream(module.current_stream())
for i in range(20):
    with a:
        x.abs_()
        y = nn.functional.leaky_relu(x.sub_(0.5))
    b.wait_stream(a)
    with b:
        x.copy_(y.t())
        y.zero_()
        y.record_stream(b)
    a.wait_stream(b)
b.synchronize()
note(x)
print(digest.hexdigest())
"""


@pytest.fixture(scope="session")
def run_in_mode(run_python: RunPython) -> Any:
    @cache
    def run(code: str, mode: str) -> str:
        done = run_python(code, env={emulator_variable("LAUNCH") or "": mode})
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


@pytest.mark.parametrize("mode", MODES)
def test_each_launch_mode_leaves_its_own_work_pending(mode: str, run_in_mode: Any) -> None:
    facts = json.loads(run_in_mode(PENDING, mode))
    expected = {name: mode != "blocking" and name in QUEUED for name in facts}
    expected["chain on an idle stream"] = mode == "async"
    assert facts == expected


@pytest.mark.parametrize("mode", MODES[1:])
def test_results_do_not_depend_on_the_mode(mode: str, run_in_mode: Any) -> None:
    assert run_in_mode(RESULTS, mode) == run_in_mode(RESULTS, MODES[0])


def test_unknown_mode_is_refused(run_python: RunPython) -> None:
    variable = emulator_variable("LAUNCH") or ""
    done = run_python("import torch; torch.ones(1, device=device)", env={variable: "sometimes"})
    assert done.returncode != 0
    assert variable in done.stderr
    assert "sometimes" in done.stderr
