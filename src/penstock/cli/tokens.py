"""``penstock tokens``: list, make and remove API tokens."""

from typing import Final

import click

from penstock.cli.access_options import access_options, change_options
from penstock.cli.admin_client import AdminClient, Document, stale_option
from penstock.cli.inputs import time_option
from penstock.cli.lazy import NounGroup
from penstock.cli.output import format_time, print_result, table
from penstock.cli.paged import every
from penstock.obs.printable import printable

PATH: Final = "tokens"


@click.group(cls=NounGroup)
def tokens() -> None:
    """Create and remove API tokens: credentials of programs that act for a user.

    Without a command it lists.
    """


@tokens.command(name="list")
@click.argument("owner", required=False)
@access_options
@stale_option
def list_tokens(owner: str | None, broker: AdminClient) -> None:
    """List the tokens of OWNER, or of all users."""
    found = every(broker, PATH, owner=owner)
    head = ("ID", "OWNER", "ROLES", "PURPOSE", "EXPIRES", "NOTE")
    print_result(found, table(head, map(_row, found), "there are no tokens"))


def _row(token: Document) -> tuple[str, ...]:
    roles = ", ".join(token["roles"]) or "all of its owner"
    expires = format_time(token["expires"]) + (" (expired)" if token["expired"] else "")
    note = printable(token["note"], 60)
    return (token["id"], token["owner"], roles, token["purpose"], expires, note)


@tokens.command()
@click.argument("owner")
@click.option(
    "--role",
    "roles",
    multiple=True,
    metavar="ROLE",
    help="Only this role of the owner; repeatable. All by default.",
)
@time_option("--expires", "How long it is valid, as in 30d; 90d by default.")
@click.option("--note", metavar="TEXT", help="What the token is for.")
@change_options
def add(
    owner: str,
    *,
    roles: tuple[str, ...],
    expires: float | None,
    note: str | None,
    broker: AdminClient,
) -> None:
    """Create a token that acts for the user OWNER, and print it once."""
    expires_s = None if expires is None else int(expires)
    made = broker.post(PATH, owner=owner, roles=roles, expires_s=expires_s, note=note)
    until = format_time(made["expires"])
    text = (
        f"Token {made['id']} of {owner}, valid until {until}, shown this once:\n  {made['token']}"
    )
    print_result(made, text)


@tokens.command()
@click.argument("token_id", metavar="ID")
@change_options
def remove(token_id: str, broker: AdminClient) -> None:
    """Remove the token ID; whoever uses it is cut off."""
    removed = broker.delete(PATH, name=token_id)
    print_result(removed, f"removed {removed['name']} of {removed['owner']}")
