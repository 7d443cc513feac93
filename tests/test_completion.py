"""Completion of commands and options in a shell."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from torch_backend.cli import main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_completion_script(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0, result.output
    assert f"_TORCH_BACKEND_COMPLETE={shell}_complete" in result.output


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("torch-backend doc", ["doctor"]),
        ("torch-backend list-ops --state c", ["cpu", "composite"]),
        ("torch-backend status --st", ["--static"]),
        ("torch-backend new p --device-library e", ["emulated", "external"]),
        ("torch-backend new p --license A", ["Apache-2.0"]),
    ],
)
def test_commands_and_options_are_completed(words: str, expected: list[str]) -> None:
    variables: dict[str, str] = {
        "_TORCH_BACKEND_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    result = CliRunner().invoke(main, env=variables, prog_name="torch-backend")
    assert [line.split(",")[1] for line in result.output.splitlines()] == expected
