"""The one command, ``penstock``: a table of subcommands, each imported when it is called.

A producer on a small machine should not pay for importing a server. So the table holds names, not
functions, and the one-line help as well, for ``penstock --help`` must not import anything either.

Errors meant for the user (:class:`~penstock.errors.PenstockError`) become a line or two on standard
error and exit status 1, and so do options that make no sense: there are two outcomes, done and not
done. Anything else is a bug of ours and keeps its traceback.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

import click

from penstock import __version__
from penstock.errors import PenstockError

__all__ = ["COMMANDS", "main", "penstock"]

COMMANDS: Final = {
    "serve": ("penstock.cli.serve:serve", "Run the broker."),
    "pub": ("penstock.cli.pub:pub", "Publish messages."),
    "sub": ("penstock.cli.sub:sub", "Subscribe and print what arrives."),
    "queue": ("penstock.cli.queue:queue", "Look at, steer and fill topics that are worked on."),
    "groups": ("penstock.cli.groups:groups", "Look at and steer those who work on topics."),
    "dlq": ("penstock.cli.dlq:dlq", "Look at dead letters, send them back or drop them."),
    "keys": ("penstock.cli.keys:keys", "Make and register the keys that devices sign with."),
    "config": ("penstock.cli.config:config", "Check and explain the configuration."),
    "store": ("penstock.cli.store:store", "Look after a data directory."),
}
"""Subcommand → where it is, and what ``--help`` says about it."""

_EXIT_INTERRUPTED: Final = 128 + 2
"""What a shell reports for a program that SIGINT ended."""


class _Failure(click.ClickException):
    """An error that the user can do something about: said plainly, without a traceback."""

    def show(self, file: Any = None) -> None:
        click.echo(f"penstock: {self.message}", err=True, file=file)


class _LazyGroup(click.Group):
    """A group whose commands stand in ``COMMANDS``."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PenstockError as error:
            raise _Failure(str(error)) from error
        except KeyboardInterrupt:
            ctx.exit(_EXIT_INTERRUPTED)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="penstock %(version)s")
def penstock() -> None:
    """Penstock, a message broker: one durable journal behind every protocol."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line (``sys.argv`` unless given) and exit: 0 if it went well, else 1."""
    try:
        status = penstock.main(args=arguments, prog_name="penstock", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(1)
    except click.Abort:
        sys.exit(_EXIT_INTERRUPTED)
    sys.exit(status if isinstance(status, int) else 0)
