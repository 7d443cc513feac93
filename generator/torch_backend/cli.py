"""The command line: one group with the commands of each package."""

from __future__ import annotations

import errno
import os
import sys
from typing import Any

import click

from . import __version__
from .addop.commands import add_op_command, remove_op_command
from .errors import UserError, describe
from .inspection.commands import register as register_inspection
from .lifecycle.lint_command import lint_command
from .lifecycle.new_command import new_command
from .lifecycle.update_commands import add_feature_command, remove_feature_command, update_command
from .maintenance.commands import register as register_maintenance


class _Group(click.Group):
    """Prints an error that the user can fix without a traceback, and exits with its exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            ctx.color = False
        try:
            return super().invoke(ctx)
        except UserError as error:
            failure = error
        except (KeyboardInterrupt, click.Abort):
            failure = UserError("Interrupted.", 130)
        except OSError as error:
            if error.errno == errno.EPIPE:  # as in `torch-backend list-ops | head`; click ends without a message
                raise
            failure = UserError(describe(error), 2)
        click.echo(str(failure), err=True)
        sys.exit(failure.exit_code)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Render PyTorch accelerator backends from a template, update them, and inspect them."""


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
