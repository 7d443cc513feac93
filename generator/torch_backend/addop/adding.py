"""Adds operators to a project."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch_backend.errors import UserError
from torch_backend.project import Project

from .changes import all_or_nothing, create, replace, write_porting_page
from .kernel import functions_of, kernel_source
from .op_test import test_source
from .operator_list import LIST, without
from .registered import handed_on, kernels
from .schemas import describe, python_with_schemas
from .spelling import kernel_path, test_paths

SUPPORT = Path("csrc") / "aten" / "support"
NEEDED = (
    LIST,
    SUPPORT / "Reference.h",
    SUPPORT / "Structured.h",
    Path("tests") / "opinfo.py",
    Path("tests") / "overloads.py",
)


@dataclass(frozen=True)
class Added:
    """What was added for one operator; paths are relative to the project.

    Attributes:
        name: the operator, such as ``gelu``.
        functions: the overloads that now have a kernel.
        left: overloads that PyTorch computes from others.
        unserved: overloads that get no kernel, because the CPU has no kernel to use as a reference.
        kernel: the C++ file.
        test: the test file.
        opinfos: entries of PyTorch's database whose samples the test uses.
        samples: the number of further samples, which are made from the schemas.
    """

    name: str
    functions: list[str]
    left: list[str]
    unserved: list[str]
    kernel: Path
    test: Path
    opinfos: list[str]
    samples: int

    def to_json(self) -> dict[str, Any]:
        """Returns the same data as plain values."""
        return asdict(self) | {"kernel": self.kernel.as_posix(), "test": self.test.as_posix()}


@dataclass
class _Plan:
    """Files to write, none of which is on disk yet, and the operators that get none.

    Attributes:
        refused: why an operator cannot have a kernel, by its name.
        existing: why an operator with a kernel or with files gets no other one, by its name.
        schemas: the overloads that get a kernel.
    """

    new: dict[Path, str] = field(default_factory=dict)
    added: list[Added] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    existing: dict[str, str] = field(default_factory=dict)
    schemas: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Result:
    """The outcome for all operators.

    Attributes:
        added: the operators with a new kernel.
        refused: why an operator cannot have a kernel, by its name.
        existing: why an operator with a kernel or with files gets no other one, by its name.
        python: the interpreter whose torch described the operators.
    """

    added: list[Added]
    refused: dict[str, str]
    existing: dict[str, str]
    python: Path

    @property
    def problems(self) -> list[str]:
        """The reasons of all operators that got no kernel, each once."""
        return list(dict.fromkeys([*self.refused.values(), *self.existing.values()]))


def add_operators(
    project: Project,
    names: list[str],
    python: Path | None = None,
    *,
    samples: bool = True,
    dry_run: bool = False,
) -> Result:
    """Writes a kernel and a test for each operator that can have them, and takes it off the list of emulated ones.

    Args:
        project: the project.
        names: families such as ``gelu`` or single overloads such as ``add.Tensor``, with or without ``aten::``.
        python: an interpreter with the project's torch; None to look for one.
        samples: whether the tests get samples that are made from the schemas, which takes a second for each operator.
        dry_run: write nothing.

    Raises:
        UserError: there is no such interpreter, or a file cannot be written. Nothing is written then.
    """
    if missing := [path.as_posix() for path in NEEDED if not (project.root / path).is_file()]:
        raise UserError(
            f"{project.root} has no {', '.join(missing)}: update it to the present template (torch-backend update)."
        )
    plan = _Plan()
    names = list(dict.fromkeys(name.removeprefix("aten::") for name in names))
    present = kernels(project.root)
    # What the sources tell needs no torch, and samples take long.
    plan.existing = _with_files(project, names, present)
    plan.refused = _reached(project, [name for name in names if name not in plan.existing])
    left = [name for name in names if name not in plan.existing and name not in plan.refused]
    python = python_with_schemas(project, python)
    answers = describe(python, left, samples=samples) if left else {}
    for name in left:
        if "refused" in answers[name]:
            plan.refused[name] = answers[name]["refused"]
        else:
            _add(plan, project, answers[name]["operator"], present)
    if plan.added and not dry_run:
        _write(project, plan, python)
    return Result(plan.added, plan.refused, plan.existing, python)


def _with_files(project: Project, names: list[str], present: dict[str, str]) -> dict[str, str]:
    """Returns the operators whose kernel or files are there."""
    found = {}
    for name in names:
        if name in present:
            found[name] = f"aten::{name} already has a kernel, in {present[name]}: change that kernel."
            continue
        files = [path for path in (kernel_path(name), test_paths(name)[0]) if (project.root / path).exists()]
        if files and files[0].as_posix() in present.values():
            found[name] = f"aten::{name} already has a kernel, in {files[0].as_posix()}: change that kernel."
        elif files:
            found[name] = "\n".join(
                f"{path.as_posix()} already exists: move it away or add the operator by hand." for path in files
            )
    return found


def _reached(project: Project, names: list[str]) -> dict[str, str]:
    """Returns refusals of the operators that kernels of other operators hand their operands on to."""
    through = handed_on(project.root)
    files = {name: through.get(name.replace(".", "_")) for name in names}
    return {
        name: f"aten::{name} reaches the device through the kernel in {file}: change that kernel."
        for name, file in files.items()
        if file is not None
    }


def _add(plan: _Plan, project: Project, operator: dict[str, Any], present: dict[str, str]) -> None:
    """Plans the files of an operator, or the reason why it has none. ``present`` has the overloads with a kernel."""
    name = operator["name"]
    kernel, test = kernel_path(name), test_paths(name)[0]
    schemas = [function["schema"] for function in functions_of(operator)]
    if plan.schemas.issuperset(schemas):
        return  # the same operator in other words, such as silu_ and silu
    problems = [
        f"aten::{schema} is in {present[schema]}, which another name of this call writes: leave one of them out."
        if schema in plan.schemas
        else f"aten::{schema} already has a kernel, in {present[schema]}: change that kernel."
        for schema in schemas
        if schema in present
    ]
    problems += [
        f"{path.as_posix()} already exists: move it away or add the operator by hand."
        for path in (kernel, test)
        if path in plan.new
    ]
    if problems:
        plan.existing[name] = "\n".join(problems)
        return
    present |= dict.fromkeys(schemas, kernel.as_posix())
    plan.schemas |= set(schemas)
    plan.new[kernel] = kernel_source(project, operator)
    plan.new[test] = test_source(operator, kernel.name)
    opinfos = [opinfo["name"] for opinfo in operator["opinfos"]]
    samples = len(operator["samples"])
    left, unserved = operator["left"], operator["unserved"]
    plan.added.append(Added(name, schemas, left, unserved, kernel, test, opinfos, samples))


def _write(project: Project, plan: _Plan, python: Path) -> None:
    """Writes new files, the list, and the porting page; undoes everything if one step fails."""
    listed = without(project, plan.schemas)
    with all_or_nothing(project) as undo:
        for path, text in plan.new.items():
            create(project.root / path, text, undo)
        replace(project.root / LIST, listed, undo)
        write_porting_page(project, python, undo)


def summary(added: Added, *, dry_run: bool = False) -> str:
    """Describes the files and overloads that were added for an operator, and the overloads that were not."""
    wrote = "would write" if dry_run else "wrote"
    lines = [f"aten::{added.name}: {', '.join(added.functions)}"]
    if added.left:
        lines.append(f"  PyTorch computes {', '.join(added.left)} from other operators: no kernel needed")
    if added.unserved:
        lines.append(f"  omitted {', '.join(added.unserved)}: the CPU has no kernel to use as a reference")
    lines.append(f"  {wrote} {added.kernel.as_posix()}")
    tested = [f"PyTorch's samples for {', '.join(added.opinfos)}"] if added.opinfos else []
    tested += [f"{added.samples} samples made from the schemas"] if added.samples else []
    lines.append(
        f"  {wrote} {added.test.as_posix()}, with {' and '.join(tested) or 'a place for samples, which you write'}"
    )
    return "\n".join(lines)


def build_steps(python: Path, added: list[Added]) -> list[list[str]]:
    """Returns the commands that build the project and run the new tests, in the project's folder."""
    tests = [operator.test.as_posix() for operator in added]
    return [
        [str(python), "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--editable", "."],
        [str(python), "-m", "pytest", *tests],
    ]


def run_steps(project: Project, steps: list[list[str]], *, to_stderr: bool = False) -> None:
    """Runs commands in the project's folder. Their output goes to the terminal.

    Args:
        project: the project.
        steps: the commands.
        to_stderr: write the output to stderr, so that stdout has only JSON.

    Raises:
        UserError: a command failed. The files stay.
    """
    for step in steps:
        done = subprocess.run(step, cwd=project.root, stdout=sys.stderr if to_stderr else None, check=False)
        if done.returncode != 0:
            raise UserError(f"failed with exit code {done.returncode}, in {project.root}: {shlex.join(step)}")
