"""Optional capabilities: ``capabilities()`` is right, and the use of a missing capability raises an error."""

import importlib
import inspect
from multiprocessing.reduction import ForkingPickler
from types import ModuleType

import pytest
import torch
from conftest import PACKAGE, PROJECT, RunPython


def test_missing_capabilities_have_a_sentence_each(device: str, device_module: ModuleType) -> None:
    capabilities, missing = device_module.capabilities(), device_module.missing_capabilities()
    assert set(capabilities) == {"graphs", "peer_access", "pinned_memory", "priorities", "sharing", "timing"}
    assert set(missing) == {name for name, there in capabilities.items() if not there}
    for sentence in missing.values():
        assert f"is not supported on {device} devices" in sentence


def test_a_feature_that_is_not_rendered_is_a_missing_capability(device_module: ModuleType) -> None:
    capabilities = device_module.capabilities()
    assert not capabilities["graphs"] or (PROJECT / "csrc" / "graph").is_dir()
    assert not capabilities["sharing"] or (PROJECT / "csrc" / "runtime" / "ipc").is_dir()


def test_public_names_of_features_are_those_of_their_modules(device: str, device_module: ModuleType) -> None:
    assert hasattr(device_module, "ipc_collect") == (PROJECT / "csrc" / "runtime" / "ipc").is_dir()
    for name, module in device_module.features.MODULES.items():
        assert getattr(device_module, name) is module
        assert {name, *module.__all__} <= set(device_module.__all__)
        assert inspect.isfunction(module.install)


def test_a_graph_works_or_raises(device_module: ModuleType) -> None:
    if device_module.capabilities()["graphs"]:
        assert torch.accelerator.Graph()
    else:
        with pytest.raises(RuntimeError, match=r"[Gg]raph"):  # core's own, or the sentence of the device
            torch.accelerator.Graph()


def test_no_stream_is_being_captured(device: str) -> None:
    assert not torch.Stream(device).is_capturing()


@pytest.mark.parametrize("size", [0, 3])
def test_a_tensor_is_sent_or_raises(size: int, device: str, device_module: ModuleType) -> None:
    x = torch.zeros(size, device=device)
    if device_module.capabilities()["sharing"]:
        assert ForkingPickler.loads(ForkingPickler.dumps(x)).device == x.device
        device_module.ipc_collect()  # of what was received, nothing is left
        return
    sentence = device_module.missing_capabilities()["sharing"]
    for value in (x, torch.nn.Parameter(x), x.untyped_storage()):
        with pytest.raises(NotImplementedError) as caught:
            ForkingPickler.dumps(value)
        assert str(caught.value) == f"{sentence}. Send a copy in host memory: tensor.cpu()"


def test_memory_is_pinned_or_an_error_says_why_not(device: str, device_module: ModuleType) -> None:
    x = torch.ones(3)
    assert not x.is_pinned()
    if device_module.capabilities()["pinned_memory"]:
        assert x.pin_memory().is_pinned()
        return
    with pytest.raises(NotImplementedError) as caught:
        x.pin_memory()
    assert str(caught.value) == device_module.missing_capabilities()["pinned_memory"]
    assert x.to(device, non_blocking=True).sum() == 3


def test_events_measure_time_or_an_error_says_why_not(device: str, device_module: ModuleType) -> None:
    start, end = (torch.Event(device, enable_timing=True) for _ in range(2))
    if device_module.capabilities()["timing"]:
        start.record()
        end.record()
        end.synchronize()
        assert start.elapsed_time(end) >= 0
        return
    with pytest.raises(NotImplementedError) as caught:
        start.record()
    assert str(caught.value) == device_module.missing_capabilities()["timing"]


def test_streams_of_a_device_without_priorities_all_have_priority_0(device_module: ModuleType) -> None:
    least, greatest = importlib.import_module(f"{PACKAGE}._C")._get_stream_priority_range()
    assert greatest <= 0 == least
    assert device_module.capabilities()["priorities"] or greatest == 0


def test_no_device_is_its_own_peer(device_module: ModuleType) -> None:
    peers = [
        [device_module.can_device_access_peer(i, j) for j in range(device_module.device_count())]
        for i in range(device_module.device_count())
    ]
    assert not any(row[i] for i, row in enumerate(peers))
    assert device_module.capabilities()["peer_access"] or not any(map(any, peers))


def test_the_example_of_two_processes_says_what_is_missing(run_python: RunPython) -> None:
    script = PROJECT / "examples" / "two_processes.py"
    if not script.exists():
        pytest.skip("this project was made without the feature `sharing`")
    done = run_python(f"""
import runpy
import torch
module = torch.get_device_module(device)
if module.capabilities()["sharing"]:
    module.missing_capabilities = lambda: dict(sharing="sharing is not supported here: a test says so")
print(module.missing_capabilities()["sharing"])
runpy.run_path({str(script)!r}, run_name="__main__")
""")
    assert done.returncode == 1
    assert done.stderr == done.stdout
    assert " is not supported " in done.stderr


def test_an_event_is_sent_or_raises(device: str, device_module: ModuleType) -> None:
    event = torch.Event(device)
    if device_module.capabilities()["sharing"]:
        assert ForkingPickler.dumps(event)
    else:
        with pytest.raises((NotImplementedError, TypeError), match=r"not supported|pickle"):
            ForkingPickler.dumps(event)


def test_tensors_of_the_cpu_are_sent_through_shared_memory() -> None:
    x = torch.arange(3)
    received = ForkingPickler.loads(ForkingPickler.dumps(x))
    received += 1
    assert x.tolist() == [1, 2, 3], "in shared memory"
