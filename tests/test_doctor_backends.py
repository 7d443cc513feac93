"""`torch-backend doctor` on backends: installation, registrations. A crash of a backend does not crash the doctor."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from torch_backend.environment import Environment
from torch_backend.inspection.doctor import backends

from .diagnosing import doctor, found, states
from .fakes import describe, fake_torch, install
from .torch_release import FIRST, MINOR, OLDER

# Loads without a word, and registers a name and an empty module: hooks, guard, allocator and all else are missing.
NAME_ONLY = """\
import sys, types
import torch
def _autoload():
    pass
torch.utils.rename_privateuse1_backend("openreg")
torch._register_device_module("openreg", types.ModuleType("torch.openreg"))
"""


# With what PyTorch lets a backend in Python register: all but an allocator, kernels and a generator. It has no device.
IN_PYTHON = """\
import types
import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend
def _autoload():
    pass
class Hooks(torch._C._acc.PrivateUse1Hooks):
    def is_available(self):
        return False
    def has_primary_context(self, index):
        return False
    def is_built(self):
        return True
class Guard(torch._C._acc.DeviceGuard):
    def type_(self):
        return torch._C._autograd.DeviceType.PrivateUse1
module = types.ModuleType("torch.openreg")
module.is_available = lambda: False
module.device_count = lambda: 0
module.current_device = lambda: 0
module._is_in_bad_fork = lambda: False
module.manual_seed_all = lambda seed: None
module.get_amp_supported_dtype = lambda: [torch.float16]
_setup_privateuseone_for_python_backend("openreg", module, Hooks(), Guard())
"""


# ---------------------------------------------------------------- installed backends


def test_another_backend_fails(environment: Environment, site: Path) -> None:
    fake_torch(site)
    install(site, "torch_other")
    code, checks = doctor(environment)
    check = found(checks, "other backends")
    assert (check.state, code) == ("fail", 1)
    assert f"also installed: torch_other (torch_other 1.0, {site}" in check.found
    assert "-m pip uninstall torch_other;" in check.mend


def test_outside_of_a_project_only_two_backends_fail(
    environment: Environment, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_torch(site)
    install(site, "torch_one", entry_point="backend")
    monkeypatch.chdir(tmp_path)
    assert found(doctor(environment, project=None)[1], "other backends").state == "ok"
    install(site, "torch_two", entry_point="backend")
    _, checks = doctor(environment, project=None)
    assert found(checks, "other backends").mend.split(" -m ")[1].startswith("pip uninstall torch_one torch_two")
    assert "several packages use the name 'backend' in the group torch.backends" in found(checks, "entry point").found


def test_metadata_without_a_package_fails(environment: Environment, site: Path) -> None:
    fake_torch(site)
    describe(site, "torch_openreg", module="torch_openreg", entry_point="torch_openreg")
    _, checks = doctor(environment)
    assert "names the module torch_openreg, which is missing" in found(checks, "entry point").found
    assert found(checks, "package").found == f"torch_openreg is not installed; its metadata remains in {site}"


def test_a_package_that_is_installed_twice_fails(environment: Environment, site: Path) -> None:
    fake_torch(site)
    install(site, "torch_openreg")
    describe(site, "torch-openreg", module="torch_openreg", entry_point="torch_openreg", version="0.9")
    check = found(doctor(environment)[1], "package")
    assert check.state == "fail"
    assert "torch_openreg is installed 2 times" in check.found


def test_a_package_from_two_distributions_fails(environment: Environment, site: Path) -> None:
    fake_torch(site)
    install(site, "torch_openreg")
    describe(site, "openreg_nightly", module="torch_openreg", entry_point="torch_openreg")
    _, checks = doctor(environment)
    texts = [check.found for check in checks if check.name == "package" and check.state == "fail"]
    assert texts == ["openreg_nightly also contains a package torch_openreg"]


@pytest.mark.parametrize(
    ("minor", "age", "state", "text"),
    [
        (None, 0, "fail", "no compiled module _C for this Python"),
        (OLDER, 0, "fail", f"was built for torch {OLDER}, and this is torch {FIRST}"),
        (MINOR, 1_000_000_000, "warn", "is newer than"),
        (MINOR, -1_000_000, "ok", "_C"),
    ],
)
def test_a_library_that_is_stale_or_for_another_torch_is_reported(
    environment: Environment, site: Path, minor: str | None, age: int, state: str, text: str
) -> None:
    fake_torch(site)
    package = install(site, "torch_openreg")
    if minor:
        (package / "_build_info.py").write_text(f'TORCH_MINOR = "{minor}"\n')
        library = package / "_C.abi3.so"
        library.touch()
        now = library.stat().st_mtime
        for file in (library, *site.glob("*.dist-info/*")):
            os.utime(file, (now - age, now - age))
    check = found(doctor(environment)[1], "compiled library")
    assert (check.state, text in check.found) == (state, True), check


def test_the_age_of_the_build_is_compared_with_the_newest_source(tmp_path: Path) -> None:
    root = tmp_path / "tests" / "project"  # a folder above the project may have any name
    for number, name in enumerate(("CMakeLists.txt", "csrc/a.cpp", "third_party/x/tests/b.cpp", "csrc/notes.md")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
        os.utime(root / name, (number, number))
    assert backends.newest_source(root) == root / "csrc" / "a.cpp"


def test_autoload_that_is_switched_off_is_reported(
    environment: Environment, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_torch(site)
    install(site, "torch_openreg", "raise ImportError('no library')")
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    _, checks = doctor(environment)
    assert [(c.group, c.state) for c in checks if c.name == "autoload"] == [
        ("Installed backends", "warn"),
        ("Registrations", "skip"),
    ]


# ---------------------------------------------------------------- registrations


def test_a_package_that_does_not_import_fails(environment: Environment, site: Path) -> None:
    install(site, "torch_openreg", "raise ImportError('undefined symbol: _ZN3c10')")
    code, checks = doctor(environment)
    registrations = [check for check in checks if check.group == "Registrations"]
    assert [(check.name, check.state) for check in registrations] == [("autoload", "warn"), ("import", "fail")]
    assert registrations[0].found == "`import torch` fails: undefined symbol: _ZN3c10"
    assert registrations[1].found == "ImportError: undefined symbol: _ZN3c10"
    assert code == 1


def test_a_package_whose_library_is_not_found(environment: Environment, site: Path) -> None:
    """The entry point is right, and the doctor does not blame it."""
    error = "the native library does not load: libacme.so.1: cannot open shared object file: No such file or directory."
    install(site, "torch_openreg", f"raise ImportError({error!r})")
    code, checks = doctor(environment)
    registrations = [check for check in checks if check.group == "Registrations"]
    assert [(check.name, check.state) for check in registrations] == [
        ("SDK library", "fail"),
        ("autoload", "warn"),
        ("import", "fail"),
    ]
    assert registrations[0].found == "the loader does not find libacme.so.1: torch_openreg does not load"
    assert registrations[0].mend.startswith("Install the SDK, or add the library's folder to the loader's path")
    assert {check.mend for check in registrations[1:]} == {"Mend the check 'SDK library' first."}
    assert code == 1


def test_a_missing_library_of_the_package_is_not_the_sdk(environment: Environment, site: Path) -> None:
    install(
        site, "torch_openreg", "raise ImportError('libtorch_bindings.so: cannot open shared object file: No such file')"
    )
    _, checks = doctor(environment)
    assert "SDK library" not in states(checks, "Registrations")
    assert found(checks, "import").mend.startswith("Build and install again")


@pytest.mark.parametrize(
    ("missing", "names", "state", "text"),
    [
        (
            "libacme.so",
            ["libacme.so"],
            "fail",
            "the loader does not find libacme.so: `import torch` works, the device does not",
        ),
        (None, ["libacme.so", "libdriver.so"], "ok", "the loader finds libacme.so, libdriver.so"),
        (None, [], "skip", "torch_openreg is not linked with a library of an SDK yet"),
    ],
)
def test_a_stand_in_for_a_device_without_its_library(
    environment: Environment, site: Path, missing: str | None, names: list[str], state: str, text: str
) -> None:
    package = install(site, "torch_openreg", IN_PYTHON + "from . import _missing_library\n")
    code = f"missing = {missing!r}\ndef libraries():\n    return {names!r}\n"
    (package / "_missing_library.py").write_text(code, encoding="utf-8")
    _, checks = doctor(environment)
    check = found(checks, "SDK library")
    assert (check.state, check.found) == (state, text)
    result = states(checks, "Registrations")
    assert (list(result)[-1] == "SDK library") == (state == "fail"), "without the library the other checks mean nothing"


def test_missing_registrations_are_named(environment: Environment, site: Path) -> None:
    install(site, "torch_openreg", NAME_ONLY)
    _, checks = doctor(environment)
    result = states(checks, "Registrations")
    assert result["autoload"] == result["import"] == "ok"
    wanted = ("device module", "guard", "hooks", "allocator", "generator", "minimal kernels", "first tensor")
    assert [name for name in wanted if result[name] != "fail"] == []
    assert "has no is_available, device_count, current_device" in found(checks, "device module").found
    assert "RegisterPrivateUse1HooksInterface" in found(checks, "hooks").found
    assert "csrc/runtime/Guard.cpp" in found(checks, "guard").mend
    assert "no kernel for aten::empty.memory_format, aten::empty_strided" in found(checks, "minimal kernels").found
    assert result["fallback"] == "warn"


def test_a_single_missing_registration_is_named(environment: Environment, site: Path) -> None:
    """There is no device, as on a machine without the chip. Only the allocator is missing."""
    install(site, "torch_openreg", IN_PYTHON)
    _, checks = doctor(environment)
    assert states(checks, "Registrations") == {
        "autoload": "ok",
        "import": "ok",
        "SDK library": "skip",
        "device module": "ok",
        "guard": "ok",
        "hooks": "ok",
        "allocator": "fail",
        "generator": "skip",
        "minimal kernels": "fail",
        "fallback": "warn",
        "autocast": "warn",
        "stream": "skip",
        "pinned memory": "skip",
        "first tensor": "skip",
    }
    assert found(checks, "allocator").found == "no c10::DeviceAllocator is registered for PrivateUse1"
    assert found(checks, "stream").found == "this check needs a device, and device_count() is 0"


def test_a_crash_is_reported_with_its_signal(environment: Environment, site: Path) -> None:
    fake_torch(site)
    install(site, "torch_openreg", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    code, checks = doctor(environment)
    check = found(checks, "load")
    assert (check.state, code) == ("fail", 1)
    assert "was ended by SIGSEGV during the check 'import'" in check.found
    assert "torch_openreg/__init__.py" in check.found


def test_a_hang_is_ended(environment: Environment, site: Path) -> None:
    fake_torch(site)
    install(site, "torch_openreg", "import time\ntime.sleep(600)")
    _, checks = doctor(environment, "--time-limit", "3")
    check = found(checks, "load")
    assert check.found.startswith("the process that loads the backend did not end within 3 seconds and was killed")
    assert "during the check 'import'" in check.found
    assert "--time-limit" in check.mend
