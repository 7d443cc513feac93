"""What the tests share. They use copier's public API with unsafe=False, so that a need for --trust would show."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from copier import run_copy
from torch_backend.environment import Environment, create_environment
from torch_backend.maintenance.example import Example
from torch_backend.source import PARTS, Source, find_source
from xdist.scheduler import LoadScopeScheduling

from .running import ROOT

# Names and answers that a render must survive: short, long, underscores, every licence, features on and off.
MATRIX: dict[str, dict[str, Any]] = {
    "default": {},
    "acme": {"vendor_name": "Acme", "device_name": "acme", "package_name": "torch_acme"},
    "zz": {"vendor_name": "Zz", "device_name": "zz", "license": "MIT", "features": []},
    "very_long": {
        "vendor_name": "Very Long Vendor Name",
        "device_name": "very_long_vendor_name",
        "license": "Apache-2.0",
        "features": ["benchmarks"],
    },
    "limits": {
        "vendor_name": "V" * 40,
        "device_name": "abcdefghij_abcdefghij_abcdefgh",
        "package_name": "a_backend_whose_name_has_forty_characters"[:40],
        "sdk_name": "the_emulated_device_library_of_forty_chr",
        "sdk_prefix": "twelveletter",
        "license": "proprietary",
        "num_devices": 64,
        "device_memory": "512M",
    },
    "before_torch": {"vendor_name": "Apex", "package_name": "apex_npu_backend", "features": ["docs"]},
    "external": {"vendor_name": "Outer Space", "device_library": "external", "license": "MIT"},
    "hostile": {
        "vendor_name": "Möller & Söhne 3.0",
        "description": """He said "it's 100% fast", $HOME; 'naïve' <b>*ünï*</b> # 🚀""",
        "author": """Zoë "Q" O'Neil, Ph.D. <&>""",
    },
}

# The example and those of them that are built.
BUILT = ["openreg", "acme", "zz", "very_long"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that take long first, so that no process is left with them; ccache shortens the second ones."""
    quick = ("test_add_op_build.py", "test_first_hour.py", "test_programs.py")
    items.sort(key=lambda item: 2 if not item.get_closest_marker("build") else item.path.name in quick)


class _Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Run each file in one process, because its fixtures build projects; in test_build.py, the tests of each project.

    pytest-xdist's own groups have no effect: xdist 3.8 appends them to the names of tests, which pytest 9.2 ignores.
    """

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        parameters = re.split(r"[\[\]-]", test)
        return file + "".join(f"[{name}]" for name in BUILT if file.endswith("test_build.py") and name in parameters)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Scheduling:
    return _Scheduling(config, log)


@pytest.fixture(scope="session")
def source() -> Iterator[Source]:
    """The template as it lies in the work tree."""
    with find_source().snapshot() as snapshot:
        yield snapshot


@pytest.fixture(scope="session")
def questions(source: Source, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    """The template with the answers file as its only file. It renders fast, for tests of answers."""
    folder = tmp_path_factory.mktemp("questions")
    (answers_file,) = source.template.glob("*answers_file*")
    shutil.copy2(answers_file, folder)
    with source.snapshot(folder) as snapshot:
        yield snapshot


@pytest.fixture(scope="session")
def example() -> Example:
    return Example(find_source(), ROOT / "examples" / "openreg")


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment like the one that the tests run in, in which no backend is installed."""
    return create_environment(tmp_path_factory.mktemp("environment"))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages that every Python finds which a test starts."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.delenv("TORCH_DEVICE_BACKEND_AUTOLOAD", raising=False)
    return folder


def render_into(source: Source, target: Path, **answers: Any) -> Path:
    run_copy(str(source.root), target, data=answers, defaults=True, quiet=True, unsafe=False)
    return target


@pytest.fixture
def render(source: Source, tmp_path: Path) -> Callable[..., Path]:
    """Renders with the given answers into a fresh folder, by plain copier."""

    def call(**answers: Any) -> Path:
        return render_into(source, tmp_path / "project", **answers)

    return call


@pytest.fixture(scope="session", params=list(MATRIX))
def project(request: pytest.FixtureRequest, source: Source, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A render for each row of the matrix; tests must not change it."""
    return render_into(source, tmp_path_factory.mktemp(request.param) / "project", **MATRIX[request.param])


def answers_of(project: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((project / ".copier-answers.yml").read_text(encoding="utf-8"))
    return loaded


def text_files(project: Path) -> Iterator[tuple[str, str]]:
    """Relative path and text of every file that is text."""
    for path in sorted(p for p in project.rglob("*") if p.is_file()):
        try:
            yield path.relative_to(project).as_posix(), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


# Enough of a template to try the generator on: the real one takes a second to render.
SMALL_TEMPLATE = {
    "csrc/Common.h": "#pragma once\n",
    "csrc/device/Memory.cpp.jinja": "#include <{{ sdk_name }}/{{ sdk_name }}.h>\n",
    "csrc/runtime/Event.h.jinja": "#pragma once\nnamespace {{ device_name }} {}\n",
    "csrc/runtime/Stream.h.jinja": "#pragma once\nnamespace {{ device_name }} {\nclass Stream;\n}\n",
    "csrc/aten/native/Add.cpp.jinja": "namespace {{ device_name }} {}\n",
    "third_party/{{ sdk_name }}/include/{{ sdk_name }}/{{ sdk_name }}.h.jinja": (
        "#define {{ sdk_macro }}_API\n{{ sdk_macro }}_API int {{ sdk_prefix }}Malloc(void);\n"
    ),
    "python/{{ package_name }}/{{ device_name }}/__init__.py.jinja": "import {{ package_name }}\n",
    "{% if 'benchmarks' in features %}benchmarks{% endif %}/run.py": "print()\n",
    "README.md.jinja": "# {{ package_name }}\n\nFor {{ vendor_name }}.\n\n## Build\n\nBuild it.\n",
}


def write_repository(root: Path, *, small: bool) -> Example:
    """Copies the template and its example; ``small`` renders in a moment."""
    root.mkdir()
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, root / part)
        else:
            shutil.copy2(ROOT / part, root / part)
    result = Example(Source(root), root / "examples" / "openreg")
    result.folder.parent.mkdir()
    shutil.copy2(ROOT / "examples" / "openreg.yml", result.folder.parent)
    if small:
        for path in result.source.template.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif not re.search("LICENSE|answers_file", path.name):
                path.unlink()
        for name, text in SMALL_TEMPLATE.items():
            path = result.source.template / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    result.render()
    return result


@pytest.fixture
def scratch(tmp_path: Path) -> Example:
    """A small template and its example, which a test may change."""
    return write_repository(tmp_path / "repository", small=True)


@pytest.fixture
def repository(tmp_path: Path) -> Example:
    """A copy of the real template and example, which a test may change."""
    return write_repository(tmp_path / "repository", small=False)
