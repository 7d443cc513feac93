"""Reading the workflows of a rendered project, and running the scripts in them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)), cwd=cwd, env=os.environ | (env or {}), capture_output=True, text=True, check=False
    )


def load(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


def workflows(project: Path) -> dict[str, dict[str, Any]]:
    found = {path.name: load(path) for path in sorted((project / ".github" / "workflows").iterdir())}
    assert set(found) == {"ci.yml", "lint.yml", "nightly.yml", "pytorch.yml", "template.yml", "wheels.yml"}
    return found


def events(workflow: dict[Any, Any]) -> dict[str, Any]:
    """Returns the triggers of a workflow. YAML reads the key ``on`` as true."""
    found: dict[str, Any] = workflow[True]
    return found


def jobs(project: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for name, workflow in workflows(project).items():
        for job, content in workflow["jobs"].items():
            yield name, job, content


def steps(project: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields every step with its place, those of the composite action included."""
    for name, job, content in jobs(project):
        for step in content["steps"]:
            yield f"{name}, {job}", step
    for step in load(project / ".github" / "actions" / "setup" / "action.yml")["runs"]["steps"]:
        yield "setup", step


def step_named(project: Path, name: str) -> str:
    (script,) = [step["run"] for _, step in steps(project) if step.get("name") == name]
    return str(script)


def bash(script: str, cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs the script of a step as GitHub does."""
    return run("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script, cwd=cwd, env=env)


def stand_in(folder: Path, name: str, answers: str = "") -> dict[str, str]:
    """Makes a command that writes each call's arguments to ``calls``. Returns an environment that finds it."""
    folder.mkdir(exist_ok=True)
    command = folder / name
    command.write_text(f"#!/bin/sh\necho \"$*\" >> '{folder}/calls'\n{answers}\n", encoding="utf-8")
    command.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def calls(folder: Path) -> list[str]:
    path = folder / "calls"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
