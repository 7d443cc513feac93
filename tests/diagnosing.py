"""Runs the doctor and finds single checks in its report."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

from click.testing import CliRunner
from torch_backend.cli import main
from torch_backend.environment import Environment
from torch_backend.inspection.doctor import Check
from torch_backend.inspection.doctor.diagnosis import FAMILIES

from .running import ROOT

EXAMPLE = ROOT / "examples" / "openreg"


def doctor(
    environment: Environment, *options: str, project: Path | None = EXAMPLE, compiler: bool = False
) -> tuple[int, list[Check]]:
    """Returns the exit code and the checks. The check of the compiler takes a second, so it is optional."""
    where = ["--project", str(project)] if project else []
    arguments = ["doctor", "--json", "--python", str(environment.python), *where, *options]
    families = {name: family for name, family in FAMILIES.items() if compiler or name != "Compiler"}
    with mock.patch.dict(FAMILIES, families, clear=True):
        result = CliRunner().invoke(main, arguments)
    assert result.exit_code in {0, 1}, result.output
    told = json.loads(result.stdout)
    assert told["ok"] == (result.exit_code == 0)
    assert told["python"] == str(environment.python)
    return result.exit_code, [Check(**check) for check in told["checks"]]


def found(checks: list[Check], name: str) -> Check:
    (check,) = [check for check in checks if check.name == name]
    return check


def states(checks: list[Check], group: str) -> dict[str, str]:
    return {check.name: check.state for check in checks if check.group == group}
