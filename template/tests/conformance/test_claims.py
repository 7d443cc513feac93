"""The claims about PyTorch's device-generic tests, and the command that holds a run against them."""

import json
from pathlib import Path
from typing import Any

import claims
import pytest
import record
import run
from claims import Name
from conftest import DEVICE
from opinfo import op_db
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db

ENTRIES = {
    "operators": {op.formatted_name for op in op_db},
    "modules": {info.formatted_name for info in module_db},
    "optimizers": {info.name for info in optim_db},
}

ADD = Name("operators", "values", "add", "float32")
SUB = Name("operators", "values", "sub", "float32")


def write_claims(monkeypatch: pytest.MonkeyPatch, folder: Path, **changes: Any) -> Path:
    """Put other claims in the place of the project's."""
    file = folder / "claims.json"
    known = {"torch": run.release(run.torch.__version__), "exceptions": {}, "not_run": {}, "passed": {}}
    file.write_text(json.dumps(known | changes))
    monkeypatch.setattr(claims, "FILE", file)
    return file


def exceptions() -> list[tuple[str, str]]:
    known = claims.load()
    return [*known["exceptions"].items(), *known["not_run"].items()]


def test_each_exception_has_a_reason_in_a_sentence() -> None:
    for pattern, reason in exceptions():
        assert len(reason.split()) >= 4 and reason.endswith("."), pattern


def test_each_exception_is_of_an_entry_that_pytorch_has() -> None:
    for pattern, _ in exceptions():
        suite, _, entry, _ = pattern.split(" ")
        assert suite in ENTRIES, pattern
        assert any(claims.fnmatchcase(known.partition("_train_mode")[0], entry) for known in _names(suite)), pattern


def _names(suite: str) -> set[str]:
    modes = ["", "_train_mode", "_eval_mode"] if suite == "modules" else [""]
    return {entry + mode for entry in ENTRIES[suite] for mode in modes}


@pytest.mark.parametrize(
    ("file", "method", "test"),
    [
        (
            "test_op_db.py",
            f"test_values_nn_functional_gelu_{DEVICE}_float16",
            ("operators", "values", "nn_functional_gelu", "float16"),
        ),
        ("test_op_db.py", "test_errors_add_privateuse1", ("operators", "errors", "add", "none")),
        ("test_optim_db.py", f"test_steps_Adam_{DEVICE}_complex64", ("optimizers", "steps", "Adam", "complex64")),
    ],
)
def test_names(file: str, method: str, test: tuple[str, ...]) -> None:
    assert claims.parse(f"tests/conformance/{file}", method) == test


def test_a_method_with_another_name_is_an_error() -> None:
    with pytest.raises(ValueError, match="test_x is not named"):
        claims.parse("test_op_db.py", "test_x")


def test_parts_are_disjoint_and_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for index in range(3):
        monkeypatch.setenv(claims.PART, f"{index}/3")
        found += claims.chosen("gfedcba", str)
    assert sorted(found) == list("abcdefg")


@pytest.mark.parametrize("part", ["3/3", "1", "a/b", "-1/3"])
def test_a_part_that_is_none_is_an_error(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(claims.PART, part)
    with pytest.raises(ValueError, match="write INDEX/COUNT"):
        claims.chosen("abc", str)


def test_exceptions_are_found_by_pattern() -> None:
    patterns = {"operators values a* float32": "one", "operators * sub *": "two"}
    assert claims.reason_for(ADD, patterns) == "one"
    assert claims.reason_for(SUB, patterns) == "two"
    assert claims.reason_for(Name("operators", "out", "add", "float32"), patterns) is None


def test_fewer_passing_tests_than_claimed_are_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_claims(monkeypatch, tmp_path, passed={"operators": {"values": {"float32": 2}}})
    both: run.States = {ADD: ("passed", ""), SUB: ("passed", "")}
    assert run.broken_claims(both) == []
    one: run.States = {ADD: ("passed", ""), SUB: ("skipped", "")}
    assert run.broken_claims(one) == ["operators values float32: 1 tests pass, and 2 are claimed"]


def test_claims_of_another_torch_are_not_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_claims(monkeypatch, tmp_path, torch="1.0.0", passed={"operators": {"values": {"float32": 2}}})
    assert run.broken_claims({ADD: ("passed", "")}) == []
    assert "those of torch 1.0.0" in capsys.readouterr().out


def test_an_exception_without_a_test_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_claims(monkeypatch, tmp_path, exceptions={"operators values gone *": "It was slow."})
    [line] = run.broken_claims({ADD: ("passed", "")})
    assert "'operators values gone *'" in line


def test_update_writes_what_passes_and_keeps_exceptions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = write_claims(monkeypatch, tmp_path, exceptions={"operators values sub *": "It is wrong."})
    run.update({ADD: ("passed", ""), SUB: ("excepted", "It is wrong.")})
    known = json.loads(file.read_text())
    assert known["passed"] == {"operators": {"values": {"float32": 1}}}
    assert known["exceptions"] == {"operators values sub *": "It is wrong."}


def test_a_crash_and_a_failure_are_told(tmp_path: Path) -> None:
    lines = [
        [str(ADD), "crashed", "the process ended in it"],
        [str(SUB), "crashed", ""],
        [str(SUB), "failed", "1 is\n not 2"],
    ]
    (tmp_path / "000.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    states = run.collect(tmp_path)
    assert run.failures(states) == [f"crashed: {ADD}: the process ended in it", f"failed: {SUB}: 1 is not 2"]
    assert record.read(tmp_path / "none.jsonl") == {}


def test_a_resumed_run_repeats_what_has_failed(tmp_path: Path) -> None:
    file = tmp_path / "000.jsonl"
    file.write_text(
        "".join(json.dumps([str(name), state, ""]) + "\n" for name, state in [(ADD, "passed"), (SUB, "failed")])
    )
    run.forget_failures(file)
    assert record.read(file) == {str(ADD): ("passed", "")}


def test_tables_have_percentages() -> None:
    table = run.tables({ADD: ("passed", ""), SUB: ("excepted", "")})
    assert [line.split() for line in table.splitlines()][2] == ["operators", "values", "1", "1", "0", "0", "50.00%"]
