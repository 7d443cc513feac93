"""docs/porting.md as a vendor follows it: its steps and commands in their order, with the SDK in tests/standin/basalt.

That SDK lacks what many young SDKs lack; its header names the gaps. ``tests/standin/basalt_port`` is what a vendor
writes for it. Each step of the page lays its files over the rendered project and runs its commands. The last one runs
the project's tests.
"""

from __future__ import annotations

import difflib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from torch_backend.environment import create_environment
from torch_backend.inspection.steps import STEPS
from torch_backend.maintenance.trees import read_project
from torch_backend.render import Tree, render_tree, write_file
from torch_backend.source import Source

from .running import ROOT, checked, sync

STANDIN = ROOT / "tests" / "standin"
SCRATCH = ROOT / "build" / "tests" / "walkthrough"
ANSWERS = {"vendor_name": "Acme", "device_library": "external"}
MOST_LINES = 250


@dataclass(frozen=True)
class Step:
    """A section of the page: its title, then files to write (lists) and commands to run (texts) in their order."""

    title: str
    parts: list[list[str] | str]

    @property
    def files(self) -> list[str]:
        """The files that the step writes."""
        return [path for part in self.parts if isinstance(part, list) for path in part]


def steps(page: str) -> Iterator[Step]:
    """Reads the numbered sections."""
    for title, text in re.findall(r"^## \d+\. (.+)\n((?:(?!## ).*\n)*)", page, re.MULTILINE):
        parts: list[list[str] | str] = []
        for files, commands in re.findall(r"^Files: (.*)$|^```bash\n((?:(?!```).*\n)*)```$", text, re.MULTILINE):
            # The kernel that add-op writes is named without its folder, because pages name only paths that exist.
            names = re.findall(r"[\w/]+\.(?:cpp|h|cmake)\b", files)
            parts.append([name if "/" in name else f"csrc/aten/native/{name}" for name in names] if files else commands)
        yield Step(title, parts)


def page(tree: Tree) -> str:
    return tree["docs/porting.md"].content.decode()


def test_the_page_and_status_have_the_same_steps(source: Source) -> None:
    told = list(steps(page(render_tree(source, ANSWERS))))
    assert [step.title for step in told] == [title for title, _ in STEPS]
    for step, (_, patterns) in zip(told, STEPS, strict=True):
        assert all(any(Path(path).match(pattern) for pattern in patterns) for path in step.files), step
        assert any(isinstance(part, str) for part in step.parts), f"{step.title} has no command"


def test_the_steps_write_the_whole_port(source: Source) -> None:
    port = read_project(STANDIN / "basalt_port")
    told = [path for step in steps(page(render_tree(source, ANSWERS))) for path in step.files]
    assert len(told) == len(set(told))
    assert set(told) == set(port)


def test_the_port_is_short(source: Source) -> None:
    """The lines that a vendor writes, without blank ones."""
    rendered = render_tree(source, ANSWERS)
    written = 0
    for path, file in read_project(STANDIN / "basalt_port").items():
        before = rendered[path].content.decode().splitlines() if path in rendered else []
        lines = difflib.ndiff(before, file.content.decode().splitlines())
        written += sum(line.startswith("+ ") and line[2:].strip() != "" for line in lines)
    assert 100 < written <= MOST_LINES, written


@pytest.mark.build
def test_the_walkthrough_ports_a_project(source: Source) -> None:
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    prefix, project = SCRATCH / "prefix", SCRATCH / "project"
    machine = create_environment(SCRATCH / "venv")
    env = machine.variables({"BASALT_HOME": str(prefix)})
    env["PATH"] += f":{Path(sys.executable).parent}"  # for torch-backend
    where = ("-S", STANDIN / "basalt", "-B", SCRATCH / "basalt", f"-DCMAKE_INSTALL_PREFIX={prefix}")
    checked("cmake", "-G", "Ninja", *where, "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror", cwd=SCRATCH, env=env)
    checked("cmake", "--build", SCRATCH / "basalt", "--target", "install", cwd=SCRATCH, env=env)

    tree = render_tree(source, ANSWERS)
    port = read_project(STANDIN / "basalt_port")
    sync(tree, project)
    out, times = "", []
    for step in steps(page(tree)):
        start = time.perf_counter()
        for part in step.parts:
            if isinstance(part, str):
                out = run(part, project, env)
            else:
                for path in part:
                    if path in port:
                        write_file(project / path, port[path])
        times.append(f"{step.title}: {time.perf_counter() - start:.0f} s")
    print("\n".join(times), out[-3000:], sep="\n\n")
    assert int(re.findall(r"(\d+) passed", out)[-1]) > 5000, out[-2000:]


def run(commands: str, project: Path, env: dict[str, str]) -> str:
    """Runs a block of the page; returns what it prints."""
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", commands],
        cwd=project,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=3600,
        check=False,
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout[-6000:]}"
    return done.stdout
