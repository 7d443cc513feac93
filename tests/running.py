"""Runs commands that must succeed, such as builds and git. Scripts use this file too, so it does not import pytest."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from torch_backend.environment import Environment
from torch_backend.maintenance.trees import read_project
from torch_backend.render import Tree, write_file

ROOT = Path(__file__).resolve().parents[1]

# git with a name, and without the settings of whoever runs the tests.
IDENTITY = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "Developers",
    "GIT_AUTHOR_EMAIL": "developers@example.com",
    "GIT_COMMITTER_NAME": "Developers",
    "GIT_COMMITTER_EMAIL": "developers@example.com",
}


def checked(
    *command: str | Path, cwd: Path, env: Mapping[str, str] | None = None, code: int = 0, limit: int = 3600
) -> str:
    """Returns the output of a command, errors included. Fails on another exit code or after the time limit."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=limit,
    )
    assert done.returncode == code, f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout[-8000:]}"
    return done.stdout


def git(folder: Path, *arguments: str) -> str:
    """Returns the output of git without its errors."""
    command = ["git", "-C", str(folder), *arguments]
    done = subprocess.run(command, env=os.environ | IDENTITY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def commit_all(folder: Path, message: str, tag: str | None = None) -> None:
    """Commits all files of a folder. Makes it a repository first if necessary."""
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)
    if tag:
        git(folder, "tag", tag)


def sync(tree: Tree, folder: Path) -> None:
    """Writes only changed files, so that a second build is incremental. Build outputs stay."""
    current = read_project(folder) if folder.exists() else {}
    for name in current.keys() - tree.keys():
        (folder / name).unlink()
    for name, file in tree.items():
        if current.get(name) != file:
            write_file(folder / name, file)


def build_wheel(project: Path, wheels: Path, environment: Environment, env: Mapping[str, str]) -> Path:
    """Compiles a project with warnings as errors, and returns the wheel, the only file of its folder.

    The compiler cache depends on paths, so the environment must be beside its project, as in other builds.
    """
    shutil.rmtree(wheels, ignore_errors=True)
    pip = (environment.python, "-m", "pip", "--quiet", "--disable-pip-version-check")
    options = ("--no-build-isolation", "--no-deps", "--no-cache-dir", "--wheel-dir", wheels)
    strict = "--config-settings=cmake.define.WARNINGS_AS_ERRORS=ON"
    checked(*pip, "wheel", *options, strict, ".", cwd=project, env=env)
    (wheel,) = wheels.glob("*.whl")
    return wheel


def install_wheel(wheel: Path, environment: Environment, env: Mapping[str, str]) -> None:
    """Installs a wheel into an environment. Replaces an installed version."""
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--force-reinstall")
    checked(environment.python, "-m", "pip", "install", *options, wheel, cwd=wheel.parent, env=env)


def needed_of_torch(path: Path) -> set[str]:
    """Returns the libraries of torch and of CUDA that a shared library needs."""
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", checked("readelf", "-dW", path, cwd=path.parent))
    torch = r"torch|torch_(cpu|cuda\w*|global_deps|nvshmem|python)|c10\w*|caffe2\w*|shm"
    return {name for name in needed if re.match(rf"lib({torch}|cu\w+|nv\w+)\.so", name)}
