"""The one command, ``penstock``: a table of subcommands, each imported when it is called.

Errors meant for the user (:class:`~penstock.errors.PenstockError`) become a line or two on standard
error and exit status 1. A command line that cannot be understood has exit status 2, as elsewhere.
Anything else is a bug of ours and keeps its traceback.

``-h`` is the host, as in the tools of MQTT and Redis; help is ``--help``, for every command.
"""

import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import click

from penstock import __version__
from penstock.cli.lazy import LazyGroup
from penstock.errors import PenstockError

__all__ = ["COMMANDS", "main", "penstock"]

COMMANDS: Final = {
    "serve": ("penstock.cli.serve:serve", "Run the broker."),
    "pub": ("penstock.cli.pub:pub", "Publish messages."),
    "sub": ("penstock.cli.sub:sub", "Subscribe and print what arrives."),
    "read": ("penstock.cli.read:read", "Print what topics hold."),
    "topics": ("penstock.cli.read:topics", "List topics."),
    "clients": ("penstock.cli.status:clients", "List who is connected."),
    "status": ("penstock.cli.status:status", "Tell how the broker is."),
    "queue": ("penstock.cli.queue:queue", "Inspect and configure work queues, and push jobs."),
    "groups": ("penstock.cli.groups:groups", "Inspect and configure consumer groups."),
    "dlq": ("penstock.cli.dlq:dlq", "Look at dead letters, send them back or drop them."),
    "keys": ("penstock.cli.keys:keys", "Make and register the keys that devices sign with."),
    "cluster": ("penstock.cli.cluster:cluster", "Begin, join, look at and change a cluster."),
    "config": ("penstock.cli.config:config", "Check and explain the configuration."),
    "spark": ("penstock.cli.spark:spark", "Run data pipelines on Spark."),
    "store": ("penstock.cli.store:store", "Look after a data directory."),
}
"""Subcommand → where it is, and what ``--help`` says about it."""

_EXIT_INTERRUPTED: Final = 128 + 2
"""What a shell reports for a program that SIGINT ended."""


class _Failure(click.ClickException):
    """An error that the user can do something about: said plainly, without a traceback."""

    def show(self, file: Any = None) -> None:
        click.echo(f"penstock: {self.message}", err=True, file=file)


class _Penstock(LazyGroup):
    """The command itself, where errors become what the user reads."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PenstockError as error:
            raise _Failure(str(error)) from error
        except KeyboardInterrupt:
            ctx.exit(_EXIT_INTERRUPTED)


@click.group(cls=_Penstock, table=COMMANDS)
@click.version_option(__version__, message="penstock %(version)s")
def penstock() -> None:
    """Penstock, a message broker: one durable journal behind every protocol."""


def _asks_for_help(error: click.ClickException) -> bool:
    """Whether somebody wrote ``-h`` for help: without a host, or where there is none."""
    return isinstance(error, click.BadOptionUsage | click.NoSuchOption) and (
        error.option_name == "-h"
    )


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line (``sys.argv`` unless given) and exit.

    0 if it went well, 1 if not, 2 if it was not understood.
    """
    try:
        status = penstock.main(args=arguments, prog_name="penstock", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        if _asks_for_help(error):
            click.echo("-h is the host; --help shows the options.", err=True)
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(_EXIT_INTERRUPTED)
    sys.exit(status if isinstance(status, int) else 0)
