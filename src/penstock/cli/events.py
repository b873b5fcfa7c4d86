"""``penstock events``: what was recorded of clients that left and messages that were dropped."""

import shutil
import textwrap
from collections.abc import Iterator

import click

from penstock.cli.admin_client import AdminClient, Document, admin_options
from penstock.cli.output import format_time, print_result
from penstock.obs.log import printable

PAGE = 1_000
KINDS = ("connected", "ended", "refused", "dropped", "kicked", "returned", "traced")
TEXT_MAX = 400


@click.command()
@click.option("--client", "client_id", metavar="ID", help="Only those about this client.")
@click.option("--topic", help="Only those about this topic.")
@click.option("--kind", type=click.Choice(KINDS), help="Only those of this kind.")
@click.option("--reason", help="Only those with this reason; the page of reasons lists them.")
@click.option("--since", "since_s", type=click.IntRange(min=1), metavar="S", help="Seconds back.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True)
@admin_options
def events(
    client_id: str | None,
    topic: str | None,
    kind: str | None,
    reason: str | None,
    since_s: int | None,
    limit: int,
    broker: AdminClient,
) -> None:
    """List why clients left and messages were dropped, newest first.

    From the memory of all nodes. `penstock read '$events/clients'` has what was about clients
    before a restart. `penstock why` explains a single case.
    """
    asked = {"client_id": client_id, "topic": topic, "kind": kind, "reason": reason}
    found = list(_events(broker, limit, asked | {"since_s": since_s}))
    print_result(found, "\n".join(map(_line, found)) or "nothing is recorded")


def _events(broker: AdminClient, limit: int, asked: dict[str, object]) -> Iterator[Document]:
    cursor = None
    while limit > 0:
        page = broker.get("/api/v1/events", limit=min(limit, PAGE), cursor=cursor, **asked)
        yield from page["items"]
        limit -= len(page["items"])
        cursor = page["next"]
        if cursor is None:
            return


def _line(event: Document) -> str:
    who = printable(event.get("client_id") or event.get("group") or "-", 60)
    code = event["reason"] or event["kind"]
    head = f"{format_time(event['at'])}  {who}  {code}"
    width = max(32, min(120, shutil.get_terminal_size().columns))
    text = textwrap.wrap(printable(event["text"], TEXT_MAX), width - 4)
    return "\n".join([head, *(f"    {line}" for line in text)])
