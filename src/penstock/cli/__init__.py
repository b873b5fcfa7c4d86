"""The command ``penstock``: a table of subcommands, each imported when it is called.

A :class:`~penstock.errors.PenstockError` becomes a line or two on standard error and exit status 1;
a usage error has exit status 2. Any other exception is a bug and keeps its traceback.
"""

import sys
from collections.abc import Sequence
from typing import IO, Final, NoReturn

import click

from penstock import __version__
from penstock.cli.lazy import LazyGroup
from penstock.errors import PenstockError

__all__ = ["COMMANDS", "main", "penstock"]

COMMANDS: Final = {
    "serve": ("penstock.cli.serve:serve", "Run the broker."),
    "pub": ("penstock.cli.pub:pub", "Publish messages."),
    "sub": ("penstock.cli.sub:sub", "Subscribe and print what arrives."),
    "request": ("penstock.cli.request:request", "Publish a request and print the answer."),
    "respond": ("penstock.cli.request:respond", "Answer requests with the output of a command."),
    "read": ("penstock.cli.read:read", "Print messages from the journal."),
    "topics": ("penstock.cli.topics:topics", "List, show and delete topics."),
    "clients": ("penstock.cli.clients:clients", "List, show and disconnect clients."),
    "sessions": ("penstock.cli.sessions:sessions", "List, show and end MQTT sessions."),
    "retained": (
        "penstock.cli.retained:retained",
        "List, clear and restore retained messages.",
    ),
    "top": ("penstock.cli.top:top", "Watch a broker: rates, topics, clients, groups."),
    "status": ("penstock.cli.status:status", "Show the status of the broker."),
    "queue": ("penstock.cli.queue:queue", "Inspect and configure work queues, and push jobs."),
    "groups": ("penstock.cli.groups:groups", "Inspect and configure consumer groups."),
    "dlq": ("penstock.cli.dlq:dlq", "Inspect, redrive and drop dead letters."),
    "schedule": ("penstock.cli.schedule:schedule", "Publish later, once or repeatedly."),
    "worker": ("penstock.cli.worker:worker", "Run the jobs of a Python app (penstock.tasks)."),
    "keys": ("penstock.cli.keys:keys", "Create and manage the keys that devices sign with."),
    "certs": ("penstock.cli.certs:certs", "Make certificates for testing TLS."),
    "users": ("penstock.cli.users:users", "Add and change users."),
    "roles": ("penstock.cli.roles:roles", "Add and change roles and their rules."),
    "tokens": ("penstock.cli.tokens:tokens", "Create and remove API tokens."),
    "bans": ("penstock.cli.bans:bans", "Ban users, client ids and addresses."),
    "access": ("penstock.cli.access:access", "Keep users and rules in a file; import them."),
    "acl": ("penstock.cli.acl:acl", "Explain access: which rule decides, what was denied."),
    "cluster": ("penstock.cli.cluster:cluster", "Create, inspect and change a cluster."),
    "bridges": ("penstock.cli.bridges:bridges", "List bridges to other MQTT brokers."),
    "context": ("penstock.cli.context:context", "Name brokers and the logins for them."),
    "config": ("penstock.cli.config:config", "Check and explain the configuration."),
    "why": ("penstock.cli.why:why", "Explain what happened to a client or message."),
    "events": ("penstock.cli.events:events", "List why clients left and messages were dropped."),
    "bench": ("penstock.cli.bench:bench", "Measure a running broker from this machine."),
    "doctor": ("penstock.cli.doctor:doctor", "Find what is wrong, weak or slow about a broker."),
    "completion": ("penstock.cli.completion:completion", "Print shell completion."),
    "debug": ("penstock.cli.debug:debug", "Collect data for a bug report."),
    "generate": ("penstock.cli.generate:generate", "Print dashboards, alerts and units."),
    "spark": ("penstock.cli.spark:spark", "Run data pipelines on Spark."),
    "backup": ("penstock.cli.backup:backup", "Back up a broker to one file, while it runs."),
    "restore": ("penstock.cli.backup:restore", "Restore a data directory from a backup."),
    "store": ("penstock.cli.store:store", "Check, compact and convert a data directory."),
}
"""Subcommand → (``module:attribute``, one-line help)."""

_EXIT_INTERRUPTED: Final = 128 + 2  # as for a program that SIGINT ended


class _Failure(click.ClickException):
    """An error for the user, without a traceback."""

    def show(self, file: IO[str] | None = None) -> None:
        click.echo(f"penstock: {self.message}", err=True, file=file)


class _Penstock(LazyGroup):
    """The top-level command; turns errors into messages for the user."""

    def invoke(self, ctx: click.Context) -> object:
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


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line (``sys.argv`` by default) and exit."""
    try:
        status = penstock.main(args=arguments, prog_name="penstock", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        if getattr(error, "option_name", "") == "-h":  # probably meant as help
            click.echo("-h is the host; --help shows the options.", err=True)
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(_EXIT_INTERRUPTED)
    sys.exit(status if isinstance(status, int) else 0)
