"""Adds operators to a project: all of them or none."""

from __future__ import annotations

import shlex
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch_backend.errors import UserError
from torch_backend.inspection.registered import kernels
from torch_backend.project import Project

from .kernel import functions_of, kernel_source
from .op_test import test_source
from .operator_list import LIST, require_list, with_native
from .schemas import describe, python_with_schemas
from .spelling import pascal, snake

NATIVE = Path("csrc") / "aten" / "native"
NEEDED = (NATIVE / "Reference.h", NATIVE / "Structured.h", Path("tests") / "opinfo.py", Path("tests") / "overloads.py")
PORTING = Path("docs") / "porting.py"
PORTING_PAGE = Path("docs") / "porting.md"


@dataclass(frozen=True)
class Added:
    """What was added for one operator; paths are relative to the project.

    Attributes:
        name: the operator, such as ``gelu``.
        functions: the overloads that have a kernel now.
        left: overloads that PyTorch makes of others.
        unserved: overloads without a kernel on the CPU that could serve as a reference.
        kernel: the C++ file.
        test: the test.
        opinfos: entries of PyTorch's database that the test takes samples from.
        samples: the number of other samples that it has, made from the schemas.
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
        """The same as plain values."""
        return asdict(self) | {"kernel": self.kernel.as_posix(), "test": self.test.as_posix()}


@dataclass
class _Plan:
    """Files to be written, nothing of which is on disk yet."""

    new: dict[Path, str] = field(default_factory=dict)
    added: list[Added] = field(default_factory=list)


def add_operators(project: Project, names: list[str], python: Path | None = None) -> tuple[list[Added], Path]:
    """Writes a kernel, entries in the list of operators, and a test for each operator.

    Args:
        names: families such as ``gelu`` or single overloads such as ``add.Tensor``, with or without ``aten::``.
        python: an interpreter with the project's torch; None to look for one.

    Returns:
        What was added, and the interpreter whose torch was asked.

    Raises:
        UserError: an operator is unknown, needs no kernel or has one, a file is there already, or cannot be written.
            Nothing is written then.
    """
    if missing := [path.as_posix() for path in NEEDED if not (project.root / path).is_file()]:
        raise UserError(
            f"{project.root} has no {', '.join(missing)}: update it to the present template (copier update)."
        )
    require_list(project)
    python = python_with_schemas(project, python)
    names = list(dict.fromkeys(name.removeprefix("aten::") for name in names))
    answers = describe(python, names)
    if refused := [answer["refused"] for answer in answers.values() if "refused" in answer]:
        raise UserError("\n".join([*refused, "Nothing was written."]), 2)
    operators = [answers[name]["operator"] for name in names]
    plan = _plan(project, operators)
    functions = [(f["schema"], f["op"]) for operator in operators for f in functions_of(operator)]
    _write(project, plan.new, with_native(project, functions), python)
    return plan.added, python


def _plan(project: Project, operators: list[dict[str, Any]]) -> _Plan:
    plan = _Plan()
    problems: list[str] = []
    present = kernels(project.root)
    for operator in operators:
        name = operator["name"]
        kernel = NATIVE / f"{pascal(name)}.cpp"
        test = Path("tests") / f"test_{snake(name)}.py"
        schemas = [function["schema"] for function in functions_of(operator)]
        for schema in schemas:
            if schema in present:
                problems.append(f"aten::{schema} has a kernel already, in {present[schema]}: change it there.")
            present[schema] = kernel.as_posix()
        for path in (kernel, test):
            if (project.root / path).exists() or path in plan.new:
                problems.append(f"{path.as_posix()} is there already: move it away or add the operator by hand.")
        plan.new[kernel] = kernel_source(project, operator)
        plan.new[test] = test_source(operator, kernel.name)
        opinfos = [opinfo["name"] for opinfo in operator["opinfos"]]
        samples = len(operator["samples"])
        left, unserved = operator["left"], operator["unserved"]
        plan.added.append(Added(name, schemas, left, unserved, kernel, test, opinfos, samples))
    if problems:
        raise UserError("\n".join([*dict.fromkeys(problems), "Nothing was written."]))
    return plan


def _write(project: Project, new: dict[Path, str], listed: str, python: Path) -> None:
    """Writes new files and the list, and the page of what is to be ported; takes everything back if one step fails."""
    with ExitStack() as undo:
        try:
            for path, text in new.items():
                with (project.root / path).open("x", encoding="utf-8", newline="\n") as file:
                    undo.callback((project.root / path).unlink)
                    file.write(text)
            _replace(project.root / LIST, listed, undo)
            page = project.root / PORTING_PAGE
            if page.is_file() and (project.root / PORTING).is_file():
                _replace(page, page.read_text(encoding="utf-8"), undo)
                subprocess.run([str(python), str(project.root / PORTING)], check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            reason = getattr(error, "stderr", None) or error
            raise UserError(f"{project.root} cannot be changed, and is as it was: {reason}") from error
        undo.pop_all()


def _replace(path: Path, text: str, undo: ExitStack) -> None:
    before = path.read_bytes()
    undo.callback(path.write_bytes, before)
    path.write_text(text, encoding="utf-8", newline="\n")


def summary(added: Added) -> str:
    """Says what was added for an operator, and what was not."""
    lines = [f"aten::{added.name}: {', '.join(added.functions)}"]
    if added.left:
        lines.append(f"  PyTorch makes {', '.join(added.left)} of other operators: no kernel needed")
    if added.unserved:
        lines.append(f"  {', '.join(added.unserved)} left out: the CPU has no kernel that could stand in for yours")
    lines.append(f"  wrote {added.kernel.as_posix()}")
    tested = [f"PyTorch's samples for {', '.join(added.opinfos)}"] if added.opinfos else []
    tested += [f"{added.samples} samples made from the schemas"] if added.samples else []
    lines.append(
        f"  wrote {added.test.as_posix()}, with {' and '.join(tested) or 'a place for samples, which you write'}"
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
    """Runs commands in the project's folder, their output going to the terminal.

    Args:
        project: the project.
        steps: the commands.
        to_stderr: keep the standard output free, for JSON.

    Raises:
        UserError: one failed. The files stay.
    """
    for step in steps:
        done = subprocess.run(step, cwd=project.root, stdout=sys.stderr if to_stderr else None, check=False)
        if done.returncode != 0:
            raise UserError(f"failed with exit code {done.returncode}, in {project.root}: {shlex.join(step)}")
