"""An extension of somebody else's, built with CMake against the installed package, brings a kernel for the device."""

import importlib
import os
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from conftest import PACKAGE, PROJECT

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
    """Between what was submitted before it and after it, on the stream that is current, whenever the device works."""
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


def test_other_operands_are_refused(device: str, axpy: Any) -> None:
    x = torch.randn(3)
    with pytest.raises(NotImplementedError, match=r"extension::axpy.*CPU"):
        axpy(x, x, 1)
    with pytest.raises(RuntimeError, match="one shape"):
        axpy(x.to(device), x.to(device)[:2], 1)
    with pytest.raises(RuntimeError, match="float32"):
        axpy(x.to(device), x.to(device).double(), 1)


def test_every_header_can_be_included(build: Path) -> None:
    included = (build / "headers.cpp").read_text(encoding="utf-8")
    for header in ("device/Launch.h", "runtime/Stream.h", "aten/native/Pointwise.h"):
        assert f"#include <{header}>\n" in included
    done = cmake("--build", build, "--target", "headers")
    assert done.returncode == 0, done.stdout + done.stderr


def test_another_torch_is_refused(package: ModuleType, device: str, tmp_path: Path) -> None:
    """With a torch that consists of its version."""
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
    assert f"{PACKAGE} was built with torch {built_with}, but the torch that was found in" in message
    assert "is 1.13.1." in message


def test_paths_lead_to_what_is_installed(package: ModuleType) -> None:
    names, sources = map(Path, package.include_paths())
    assert (names / PACKAGE / "device" / "Launch.h").is_file()
    assert (sources / "device" / "Launch.h").is_file()
    (libraries,) = map(Path, package.library_paths())
    assert (libraries / f"lib{PACKAGE}.so").is_file()
    assert (Path(package.cmake_prefix_path) / PACKAGE / f"{PACKAGE}Config.cmake").is_file()
