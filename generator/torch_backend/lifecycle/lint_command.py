"""The command `lint`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from torch_backend.project import Project

from .lint import lint
from .update_commands import located


@click.command("lint")
@located
@click.option("--strict", is_flag=True, help="Count warnings as errors.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def lint_command(folder: Path, address: str | None, strict: bool, as_json: bool) -> None:
    """Compare the project with its template, and find what updates and merges have left behind.

    Errors are conflict markers, files such as *.orig, and the folder of a killed update. Warnings are files of the
    template that are edited or missing: there the next update may have a conflict. The table in the project's README.md
    says who owns which file. The command changes nothing.

    Exit code: 0, 1 if there is an error (with --strict: or a warning), 2 if the template cannot be read.
    """
    project = Project.find(folder)
    found = lint(project, address)
    errors = sum(finding.level == "error" for finding in found)
    if as_json:
        click.echo(json.dumps({"project": str(project.root), "findings": [f.to_json() for f in found]}, indent=2))
    else:
        for finding in found:
            click.echo(f"{finding.level}: {finding.path}: {finding.text}")
        click.echo(f"{errors} errors, {len(found) - errors} warnings")
    sys.exit(int(errors > 0 or (strict and bool(found))))
