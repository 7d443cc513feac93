"""What `make demo` does: a vendor's project from nothing to a trained model, in a scratch folder."""

from __future__ import annotations

import shlex
import shutil
import time
from pathlib import Path
from typing import Any

import click

from torch_backend.environment import Environment, this_environment
from torch_backend.errors import UserError
from torch_backend.render import copy, create_project
from torch_backend.source import Source

ANSWERS: dict[str, Any] = {"vendor_name": "Acme"}  # everything else by default: acme, torch_acme
PACKAGE = "torch_acme"
EXAMPLE = Path("examples") / "quickstart.py"


def _step(text: str) -> None:
    click.secho(f"\n==> {text}", bold=True)


def build(project: Path, environment: Environment) -> None:
    """Builds and installs a project into an environment, with the compiler's progress on the terminal.

    Raises:
        UserError: the build failed.
    """
    environment.run(
        *("-m", "pip", "install", "--verbose", "--no-build-isolation", "--no-deps", "--force-reinstall", "."),
        cwd=project,
        extra={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "NINJA_STATUS": "[%f/%t, %es] "},
    )


def demo(source: Source, folder: Path) -> None:
    """Renders, builds, installs into the running environment, and runs a project named Acme.

    Args:
        source: the template.
        folder: scratch folder; the project that an earlier demo left there is replaced.

    Raises:
        UserError: a step failed.
    """
    started = time.monotonic()
    project = folder / PACKAGE
    _step(f"Rendering a backend for Acme into {project}")
    if project.exists():
        shutil.rmtree(project)
    with source.snapshot() as snapshot:
        create_project(project, lambda folder: copy(snapshot, folder, ANSWERS))
    if not (project / EXAMPLE).exists():
        raise UserError(f"{project / EXAMPLE} was not rendered.")

    environment = this_environment()
    _step(f"Building it and installing it into {environment.folder}")
    build(project, environment)
    built = time.monotonic()

    _step(f"Running {EXAMPLE}")
    environment.run(str(EXAMPLE), cwd=project)

    click.secho(
        f"\nDone: built in {built - started:.0f} s, ran in {time.monotonic() - built:.0f} s. What next?", bold=True
    )
    there, python = shlex.quote(str(project)), shlex.quote(str(environment.python))
    command = shlex.quote(str(environment.python.parent / "torch-backend"))
    click.echo(f"""
  Try the device:      {python} -c "import torch; print(torch.ones(2, device='acme') + 2)"
  Run its tests:       cd {there} && {python} -m pytest tests
  Read its README:     {project / "README.md"}
  Your own project:    {command} new torch_mychip --vendor-name "My Chip"
""")
