"""``penstock bans``: users, client ids and addresses that may not connect."""

from typing import Final

import click

from penstock.cli.access_options import access_options, change_options
from penstock.cli.admin_client import AdminClient, Document, stale_option
from penstock.cli.inputs import time_option
from penstock.cli.lazy import NounGroup
from penstock.cli.output import format_time, print_result, table
from penstock.cli.paged import every
from penstock.obs.printable import printable

PATH: Final = "bans"
_name_argument = click.argument("name", metavar="user:NAME|client:ID|address:RANGE")


@click.group(cls=NounGroup)
def bans() -> None:
    """Ban users, client ids and addresses.

    Without a command it lists.
    """


@bans.command(name="list")
@access_options
@stale_option
def list_bans(broker: AdminClient) -> None:
    """List all bans."""
    found = every(broker, PATH)
    head = ("BAN", "UNTIL", "SINCE", "NOTE")
    print_result(found, table(head, map(_row, found), "nobody is banned"))


def _row(ban: Document) -> tuple[str, ...]:
    until = "it is removed" if ban["until"] is None else format_time(ban["until"])
    until += " (over)" if ban["expired"] else ""
    return (printable(ban["name"]), until, format_time(ban["created"]), printable(ban["note"], 60))


@bans.command()
@_name_argument
@time_option("--expires", "How long, as in 1h or 7d; until it is removed by default.")
@click.option("--note", metavar="TEXT", help="Why.")
@change_options
def add(name: str, *, expires: float | None, note: str | None, broker: AdminClient) -> None:
    """Ban a user, a client id or a range of addresses.

    As in user:ann, client:pump-7 or address:192.0.2.0/24. Its connections end, and new ones are
    refused.
    """
    expires_s = None if expires is None else int(expires)
    made = broker.put(PATH, name=name, expires_s=expires_s, note=note)
    print_result(made, f"banned {printable(made['name'])}")


@bans.command()
@_name_argument
@change_options
def remove(name: str, broker: AdminClient) -> None:
    """End a ban."""
    removed = broker.delete(PATH, name=name)
    print_result(removed, f"no longer banned: {printable(removed['name'])}")
