"""How the package is loaded: by ``import torch``, by its own name, from any folder, and never beside another backend."""

from pathlib import Path
from types import ModuleType

import pytest
from conftest import PROJECT, RunPython

OFF = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
WORKS = """
assert torch.ones(2, device=device).sum().item() == 2
assert torch._C._get_privateuse1_backend_name() == device
"""


def test_import_torch_is_enough(run_python: RunPython) -> None:
    done = run_python("import torch" + WORKS)
    assert (done.returncode, done.stderr) == (0, "")


def test_autoload_can_be_switched_off(run_python: RunPython) -> None:
    done = run_python(
        """
import sys, torch
assert package not in sys.modules
assert not hasattr(torch, device)
assert torch._C._get_privateuse1_backend_name() == "privateuseone"
assert torch.accelerator.current_accelerator() is None or torch.accelerator.current_accelerator().type != device
""",
        env=OFF,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("autoload", ["0", "1"])
@pytest.mark.parametrize("order", ["torch, {0}", "{0}, torch"])
def test_the_package_can_be_imported_before_and_after_torch(
    autoload: str, order: str, run_python: RunPython, device_module: ModuleType
) -> None:
    package = device_module.__name__.partition(".")[0]
    done = run_python(
        f"import {order.format(package)}" + WORKS + "__import__(package)._autoload()",
        env={"TORCH_DEVICE_BACKEND_AUTOLOAD": autoload},
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("folder", [PROJECT, PROJECT / "tests", Path("/")], ids=["project", "tests", "root"])
def test_the_device_works_from_any_folder(folder: Path, run_python: RunPython) -> None:
    done = run_python("import torch" + WORKS, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_second_backend_is_refused_by_its_name(run_python: RunPython) -> None:
    done = run_python(
        """
import torch
torch.utils.rename_privateuse1_backend("another")
try:
    __import__(package)
except RuntimeError as error:
    print(error)
""",
        env=OFF,
    )
    assert done.returncode == 0, done.stderr
    for part in ("'another'", "TORCH_DEVICE_BACKEND_AUTOLOAD=0", "ninstall"):
        assert part in done.stdout


def test_a_torch_of_another_release_is_refused_by_its_version(run_python: RunPython) -> None:
    done = run_python(
        """
import torch
torch.__version__ = "1.13.1+cpu"
try:
    __import__(package)
except ImportError as error:
    print(error)
""",
        env=OFF,
    )
    assert done.returncode == 0, done.stderr
    for part in ("1.13.1+cpu", "was built for torch", "TORCH_DEVICE_BACKEND_AUTOLOAD=0"):
        assert part in done.stdout


def test_loading_imports_little_and_starts_no_thread(run_python: RunPython) -> None:
    done = run_python(
        """
import sys, torch
from importlib import metadata
before = set(sys.modules)
__import__(package)
added = {name for name in sys.modules if name not in before}
ours = {name for name in added if name.split(".")[0] == package or name.split(".")[:2] == ["torch", device]}
print(*sorted(added - ours))
import threading
assert threading.active_count() == 1
assert not torch.get_device_module(device).is_initialized()
""",
        env=OFF,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.split()) <= 3, f"these modules are imported only for this package: {done.stdout}"


def test_other_devices_keep_their_settings(run_python: RunPython) -> None:
    done = run_python(
        """
import torch
def settings():
    return (
        torch.get_default_dtype(), torch.get_default_device(), torch.get_num_threads(), torch.initial_seed(),
        torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"),
        torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision(), torch.get_rng_state().sum(),
    )
before = settings()
__import__(package)
assert settings() == before
""",
        env=OFF,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_only_the_documented_functions_of_torch_are_replaced(run_python: RunPython) -> None:
    done = run_python(
        """
import sys, torch, torch.nn.utils.rnn, torch.utils.dlpack
def attributes():
    spaces = [m for name, m in list(sys.modules.items()) if name.split(".")[0] == "torch"]
    spaces += [torch.Tensor, torch.nn.Module, torch.nn.Parameter, torch.storage.UntypedStorage, torch.Generator]
    return {(s.__name__, n): v for s in spaces for n, v in vars(s).items() if not n.startswith("__") or callable(v)}
before = attributes()
__import__(package)
after = attributes()
print(*sorted(".".join(key) for key in before if key in after and after[key] is not before[key]))
""",
        env=OFF,
    )
    assert done.returncode == 0, done.stderr
    patched = {"Tensor.__dlpack__", "Tensor.__dlpack_device__"}
    assert set(done.stdout.split()) - {"torch.utils.backend_registration._privateuse1_backend_name"} == patched
