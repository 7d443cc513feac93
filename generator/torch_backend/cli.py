"""The command line: one group with the commands of each package."""

from __future__ import annotations

import sys
from typing import Any

import click

from . import __version__
from .addop.commands import add_op_command, remove_op_command
from .errors import UserError
from .inspection.commands import register as register_inspection
from .lifecycle.lint_command import lint_command
from .lifecycle.new_command import new_command
from .lifecycle.update_commands import add_feature_command, remove_feature_command, update_command
from .maintenance.commands import register as register_maintenance


class _Group(click.Group):
    """Prints a UserError without a traceback, and exits with its exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            click.echo(str(error), err=True)
            sys.exit(error.exit_code)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Render PyTorch accelerator backends from a template, update and inspect them, and maintain the template."""


for command in (
    new_command,
    update_command,
    add_feature_command,
    remove_feature_command,
    lint_command,
    add_op_command,
    remove_op_command,
):
    main.add_command(command)
register_inspection(main)
register_maintenance(main)


if __name__ == "__main__":
    main()
