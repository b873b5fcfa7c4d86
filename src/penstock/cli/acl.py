"""``penstock acl``: why somebody may or may not do something, and what was denied."""

from typing import Final

import click

from penstock.cli.access_options import access_options
from penstock.cli.admin_client import AdminClient, Document, stale_option
from penstock.cli.lazy import CommandGroup
from penstock.cli.output import format_time, print_result, table
from penstock.obs.printable import printable

PATH: Final = "access"
ROLES_OF_NOBODY = ("local", "anonymous")


@click.group(cls=CommandGroup)
def acl() -> None:
    """Explain access: which rule decides, what was denied."""


@acl.command()
@click.argument("user")
@click.argument("action")
@click.argument("topic", default="", metavar="[TOPIC]")
@click.option("--client-id", metavar="ID", help="The client id that rules with %c are about.")
@access_options
@stale_option
def check(
    user: str, *, action: str, topic: str, client_id: str | None, broker: AdminClient
) -> None:
    """Say whether USER may do ACTION to TOPIC, and which rule decides.

    USER may also be local or anonymous: clients that do not log in. Exits with 1 if it is denied.
    """
    who = {"role" if user in ROLES_OF_NOBODY else "user": user}
    found = broker.current(
        f"{PATH}/check", **who, action=action, topic=topic or None, client_id=client_id
    )
    print_result(found, "\n  ".join(filter(None, [found["text"], found["advice"]])))
    raise SystemExit(not found["allowed"])


@acl.command()
@click.argument("user", required=False)
@access_options
def log(user: str | None, broker: AdminClient) -> None:
    """Show what was denied lately to USER, or to all users.

    By this node, the latest first.
    """
    found = broker.get(f"{PATH}/denials", user=user)["items"]
    head = ("TIME", "USER", "DOOR", "ADDRESS", "ACTION", "TOPIC")
    print_result(found, table(head, map(_row, found), "nothing was denied"))


@acl.command()
@click.option("-n", "--max", "count", type=click.IntRange(1, 1_000), default=100, show_default=True)
@access_options
@stale_option
def withheld(*, count: int, broker: AdminClient) -> None:
    """Show retained messages that are withheld.

    Their author may no longer publish to their topic. Give the right back, let somebody else
    publish, or remove the message: penstock pub -r -n TOPIC.
    """
    page = broker.current(f"{PATH}/withheld", limit=count)
    found = page["items"]
    rows = [
        (
            printable(one["topic"], 200),
            printable(one["author"]),
            format_time(one["time"]),
            f"{one['payload_bytes']:,}",
        )
        for one in found
    ]
    text = table(("TOPIC", "AUTHOR", "TIME", "BYTES"), rows, "nothing is withheld")
    print_result(found, text + "\n… and more: see --max" * page["more"])


def _row(denial: Document) -> tuple[str, ...]:
    return (
        format_time(denial["time"]),
        printable(denial["user"]) or "-",
        denial["door"],
        denial["address"],
        denial["action"],
        printable(denial["topic"], 200),
    )
