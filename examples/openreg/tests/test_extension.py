"""A C++ extension that is built with CMake against the installed package has kernels for the device."""

import importlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from busy import MiB, needs_queues, occupy
from conftest import PACKAGE, PROJECT, RunPython, emulator_variable

SOURCES = PROJECT / "tests" / "extension"
SHAPES: list[tuple[int, ...]] = [(0,), (), (1,), (1000,), (3, 5, 7)]


@pytest.fixture(scope="module")
def package() -> ModuleType:
    return importlib.import_module(PACKAGE)


def cmake(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("cmake") is None:
        pytest.skip("this needs CMake")
    env = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    command = ["cmake", *map(str, arguments)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=900)


@pytest.fixture(scope="module")
def build(package: ModuleType, device: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the extension is built in."""
    folder = tmp_path_factory.mktemp("extension")
    prefix = f"-DCMAKE_PREFIX_PATH={package.cmake_prefix_path};{torch.utils.cmake_prefix_path}"
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    names = [f"-DPACKAGE={PACKAGE}", f"-DDEVICE={device}"]
    done = cmake("-S", SOURCES, "-B", folder, *generator, "-DCMAKE_BUILD_TYPE=Release", prefix, *names)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def axpy(build: Path) -> Any:
    """The operator of the extension."""
    done = cmake("--build", build, "--target", "extension")
    assert done.returncode == 0, done.stdout + done.stderr
    torch.ops.load_library(str(build / "libextension.so"))
    return torch.ops.extension.axpy


@pytest.fixture(scope="module")
def interfaces(build: Path) -> Any:
    """The hooks and the guard, called from C++."""
    done = cmake("--build", build, "--target", "interfaces")
    assert done.returncode == 0, done.stdout + done.stderr
    torch.ops.load_library(str(build / "libinterfaces.so"))
    return torch.ops.interfaces


@pytest.fixture(scope="module")
def errors(build: Path) -> Any:
    """The macros that check error codes of the SDK."""
    done = cmake("--build", build, "--target", "errors")
    assert done.returncode == 0, done.stdout + done.stderr
    torch.ops.load_library(str(build / "liberrors.so"))
    return torch.ops.errors


@pytest.mark.needs("emulation")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_kernel_computes_on_the_device(
    device: str, device_module: ModuleType, axpy: Any, shape: tuple[int, ...]
) -> None:
    x, y = torch.randn(shape), torch.randn(shape)
    on_device = x.to(device), y.to(device)
    device_module.operators.reset_fallback_counts()
    out = axpy(*on_device, 2.5)
    assert device_module.operators.fallback_counts() == {}
    assert out.device.type == device
    torch.testing.assert_close(out.cpu(), 2.5 * x + y)


@pytest.mark.needs("emulation")
def test_kernel_keeps_its_place_on_a_stream(device: str, axpy: Any) -> None:
    """In each launch mode the kernel runs after earlier work of the current stream and before later work."""
    stream = torch.Stream(device=device)
    x = torch.arange(100000, dtype=torch.float32)
    with stream:
        y = x.to(device)
        for _ in range(20):
            y = axpy(y, y + 1, 0.5) - 1
        result = y.cpu()
    expected = x.clone()
    for _ in range(20):
        expected = 0.5 * expected + (expected + 1) - 1
    torch.testing.assert_close(result, expected)


@pytest.mark.needs("emulation")
def test_kernel_runs_where_its_operands_are(second_device: torch.device, axpy: Any) -> None:
    x, y = torch.randn(3, 4), torch.randn(4, 3)
    out = axpy(x.to(second_device), y.to(second_device).t(), -1)
    assert out.device == second_device
    torch.testing.assert_close(out.cpu(), y.t() - x)


# A host body: a kernel of the project's own that still computes on the host.

DOUBLED = "extension::doubled.out"


@pytest.fixture
def doubled(axpy: Any, device: str, device_module: ModuleType) -> Iterator[Callable[[], torch.Tensor]]:
    """Call the operator of the extension that has a host body, after its counts are reset."""
    x = torch.arange(3.0).to(device)
    out = torch.empty_like(x)
    device_module.operators.reset_fallback_counts()
    yield lambda: torch.ops.extension.doubled.out(x, out=out)
    device_module.operators.set_operator_policy(DOUBLED, None)
    device_module.operators.reset_fallback_counts()


def told_of(device_module: ModuleType, name: str) -> tuple[str, str]:
    """Return the state and the reason in the report, which also holds operators of other libraries that ran."""
    rows = json.loads(device_module.operators.report("json"))["operators"]
    return next((row["state"], row["reason"]) for row in rows if row["name"] == name)


def test_a_host_body_is_a_state_of_its_own(doubled: Callable[[], torch.Tensor], device_module: ModuleType) -> None:
    for policy in (device_module.operators.get_fallback_policy(), "cpu"):
        with device_module.operators.fallback_policy(policy):
            assert doubled().tolist() == [0, 2, 4]
            state, reason = told_of(device_module, DOUBLED)
            assert state == "host body"
            assert re.fullmatch(r"registered at kernels\.cpp:\d+, with a body that runs on the host", reason)
    assert f"  host body  {device_module.operators.STATES['host body']}" in device_module.operators.report()
    with device_module.operators.fallback_policy("error"):
        assert told_of(device_module, DOUBLED) == ("none", f"{reason}; the policy is 'error'")


def test_calls_of_a_host_body_are_counted_and_timed(
    doubled: Callable[[], torch.Tensor], device_module: ModuleType
) -> None:
    for _ in range(100):
        doubled()
    assert device_module.operators.fallback_counts()[DOUBLED] == 100
    used = device_module.operators.usage()[DOUBLED]
    assert (used["calls"], used["dtypes"]) == (100, [torch.float32])
    assert 16 <= used["timed_calls"] <= 100
    assert used["seconds"] > 0
    assert [(tensor["argument"], tensor["shape"]) for tensor in used["first_call"]] == [("x", (3,)), ("out", (3,))]


@pytest.mark.parametrize("own", [False, True], ids=["of the process", "of the operator"])
def test_the_policy_error_refuses_a_host_body(
    own: bool, doubled: Callable[[], torch.Tensor], device_module: ModuleType
) -> None:
    operators = device_module.operators
    doubled()
    if own:
        operators.set_operator_policy(DOUBLED, "error")
    with operators.fallback_policy(operators.get_fallback_policy() if own else "error"):
        with pytest.raises(NotImplementedError) as caught:
            doubled()
        if own:
            assert told_of(device_module, DOUBLED)[1].endswith("; its own policy is 'error'")
    for part in (DOUBLED, "still runs on the host", "kernels.cpp:", "Write the launch there"):
        assert part in str(caught.value)
    used = operators.usage()[DOUBLED]
    assert (used["calls"], used["timed_calls"]) == (2, 1)


def test_the_first_call_of_a_host_body_warns(
    doubled: Callable[[], torch.Tensor], device_module: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    """Outside PyTorch's own bindings, warnings of C++ go to the standard error output."""
    operators = device_module.operators
    with operators.fallback_policy(operators.get_fallback_policy(), warn=True):
        for _ in range(3):
            doubled()
    told = re.findall(rf"{re.escape(DOUBLED)} still runs on the host.*kernels\.cpp:\d+", capfd.readouterr().err)
    assert len(told) == 1


def test_operands_of_another_kind_are_refused(device: str, axpy: Any) -> None:
    x = torch.randn(3)
    with pytest.raises(NotImplementedError, match=r"extension::axpy.*CPU"):
        axpy(x, x, 1)
    with pytest.raises(RuntimeError, match="one shape"):
        axpy(x.to(device), x.to(device)[:2], 1)
    with pytest.raises(RuntimeError, match="float32"):
        axpy(x.to(device), x.to(device).double(), 1)


def test_hooks_say_which_devices_there_are(device_module: ModuleType, interfaces: Any) -> None:
    count = device_module.device_count()
    assert interfaces.hooks_is_built()
    assert interfaces.hooks_is_available()
    assert interfaces.hooks_device_count() == interfaces.guard_device_count() == count
    device_module.init()
    assert all(interfaces.hooks_has_primary_context(index) for index in range(count))
    for wrong in (-1, count):
        with pytest.raises(torch.AcceleratorError, match="out of range"):
            interfaces.hooks_has_primary_context(wrong)


@pytest.fixture
def run_with_interfaces(build: Path, interfaces: Any, run_python: RunPython) -> RunPython:
    """Run a script in a process that has not used the device yet. `interfaces` is in it."""
    library = str(build / "libinterfaces.so")
    prelude = f"import torch; torch.ops.load_library({library!r}); interfaces = torch.ops.interfaces\n"
    return lambda code, **options: run_python(prelude + code, **options)


def test_initialisation_by_the_hooks_creates_the_context(run_with_interfaces: RunPython) -> None:
    done = run_with_interfaces("""
module = torch.get_device_module(device)
def state():
    contexts = {interfaces.hooks_has_primary_context(index) for index in range(interfaces.hooks_device_count())}
    return contexts, module.is_initialized()
before = state()
interfaces.hooks_init()
print(before, state())
""")
    assert done.stdout == "({False}, False) ({True}, True)\n", done.stderr


def test_the_first_tensor_creates_the_context(run_with_interfaces: RunPython) -> None:
    done = run_with_interfaces("""
before = interfaces.hooks_has_primary_context(0)
torch.empty(1, device=device)
print(before, interfaces.hooks_has_primary_context(0))
""")
    assert done.stdout == "False True\n", done.stderr


@pytest.mark.needs("emulator")
def test_hooks_say_that_no_device_is_available(run_with_interfaces: RunPython) -> None:
    code = "print(interfaces.hooks_is_available(), interfaces.hooks_is_built(), interfaces.hooks_device_count())"
    no_devices = {str(emulator_variable("NUM_DEVICES")): "0"}
    done = run_with_interfaces(code, env=no_devices)
    assert done.stdout == "False True 0\n", done.stderr


def test_an_exchange_of_devices_returns_the_device_before(interfaces: Any, second_device: torch.device) -> None:
    for exchange in (interfaces.hooks_exchange_device, interfaces.guard_exchange_device):
        assert exchange(1) == 0
        assert interfaces.hooks_current_device() == interfaces.guard_device() == 1
        assert exchange(0) == 1
        assert interfaces.hooks_current_device() == interfaces.guard_device() == 0
    maybe = interfaces.hooks_maybe_exchange_device
    assert [maybe(index) for index in (1, -1, 0, -1)] == [0, 1, 1, 0]
    assert interfaces.guard_exchange_device(-1) == 0


def test_a_device_is_set_with_and_without_a_check(
    device_module: ModuleType, interfaces: Any, second_device: torch.device, capfd: pytest.CaptureFixture[str]
) -> None:
    for set_device in (interfaces.hooks_set_current_device, interfaces.guard_unchecked_set_device):
        for index in (1, 0):
            set_device(index)
            assert device_module.current_device() == index
    interfaces.guard_unchecked_set_device(1)
    interfaces.guard_unchecked_set_device(-1)  # the current device
    assert device_module.current_device() == 1
    interfaces.guard_unchecked_set_device(0)
    assert capfd.readouterr().err == ""
    with pytest.raises(torch.AcceleratorError, match="out of range"):
        interfaces.hooks_set_current_device(device_module.device_count())


@pytest.mark.needs("pinned_memory")
def test_hooks_find_the_device_of_an_address(device: str, interfaces: Any, second_device: torch.device) -> None:
    for index in (0, 1):
        x = torch.ones(1000, device=f"{device}:{index}")
        assert interfaces.hooks_device_of(x.data_ptr()) == interfaces.hooks_device_of(x[500:].data_ptr()) == index
    for host in (torch.ones(1000), torch.ones(1000).pin_memory()):
        with pytest.raises(RuntimeError, match=f"is not memory of a {device} device"):
            interfaces.hooks_device_of(host.data_ptr())


def test_hooks_tell_pinned_memory_from_other_memory(device: str, interfaces: Any) -> None:
    pinned, pageable, x = torch.ones(1000).pin_memory(), torch.ones(1000), torch.ones(1000, device=device)
    assert interfaces.hooks_is_pinned(pinned.data_ptr())
    assert interfaces.hooks_is_pinned(pinned[500:].data_ptr())
    for address in (pageable.data_ptr(), x.data_ptr(), 0):
        assert not interfaces.hooks_is_pinned(address)


def test_hooks_give_generators_of_the_requested_device(
    device: str, device_module: ModuleType, interfaces: Any, second_device: torch.device
) -> None:
    for index, generator in enumerate(device_module.default_generators):
        generator.manual_seed(20 + index)
    for index in (1, 0):
        default, new = interfaces.hooks_default_generator(index), interfaces.hooks_new_generator(index)
        assert default.device == new.device == torch.device(device, index)
        assert default.initial_seed() == 20 + index
        new.manual_seed(3)
        assert default.initial_seed() == 20 + index
    with device_module.device(second_device):
        assert interfaces.hooks_default_generator(-1).initial_seed() == 21
        assert interfaces.hooks_new_generator(-1).device == second_device
    for function in (interfaces.hooks_default_generator, interfaces.hooks_new_generator):
        with pytest.raises(torch.AcceleratorError, match="out of range"):
            function(device_module.device_count())


def test_an_event_that_was_never_recorded_holds_up_nothing(device: str, interfaces: Any) -> None:
    """PyTorch's own classes answer for such an event. Other C++ code asks the guard."""
    stream = torch.Stream(device)
    assert interfaces.guard_query_event(0)
    interfaces.guard_synchronize_event(0)
    interfaces.guard_block(0, stream)
    stream.synchronize()
    with pytest.raises(RuntimeError, match="record both events"):
        interfaces.guard_elapsed_time(0, 0, 0)


@pytest.mark.needs("emulator", "timing")
def test_only_events_with_timing_record_timestamps(device: str, interfaces: Any) -> None:
    """PyTorch's own classes refuse to ask for a time, so the test asks the device, which knows how the event was created."""
    timed, untimed = torch.Event(device, enable_timing=True), torch.Event(device)
    for event in (timed, untimed):
        event.record()
        event.synchronize()
    assert interfaces.guard_elapsed_time(timed.event_id, timed.event_id, 0) == 0
    with pytest.raises(torch.AcceleratorError, match="without timing"):
        interfaces.guard_elapsed_time(untimed.event_id, untimed.event_id, 0)


@pytest.mark.needs("emulator")
def test_an_event_is_destroyed_with_its_object(device: str, interfaces: Any) -> None:
    """The emulated device recognizes handles of destroyed events."""
    event = torch.Event(device)
    event.record()
    event.synchronize()
    handle = event.event_id
    assert interfaces.guard_query_event(handle)
    del event
    with pytest.raises(torch.AcceleratorError, match="no live event"):
        interfaces.guard_query_event(handle)


def test_the_guard_tells_the_default_stream_from_the_current_one(
    device: str, device_module: ModuleType, interfaces: Any, second_device: torch.device
) -> None:
    for index in (0, 1):
        default = device_module.default_stream(index)
        assert interfaces.guard_stream(index) == interfaces.guard_default_stream(index) == default
        with torch.Stream(f"{device}:{index}") as side:
            assert interfaces.guard_stream(index) == side
            assert interfaces.guard_default_stream(index) == default != side


def test_an_exchange_of_streams_returns_the_stream_before(
    device_module: ModuleType, interfaces: Any, second_device: torch.device
) -> None:
    before, side = device_module.current_stream(1), torch.Stream(second_device)
    assert interfaces.guard_exchange_stream(side) == before
    assert device_module.current_stream(1) == side
    assert interfaces.guard_exchange_stream(before) == side
    assert device_module.current_stream(1) == before


@needs_queues
@pytest.mark.needs("priorities")
def test_the_guard_gives_streams_of_high_priority(device: str, device_module: ModuleType, interfaces: Any) -> None:
    low, high = interfaces.guard_pool_stream(0, False), interfaces.guard_pool_stream(0, True)
    others = [torch.Stream(device) for _ in range(8)]
    ends = []
    for stream in others:
        occupy(stream, 3)
    for stream in (low, high):
        occupy(stream, 2)
        with stream:
            ends.append(torch.Event(device, enable_timing=True))
            ends[-1].record()
    device_module.synchronize()
    assert ends[1].elapsed_time(ends[0]) > 0, "the later submission was to be served first"


@needs_queues
def test_the_guard_keeps_memory_for_a_stream(device: str, device_module: ModuleType, interfaces: Any) -> None:
    side = torch.Stream(device)
    x = torch.ones(MiB, device=device)
    address = x.data_ptr()
    device_module.synchronize()
    occupy(side)
    interfaces.guard_keep(x, side)
    del x
    other = torch.empty(MiB, device=device)
    assert other.data_ptr() != address
    assert not side.query(), "the stream was not busy for long enough"
    side.synchronize()
    assert torch.empty(MiB, device=device).data_ptr() == address


@pytest.mark.parametrize("name", ["add_number", "atan2_number"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int32], ids=str)
def test_numbers_that_are_tensors_of_the_device_do_not_decide_the_dtype(
    name: str, dtype: torch.dtype, device: str, interfaces: Any
) -> None:
    """C++ code makes such a tensor of a number. The dtype that results is that of `x`, or the default one where `x` has integers."""
    x = torch.ones(2, dtype=dtype)
    expected = getattr(interfaces, name)(x, 2.5)
    found = getattr(interfaces, name)(x.to(device), 2.5)
    assert found.dtype == expected.dtype == (torch.float32 if dtype == torch.int32 else dtype)
    assert found.device.type == device
    torch.testing.assert_close(found.cpu(), expected)


def test_every_header_can_be_included(build: Path) -> None:
    included = (build / "headers.cpp").read_text(encoding="utf-8")
    for header in ("device/Launch.h", "runtime/Stream.h", "aten/support/Pointwise.h"):
        assert f"#include <{header}>\n" in included
    done = cmake("--build", build, "--target", "headers")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.no_device
@pytest.mark.parametrize(("check", "call"), [("check", "returnCode(code)"), ("check_code", "the call's own name")])
def test_a_failing_code_raises_with_the_code_and_the_call(errors: Any, check: str, call: str) -> None:
    getattr(errors, check)(0)
    for code in (1, 2, 1234567):
        with pytest.raises(torch.AcceleratorError) as caught:
            getattr(errors, check)(code)
        assert caught.value.error_code == code
        assert f"(in {call})" in str(caught.value)


@pytest.mark.no_device
def test_a_failing_code_warns_where_nothing_may_be_raised(errors: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """Outside PyTorch's own bindings, warnings of C++ go to the standard error output."""
    errors.warn(0)
    assert capfd.readouterr().err == ""
    errors.warn(1234567)
    assert "(in returnCode(code))" in capfd.readouterr().err


def test_cmake_refuses_another_torch(package: ModuleType, device: str, tmp_path: Path) -> None:
    """The other torch is only a CMake file with its version."""
    torch_folder = tmp_path / "prefix" / "Torch"
    torch_folder.mkdir(parents=True)
    (torch_folder / "TorchConfig.cmake").write_text("")
    (torch_folder / "TorchConfigVersion.cmake").write_text("set(PACKAGE_VERSION 1.13.1)\n")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(x LANGUAGES NONE)\nfind_package(${PACKAGE} REQUIRED CONFIG)\n"
    )
    prefix = f"-DCMAKE_PREFIX_PATH={tmp_path / 'prefix'};{package.cmake_prefix_path}"
    done = cmake("-S", tmp_path, "-B", tmp_path / "build", prefix, f"-DPACKAGE={PACKAGE}")
    assert done.returncode != 0
    message = " ".join(done.stderr.split())
    built_with = ".".join(torch.__version__.split(".")[:2])
    assert f"{PACKAGE} was built with torch {built_with}, but the torch in" in message
    assert "is 1.13.1." in message


def test_paths_lead_to_what_is_installed(package: ModuleType) -> None:
    names, sources = map(Path, package.include_paths())
    assert (names / PACKAGE / "device" / "Launch.h").is_file()
    assert (sources / "device" / "Launch.h").is_file()
    (libraries,) = map(Path, package.library_paths())
    assert (libraries / f"lib{PACKAGE}.so").is_file()
    assert (Path(package.cmake_prefix_path) / PACKAGE / f"{PACKAGE}Config.cmake").is_file()
