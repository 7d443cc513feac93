"""Puts a kernel of ``add-op`` for every operator into one project, and runs the project's conformance tests.

``python -m tests.add_op_all FOLDER`` takes half an hour with two processors, so it is no test of CI. Run it after
changes of what add-op writes. FOLDER keeps the project, its environment, and ``refused.json``, which
has the reason for each operator without a kernel. A second run with the same folder goes on from there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path

from torch_backend.addop.adding import add_operators
from torch_backend.environment import Environment, create_environment
from torch_backend.errors import UserError
from torch_backend.inside.schemas.schema import Schemas
from torch_backend.project import Project
from torch_backend.render import render_tree, write_file
from torch_backend.source import find_source


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--operators", nargs="+", help="families; default: all of the installed torch")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes for the build and the tests")
    parser.add_argument("pytest", nargs="*", help="options for the conformance tests, after --")
    options = parser.parse_args()
    folder: Path = options.folder.resolve()
    root = folder / "project"
    if not (folder / "refused.json").exists():
        write_kernels(root, options.operators or Schemas().names(), folder / "refused.json")
    refused: dict[str, str] = json.loads((folder / "refused.json").read_text(encoding="utf-8"))
    environment = build(root, folder / "venv", options.jobs)
    written = len(
        re.findall(r"fallback::hostBody\(", "".join(p.read_text() for p in (root / "csrc/aten").rglob("*.cpp")))
    )
    print(f"{written} overloads have a kernel that add-op wrote; {len(refused)} operators have none", flush=True)
    command = [
        "tests/conformance/run.py",
        "--jobs",
        str(options.jobs),
        "--resume",
        *(["--", *options.pytest] if options.pytest else []),
    ]
    try:
        environment.run(*command, cwd=root)
    except UserError as error:
        print(error)
        return 1
    return 0


def write_kernels(root: Path, names: list[str], refused: Path) -> None:
    """Renders the project and adds every operator that add-op accepts."""
    for path, file in render_tree(find_source(), {}).items():
        write_file(root / path, file)
    # One file for many kernels, because parsing PyTorch's headers takes longer than compiling a kernel.
    lists = root / "csrc" / "CMakeLists.txt"
    text = re.sub(r"(?m)^set_source_files_properties\(\$\{kernels\} .*\n", "", lists.read_text(encoding="utf-8"))
    lists.write_text(text, encoding="utf-8")
    project = Project.find(root)
    done = add_operators(project, names, Path(sys.executable), samples=False)
    reasons = done.refused | done.existing
    refused.write_text(json.dumps(reasons, indent=1), encoding="utf-8")


def build(root: Path, folder: Path, jobs: int) -> Environment:
    """Builds the project quickly rather than well, and installs it into an environment of its own."""
    environment = create_environment(folder)
    options = ("--no-build-isolation", "--no-deps", "--editable", ".")
    variables = {
        "CMAKE_ARGS": "-DCMAKE_UNITY_BUILD_BATCH_SIZE=16",
        "CMAKE_BUILD_PARALLEL_LEVEL": str(jobs),
        "CXXFLAGS": "-O0",
        "SKBUILD_CMAKE_BUILD_TYPE": "Debug",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }
    environment.run("-m", "pip", "install", "--quiet", *options, cwd=root, extra=variables)
    return environment


if __name__ == "__main__":
    sys.exit(main())
