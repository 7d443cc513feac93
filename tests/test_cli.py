"""The command `torch-backend`: messages, exit codes, and that a failure leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from torch_backend.cli import main

from .conftest import answers_of
from .running import ROOT


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_new_renders_with_options(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "torch_zed"
    result = run("new", str(target), "--defaults", "--vendor-name", "Zed", "--features", "docs", "--num-devices", "3")
    assert result.exit_code == 0, result.output
    answers = answers_of(target)
    assert (answers["device_name"], answers["features"], answers["num_devices"]) == ("zed", ["docs"], "3")
    assert [p.name for p in target.parent.iterdir()] == ["torch_zed"]


def test_new_takes_answers_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "answers.yml").write_text("vendor_name: Zed\nfeatures: []\n")
    result = run("new", str(tmp_path / "p"), "--defaults", "--answers", str(tmp_path / "answers.yml"), "--author", "Me")
    assert result.exit_code == 0, result.output
    answers = answers_of(tmp_path / "p")
    assert (answers["vendor_name"], answers["author"], answers["features"]) == ("Zed", "Me", [])


def test_new_accepts_an_empty_folder(tmp_path: Path) -> None:
    assert run("new", str(tmp_path), "--defaults").exit_code == 0


def test_new_refuses_a_folder_with_content(tmp_path: Path) -> None:
    (tmp_path / ".hidden").write_text("mine")
    result = run("new", str(tmp_path), "--defaults")
    assert result.exit_code == 2
    assert "exists and is not empty" in result.output
    assert [p.name for p in tmp_path.iterdir()] == [".hidden"]


def test_new_refuses_a_file(tmp_path: Path) -> None:
    (tmp_path / "project").write_text("mine")
    assert run("new", str(tmp_path / "project"), "--defaults").exit_code == 2
    assert (tmp_path / "project").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device-name", "cuda"], "device_name: Use another name: PyTorch has this."),
        (["--license", "GPL"], "license: 'GPL' is not offered: type one of 'BSD-3-Clause'"),
        (["--features", "teleport"], "features: 'teleport' is not offered"),
        (["--num-devices", "two"], "num_devices: Type a number from 1 to 64."),
    ],
)
def test_refused_answers_leave_nothing_behind(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = run("new", str(tmp_path / "a" / "b"), "--defaults", *arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("num_devices: 2.5", "num_devices: Type a number from 1 to 64."),
        ("num_devices: true", "num_devices: Type a number from 1 to 64."),
        ("num_devices:", "num_devices is empty: write an answer, or leave num_devices out."),
        ("author:", "author is empty: write an answer, or leave author out."),
        ("author: [a, b]", "author: ['a', 'b'] is not one value: write one line of text."),
        ("author: {a: b}", "author: {'a': 'b'} is not one value: write one line of text."),
        ("features:", "features is empty: write [] for none of them, or leave features out."),
        (
            "features: 3",
            "features: 3 is not a list of names: write some of [benchmarks, docs, github, graphs, sharing].",
        ),
        ("features: [docs, 3]", "features: ['docs', 3] is not a list of names: write some of [benchmarks,"),
        ("features: [docs, teleport]", "features: 'teleport' is not offered: type one of 'benchmarks'"),
        (
            "device_library: external\nsdk_name: acme",
            "sdk_name has no effect in this project: the template asks for it",
        ),
        ("features: []\ncode_owners: '@acme'", "code_owners has no effect in this project: the template asks for it"),
    ],
)
def test_a_file_with_refused_answers_leaves_nothing_behind(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "answers.yml").write_text(text)
    result = run("new", str(tmp_path / "p"), "--defaults", "--answers", str(tmp_path / "answers.yml"))
    assert (result.exit_code, len(result.output.splitlines())) == (2, 1), result.output
    assert message in result.output
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize("option", ["--sdk-name", "--sdk-prefix", "--num-devices", "--device-memory"])
def test_options_of_the_emulator_are_refused_without_one(tmp_path: Path, option: str) -> None:
    value = {"--num-devices": "3", "--device-memory": "1G"}.get(option, "other")
    result = run("new", str(tmp_path / "p"), "--defaults", "--device-library", "external", option, value)
    assert result.exit_code == 2
    assert result.output == (
        f"{option.strip('-').replace('-', '_')} has no effect in this project: the template asks for it only if "
        "device_library == 'emulated'. Leave it out.\n"
    )
    assert not list(tmp_path.iterdir())


def test_unknown_answers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "answers.yml").write_text("package_macro: X\nvendor: Y\n")
    result = run("new", str(tmp_path / "p"), "--defaults", "--answers", str(tmp_path / "answers.yml"))
    assert result.exit_code == 2
    assert "No such question: package_macro, vendor" in result.output


def test_new_without_a_terminal_says_what_to_give(tmp_path: Path) -> None:
    result = run("new", str(tmp_path / "project"))
    assert result.exit_code == 2
    assert "no terminal for questions" in result.output
    assert "pass --defaults" in result.output
    assert not list(tmp_path.iterdir())


def test_an_unknown_template_is_refused(tmp_path: Path) -> None:
    assert run("new", str(tmp_path / "a"), "--defaults", "--template", str(tmp_path / "none")).exit_code == 2
    assert not list(tmp_path.iterdir())


def test_a_target_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("new", str(tmp_path / "file" / "project"), "--defaults")
    assert result.exit_code == 2
    assert "Cannot write" in result.output


def test_every_question_has_an_option() -> None:
    text = run("new", "--help").output
    for option in ("--vendor-name", "--sdk-prefix", "--torch-minor", "--device-memory", "--features"):
        assert option in text


def test_the_committed_example_is_what_the_template_renders() -> None:
    result = run("check-example")
    assert result.exit_code == 0, result.output


def test_template_files_are_clean() -> None:
    result = run("lint-template")
    assert result.exit_code == 0, result.output


def test_make_targets_are_listed() -> None:
    text = (ROOT / "Makefile").read_text()
    for target in (
        "demo",
        "test",
        "test-fast",
        "test-matrix",
        "lint",
        "format",
        "examples",
        "examples-check",
        "backport",
        "clean",
    ):
        assert f"\n{target}:" in text
