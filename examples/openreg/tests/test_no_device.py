"""Without a device, or without the SDK's library: everything loads and answers, and the first use says what is missing."""

import shutil
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from abilities import has
from conftest import MODULE, PACKAGE, RunPython, emulator_variable

pytestmark = pytest.mark.no_device
_missing_library = import_module(f"{PACKAGE}._missing_library")

# The copy in the folder comes before the installed package, whatever finder an editable install has.
FROM_FOLDER = "import sys; from importlib.machinery import PathFinder; sys.path.insert(0, {!r}); sys.meta_path.insert(0, PathFinder)\n"


@pytest.fixture(scope="session")
def package_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the installed package in which the SDK's libraries are missing."""
    native = import_module(f"{PACKAGE}._paths").native_root()
    shipped = [native / "lib" / name for name in _missing_library.libraries() if (native / "lib" / name).exists()]
    if not shipped:
        pytest.skip("the SDK's library lies outside of the package: nothing can hide it")
    folder = tmp_path_factory.mktemp("without_sdk")
    own_files = shutil.ignore_patterns("csrc", "include", "__pycache__", *(file.name for file in shipped))
    for source in {Path(str(sys.modules[PACKAGE].__file__)).parent, native}:
        shutil.copytree(source, folder / PACKAGE, ignore=own_files, dirs_exist_ok=True)
    return folder


Run = Callable[[str], CompletedProcess[str]]


@pytest.fixture(params=["device", "library"])
def without(request: pytest.FixtureRequest, run_python: RunPython) -> Run:
    """Run a script in a process that has no device, or not the SDK's library either."""
    if request.param == "library":
        if _missing_library.missing:
            return run_python
        prelude = FROM_FOLDER.format(str(request.getfixturevalue("package_copy")))
        return lambda code: run_python(prelude + code)
    if _missing_library.missing:
        pytest.skip("the SDK's library is missing on this machine")
    if MODULE.device_count() == 0:
        return run_python
    if not has("emulator"):
        pytest.skip("this machine has a device, and nothing can hide it")
    return lambda code: run_python(code, env={str(emulator_variable("NUM_DEVICES")): "0"})


@pytest.fixture
def without_library(package_copy: Path, run_python: RunPython) -> Run:
    """Run a script in a process that has not the SDK's library."""
    return lambda code: run_python(FROM_FOLDER.format(str(package_copy)) + code)


def test_everything_loads_without_a_device(without: Run) -> None:
    code = """
import torch
module = torch.get_device_module(device)
print(module.device_count(), module.is_available(), torch.accelerator.is_available(), torch.accelerator.device_count())
print(torch.device(device), module.is_initialized(), module.memory_stats() if module.is_initialized() else {})
"""
    done = without(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "0 False False 0"
    assert done.stdout.split("\n")[1].endswith("False {}")


def test_each_use_says_that_there_is_no_device(without: Run) -> None:
    code = """
import torch
module = torch.get_device_module(device)
for use in (
    lambda: torch.ones(2, device=device),
    lambda: torch.ones(2).to(device),
    lambda: torch.nn.Linear(2, 2).to(device),
    lambda: module.init(),
):
    try:
        use()
    except RuntimeError as error:  # or NotImplementedError, which is one
        print(str(error).splitlines()[0])
"""
    done = without(code)
    assert done.returncode == 0, done.stderr
    messages = done.stdout.splitlines()
    assert len(messages) == 4, messages
    for message in messages:
        told = ("device is available on this machine", "is not written yet", "the loader does not find ")
        assert any(part in message for part in told), message


def test_the_cpu_works_without_a_device(without: Run) -> None:
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
    done = without(code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "28.0\n", "")


def test_the_missing_library_is_named_by_every_use(without_library: Run) -> None:
    done = without_library(
        """
import torch
module = torch.get_device_module(device)
assert not hasattr(module, "streams") and torch.device(device, 1).type == device
x = torch.ones(2)
for use in (
    lambda: torch.empty(2, device=device),
    lambda: torch.tensor([1.0], device=device),
    lambda: torch.zeros_like(x, device=device),
    lambda: x.to(device),
    lambda: getattr(x, device)(),
    lambda: torch.nn.Linear(2, 2, device=device),
    lambda: torch.accelerator.synchronize(),
    lambda: module.current_device(),
    lambda: module.Stream(),
):
    try:
        use()
    except RuntimeError as error:
        print(error)
"""
    )
    assert (done.returncode, done.stderr) == (0, "")
    sentences = done.stdout.splitlines()
    assert len(sentences) == 9 and len(set(sentences)) == 1, sentences
    assert any(f" {name}," in sentences[0] for name in _missing_library.libraries())
    assert "install the SDK" in sentences[0] and "torch-backend doctor" in sentences[0]


@pytest.mark.parametrize("autoload", ["0", "1"])
def test_the_package_imports_without_the_library(autoload: str, package_copy: Path, run_python: RunPython) -> None:
    code = (
        "backend = __import__(package); backend._autoload(); print(backend.include_paths(), backend.cmake_prefix_path)"
    )
    done = run_python(FROM_FOLDER.format(str(package_copy)) + code, env={"TORCH_DEVICE_BACKEND_AUTOLOAD": autoload})
    assert (done.returncode, done.stderr) == (0, "")
    assert str(package_copy) in done.stdout


@pytest.mark.parametrize(
    "message",
    [
        "libc10.so: cannot open shared object file: No such file or directory",  # not of the SDK
        "/lib/{0}: undefined symbol: start",
        "/lib/{0}: file too short",
    ],
)
def test_other_failures_are_not_taken_for_a_missing_library(message: str) -> None:
    for name in (*_missing_library.libraries(), "libany.so"):
        assert _missing_library.named_in(message.format(name)) is None


@pytest.mark.parametrize(
    "message",
    [
        "{0}: cannot open shared object file: No such file or directory",  # glibc
        "Error loading shared library {0}: No such file or directory (needed by /lib/{1})",  # musl
        "dlopen(/a/_C.so, 0x0002): Library not loaded: @rpath/{0}\n  Referenced from: <1> /a/lib/{1}",  # macOS
    ],
)
def test_the_loaders_that_name_the_library(message: str) -> None:
    for name in _missing_library.libraries():
        assert _missing_library.named_in(message.format(name, "libother.so")) == name


def test_a_missing_library_of_the_package_itself_is_an_error(
    package_copy: Path, run_python: RunPython, tmp_path: Path
) -> None:
    shutil.copytree(package_copy, tmp_path, dirs_exist_ok=True)
    for file in (tmp_path / PACKAGE / "lib").glob("*torch_bindings*"):
        file.unlink()
    done = run_python(FROM_FOLDER.format(str(tmp_path)) + "import torch")
    assert done.returncode == 1
    assert "does not load" in done.stderr and "torch_bindings" in done.stderr
