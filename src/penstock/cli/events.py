"""``penstock events``: what was recorded of clients that left and messages that were dropped."""

import shutil
import textwrap
import time
from collections.abc import Iterator
from typing import NoReturn

import click
import msgspec

from penstock.cli import names
from penstock.cli.admin_client import AdminClient, Document, admin_options
from penstock.cli.inputs import flag, is_given
from penstock.cli.output import format_time, print_result, wants_json
from penstock.obs.printable import printable

PAGE = 1_000
POLL_S = 1.0
FOLLOWED_S = 30  # seconds back that each question is about
KINDS = ("connected", "ended", "refused", "dropped", "returned")
TEXT_MAX = 400


@click.command()
@click.option(
    "--client",
    "client_id",
    metavar="ID",
    shell_complete=names.clients,
    help="Only those about this client.",
)
@click.option("--topic", shell_complete=names.topics, help="Only those about this topic.")
@click.option("--kind", type=click.Choice(KINDS), help="Only those of this kind.")
@click.option("--reason", help="Only those with this reason; the page of reasons lists them.")
@click.option("--since", "since_s", type=click.IntRange(min=1), metavar="S", help="Seconds back.")
@flag("--follow", help="Keep printing new ones as they are recorded, oldest first.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True)
@admin_options
def events(
    client_id: str | None,
    topic: str | None,
    kind: str | None,
    reason: str | None,
    since_s: int | None,
    limit: int,
    *,
    broker: AdminClient,
) -> None:
    """List why clients left and messages were dropped, newest first.

    From the memory of all nodes. `penstock read '$events/clients'` has the records of
    clients from before a restart. `penstock why` explains a single case.
    """
    asked = {"client_id": client_id, "topic": topic, "kind": kind, "reason": reason}
    if is_given("--follow"):
        _follow(broker, asked | {"since_s": since_s or 1})
    found = list(_events(broker, limit, asked | {"since_s": since_s}))
    print_result(found, "\n".join(map(_line, found)) or "nothing is recorded")


def _events(broker: AdminClient, limit: int, asked: dict[str, object]) -> Iterator[Document]:
    cursor = None
    while limit > 0:
        page = broker.get("events", limit=min(limit, PAGE), cursor=cursor, **asked)
        yield from page["items"]
        limit -= len(page["items"])
        cursor = page["next"]
        if cursor is None:
            return


def _follow(broker: AdminClient, asked: dict[str, object]) -> NoReturn:
    """Ask each second. A record is told when it is seen again: it may have grown until then."""
    seen: dict[str, Document] = {}
    told: dict[str, None] = {}
    while True:
        page = broker.get("events", limit=PAGE, **asked)
        for event in reversed(page["items"]):
            if event["id"] in seen and event["id"] not in told:
                told[event["id"]] = None
                click.echo(msgspec.json.encode(event) if wants_json() else _line(event))
        seen = {event["id"]: event for event in page["items"]}
        told = {name: None for name in told if name in seen}
        asked = asked | {"since_s": FOLLOWED_S}
        time.sleep(POLL_S)


def _line(event: Document) -> str:
    who = printable(event.get("client_id") or event.get("group") or "-", 60)
    code = event["reason"] or event["kind"]
    head = f"{format_time(event['at'])}  {who}  {code}"
    width = max(32, min(120, shutil.get_terminal_size().columns))
    text = textwrap.wrap(printable(event["text"], TEXT_MAX), width - 4)
    return "\n".join([head, *(f"    {line}" for line in text)])
