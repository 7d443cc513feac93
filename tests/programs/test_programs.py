"""Programs of libraries run on the example's device and on the CPU, and give the same numbers. README.md has the rest.

The libraries are not in the environment of this repository: they are installed into one of the suite's own, which stays
below build/ between runs, and the programs run there, one process for each library.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import distributions
from pathlib import Path

import pytest
from torch_backend.environment import Environment, create_environment
from torch_backend.maintenance.example import Example
from torch_backend.maintenance.trees import read_project

from tests.running import ROOT, build_wheel, install_wheel, sync

HERE = Path(__file__).parent
SUITE = HERE / "suite"
REQUIREMENTS = HERE / "requirements.txt"
SCRATCH = ROOT / "build" / "tests" / "programs"
SOURCES = SCRATCH / "sources"
READY = "ready.json"

LIBRARIES = sorted(path.stem.removeprefix("test_") for path in SUITE.glob("test_*.py"))
# Of some libraries, `make test` runs what is quick.
QUICK = ("einops", "safetensors", "transformers")
MODES = {
    "async": {"OPENREG_LAUNCH": "async"},
    "blocking": {"OPENREG_LAUNCH": "blocking"},
    "policy cpu": {"TORCH_OPENREG_FALLBACK": "cpu"},
}
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")
# How pip says that it does not get at a package: the network, or this Python or platform.
OUT_OF_REACH = re.compile(
    "No matching distribution|ConnectionError|NewConnectionError|Max retries|timed out|Temporary failure|ProxyError"
)


def canonical(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def pinned() -> dict[str, str]:
    """Versions by name; the whole closure but for torch, which is the one of this repository."""
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonical(name): version for name, version in pairs}


@dataclass(frozen=True)
class Programs:
    """An environment with the libraries and the device."""

    environment: Environment

    def run(self, library: str, *options: str, mode: dict[str, str] | None = None) -> None:
        """Run the programs of a library."""
        # The settings of this repository's tests, and their conftest.py, are not for these.
        apart = ("-c", SUITE / "pytest.ini", "--rootdir", SUITE, "--confcutdir", SUITE)
        command = [self.environment.python, "-m", "pytest", *apart, *options, SUITE / f"test_{library}.py"]
        done = subprocess.run(
            [str(word) for word in command],
            cwd=ROOT,
            env=self.environment.variables({"PROGRAMS_SOURCES": str(SOURCES), **(mode or {})}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        summary = "\n".join(done.stdout.splitlines()[-40:])
        print(summary)
        assert done.returncode == 0, done.stdout[-12000:]
        assert re.search(r"\d+ passed", summary), "all of them were skipped"


def pip(environment: Environment, *arguments: str | Path) -> None:
    """Run pip. If a package is out of reach, skip the test, unless REQUIRE_PROGRAMS is set, as it is in CI."""
    command = [str(word) for word in (environment.python, *PIP, *arguments)]
    done = subprocess.run(
        command, env=environment.variables(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode == 0:
        return
    if OUT_OF_REACH.search(done.stdout) and not os.environ.get("REQUIRE_PROGRAMS"):
        pytest.skip(f"the libraries cannot be had: {done.stdout.strip().splitlines()[-1]}")
    raise AssertionError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-6000:]}")


@pytest.fixture(scope="session")
def libraries() -> Environment:
    """The environment with what requirements.txt lists, made anew when that or the Python below it changes."""
    folder = SCRATCH / "venv"
    versions = pinned()
    wanted = {"requirements": sha256(REQUIREMENTS.read_bytes()).hexdigest(), "python": os.path.realpath(sys.executable)}
    ready = folder / READY
    if ready.exists() and json.loads(ready.read_text(encoding="utf-8")) == wanted:
        return create_environment(folder)
    shutil.rmtree(folder, ignore_errors=True)
    # Links to packages of the running environment would lead pip there, so those that it installs are not linked.
    without = {found.name for found in distributions() if canonical(found.name) in versions}
    environment = create_environment(folder, without=without)
    pip(environment, "install", "--no-deps", "--no-warn-script-location", "--requirement", REQUIREMENTS)
    ready.write_text(json.dumps(wanted), encoding="utf-8")
    return environment


def fetch_sources(environment: Environment, name: str) -> None:
    """Unpack a source distribution, whose tests are run."""
    version = pinned()[name]
    if not (SOURCES / f"{name}-{version}").is_dir():
        shutil.rmtree(SOURCES, ignore_errors=True)
        SOURCES.mkdir(parents=True)
        options = ("--no-deps", "--no-build-isolation", "--no-binary", ":all:", "--dest", SOURCES)
        pip(environment, "download", *options, f"{name}=={version}")
        (archive,) = SOURCES.glob("*.tar.gz")
        with tarfile.open(archive) as opened:
            opened.extractall(SOURCES, filter="data")


@pytest.fixture(scope="session")
def programs(example: Example, libraries: Environment) -> Programs:
    """With the example, built as any project of the tests is: what the compiler cache holds is found again."""
    project = SCRATCH / "project"
    sync(read_project(example.folder), project)
    env = libraries.variables({"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    install_wheel(build_wheel(project, SCRATCH / "wheels", libraries, env), libraries, env)
    return Programs(libraries)


def test_requirements_are_pinned_and_omit_torch() -> None:
    versions = pinned()
    assert {"torch", "torch-openreg"}.isdisjoint(versions)
    assert all(re.fullmatch(r"\d[\w.]*", version) for version in versions.values()), versions
    assert {canonical(name.replace("torch_geometric", "torch-geometric")) for name in LIBRARIES} <= versions.keys()


def test_readme_lists_every_library_that_is_tested() -> None:
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    versions = pinned()
    for library in LIBRARIES:
        assert f"| {library} {versions[canonical(library)]} |" in readme, library


QUOTE = re.compile(r"^\| (?P<file>[\w/]+\.py):(?P<line>\d+) \| (?:`(?P<code>[^`]+)`) \|", re.MULTILINE)


@pytest.mark.build
def test_the_readme_quotes_lines_of_the_installed_libraries(libraries: Environment) -> None:
    """A new version of a library moves lines. The table must then be checked again."""
    quotes = list(QUOTE.finditer((HERE / "README.md").read_text(encoding="utf-8")))
    assert len(quotes) > 25
    for quote in quotes:
        lines = (libraries.site_packages / quote["file"]).read_text(encoding="utf-8").splitlines()
        line = lines[int(quote["line"]) - 1]
        assert quote["code"] in line, f"{quote['file']}:{quote['line']} is {line.strip()!r}"


@pytest.mark.build
@pytest.mark.parametrize("library", QUICK)
def test_quick_programs_give_the_cpus_results(programs: Programs, library: str) -> None:
    programs.run(library, "-m", "not matrix")


@pytest.mark.build
@pytest.mark.matrix
@pytest.mark.parametrize("library", LIBRARIES)
def test_all_programs_give_the_cpus_results(programs: Programs, library: str) -> None:
    if library == "timm":
        fetch_sources(programs.environment, library)
    programs.run(library)


@pytest.mark.build
@pytest.mark.matrix
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("library", LIBRARIES)
def test_programs_give_the_cpus_results_in_other_modes(programs: Programs, library: str, mode: str) -> None:
    """All programs of transformers run, because they use most kinds of operators; of the others only the quick ones."""
    programs.run(library, *(() if library == "transformers" else ("-m", "not matrix")), mode=MODES[mode])
