"""`torch-backend list-ops`: the question to a backend, and the choice among its operators."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from torch_backend.cli import main
from torch_backend.environment import Environment
from torch_backend.inspection.operators import fits

from .fakes import fake_torch, install
from .running import ROOT
from .torch_release import FIRST

EXAMPLE = ROOT / "examples" / "openreg"

# What a project's own package says of itself.
SAYS_IT_ITSELF = """\
import types
import torch
rows = {"aten::add.Tensor": "native", "aten::add.out": "emulated", "aten::add_.Tensor": "native", "aten::_addmm": "cpu",
        "aten::gelu": "composite", "aten::_cslt_compress": "none", "aten::topk": "host body"}
operators = types.SimpleNamespace(coverage=lambda: {n: {"state": s, "reason": f"because {s}"} for n, s in rows.items()})
torch.openreg = types.SimpleNamespace(operators=operators)
"""

SAYS_NOTHING = """\
import types
import torch
torch.openreg = types.SimpleNamespace(operators=types.SimpleNamespace())
"""


@pytest.fixture
def described(site: Path) -> Path:
    """A package with coverage()."""
    fake_torch(site)
    install(site, "torch_openreg", SAYS_IT_ITSELF)
    return site


def list_ops(environment: Environment, *options: str, command: str = "list-ops") -> Result:
    where = ["--project", str(EXAMPLE), "--python", str(environment.python)]
    return CliRunner().invoke(main, [command, *where, *options])


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [
        ("aten::add.Tensor", "add", True),
        ("aten::add.Tensor", "aten::add", True),
        ("aten::add.Tensor", "add.Tensor", True),
        ("aten::add.Tensor", "add.*", True),
        ("aten::add.Tensor", "*add", True),
        ("aten::add_.Tensor", "add", False),
        ("aten::addmm", "add", False),
        ("aten::add.Tensor", "add.out", False),
        ("aten::add.Tensor", "ADD", False),
    ],
)
def test_patterns_match_names_with_and_without_namespace(name: str, pattern: str, expected: bool) -> None:
    assert fits(name, pattern) == expected


def test_the_states_are_those_of_the_package(environment: Environment, described: Path) -> None:
    result = list_ops(environment)
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows == [
        ["aten::_addmm", "cpu"],
        ["aten::_cslt_compress", "none"],
        ["aten::add.Tensor", "native"],
        ["aten::add.out", "emulated"],
        ["aten::add_.Tensor", "native"],
        ["aten::gelu", "composite"],
        ["aten::topk", "host", "body"],
    ]
    assert result.stderr == "7 of 7 overloads\n"


def test_pattern_and_states_select_operators(environment: Environment, described: Path) -> None:
    result = list_ops(environment, "*add*", "--state", "native", "--state", "cpu", "--json")
    told = json.loads(result.stdout)
    assert told["source"] == "torch.openreg.operators.coverage()"
    assert told["operators"] == {
        "aten::_addmm": {"state": "cpu", "reason": "because cpu"},
        "aten::add.Tensor": {"state": "native", "reason": "because native"},
        "aten::add_.Tensor": {"state": "native", "reason": "because native"},
    }
    assert told["counts"] == {"native": 2, "host body": 0, "emulated": 0, "cpu": 1, "composite": 0, "none": 0}


def test_verbose_output_has_reasons(environment: Environment, described: Path) -> None:
    assert list_ops(environment, "gelu", "-v").stdout == "aten::gelu  composite because composite\n"


def test_host_bodies_can_be_listed(environment: Environment, described: Path) -> None:
    assert list_ops(environment, "--state", "host body", "-v").stdout == "aten::topk  host body because host body\n"


def test_coverage_is_another_name_of_the_command(environment: Environment, described: Path) -> None:
    result = list_ops(environment, "--summary", command="coverage")
    lines = result.stdout.splitlines()
    assert lines[0] == f"7 overloads of torch {FIRST} on openreg, from torch.openreg.operators.coverage():"
    assert lines[1].split(maxsplit=2) == ["2", "native", "the device's own kernel"]
    assert lines[2].split(maxsplit=3)[:3] == ["1", "host", "body"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["gleu"], f"No ATen operator of torch {FIRST} matches 'gleu'. Nearest: gelu.\n"),
        (["add", "--state", "none"], "'add' matches 2 overloads, none of them in the state none.\n"),
    ],
)
def test_without_a_match_the_exit_code_is_1(
    environment: Environment, described: Path, options: list[str], message: str
) -> None:
    result = list_ops(environment, *options)
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", message)


def test_an_unknown_state_is_refused(environment: Environment) -> None:
    result = list_ops(environment, "--state", "fast")
    assert result.exit_code == 2
    assert "'native', 'host body', 'emulated', 'cpu', 'composite', 'none'" in result.stderr


def test_a_package_that_is_not_installed_is_named(environment: Environment, site: Path) -> None:
    fake_torch(site)
    result = list_ops(environment)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"torch_openreg is not installed for {environment.python}. In {EXAMPLE}, build")


def test_a_package_that_does_not_load_is_named(environment: Environment, site: Path) -> None:
    fake_torch(site)
    install(site, "torch_openreg", "import os\nos.abort()")
    result = list_ops(environment)
    assert result.exit_code == 1
    assert "torch_openreg does not load" in result.stderr
    assert "the process was ended by SIGABRT" in result.stderr
    assert "torch-backend doctor" in result.stderr


def test_a_package_without_coverage_is_named(environment: Environment, site: Path) -> None:
    fake_torch(site)
    install(site, "torch_openreg", SAYS_NOTHING)
    result = list_ops(environment)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "torch.openreg.operators has no coverage(). Update the project" in result.stderr
