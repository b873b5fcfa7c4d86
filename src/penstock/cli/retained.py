"""``penstock retained``: retained messages, clearing them, and taking that back."""

import os

import click

from penstock.cli import names
from penstock.cli.admin_client import AdminClient, Document, admin_options
from penstock.cli.connection import checked_filters
from penstock.cli.inputs import confirm, flag, is_given, yes_option
from penstock.cli.lazy import ListingGroup
from penstock.cli.output import columns, counted, format_time, payload_text, print_result, table
from penstock.cli.paged import first_page, limit_option
from penstock.errors import PenstockError
from penstock.model.topic import has_wildcard
from penstock.obs.printable import printable

PATH = "retained"
PAYLOAD_CHARACTERS, SHOWN_CHARACTERS = 60, 4_000
_HEAD = ("TOPIC", "TIME", "QOS", "BYTES", "BY", "PAYLOAD")


@click.group(cls=ListingGroup)
def retained() -> None:
    """List, show, clear and restore retained messages.

    Without a command it lists: penstock retained [FILTER].
    """


def _filter(context: click.Context, parameter: click.Parameter, text: str) -> str:
    if text:
        checked_filters(context, parameter, (text,))
    return text


@retained.command("list")
@click.argument("topic_filter", default="", metavar="[FILTER]", callback=_filter)
@limit_option
@admin_options
def list_retained(topic_filter: str, *, limit: int, broker: AdminClient) -> None:
    """List retained messages, or those of topics that match FILTER."""
    page = first_page(broker, PATH, limit, filter=topic_filter or None)
    empty = "no topic that matches has one" if topic_filter else "nothing is retained"
    print_result(page.document, page.text(table(_HEAD, map(_row, page.items), empty)))


def _row(one: Document) -> tuple[str, ...]:
    return (
        printable(one["topic"], 80),
        format_time(one["time"]) if one["time"] else "-",
        str(one["qos"]),
        f"{one['payload_bytes']:,}",
        printable(one["author"] or "-", 64),
        payload_text(one["payload"], PAYLOAD_CHARACTERS),
    )


@retained.command()
@click.argument("topic", shell_complete=names.topics)
@admin_options
def show(topic: str, *, broker: AdminClient) -> None:
    """Show the retained message of TOPIC with its headers."""
    if has_wildcard(os.fsencode(topic)):
        raise click.UsageError("give one topic; penstock retained list takes filters")
    found = first_page(broker, PATH, 1, filter=topic).items
    if not found:
        what = f"{printable(topic)} has no retained message that you may read"
        raise PenstockError(what, "penstock retained list shows which topics have one")
    print_result(found[0], columns(_facts(found[0])))


def _facts(one: Document) -> list[tuple[str, str]]:
    size = counted(one["payload_bytes"], "byte") + (", of which the first" if one["cut"] else "")
    headers = [(printable(h["name"], 40), printable(h["value"], 400)) for h in one["headers"]]
    return [
        ("topic", printable(one["topic"], 400)),
        ("published", format_time(one["time"]) if one["time"] else "-"),
        ("by", printable(one["author"] or "-", 400)),
        ("qos", str(one["qos"])),
        ("expires", format_time(one["expires"])),
        *(("header", f"{name}: {value}") for name, value in headers),
        ("payload", f"{size}: {payload_text(one['payload'], SHOWN_CHARACTERS)}"),
    ]


@retained.command()
@click.argument("topic_filter", metavar="FILTER", callback=_filter)
@flag("--dry-run", help="Only say what would be cleared.")
@yes_option
@admin_options
def clear(topic_filter: str, *, broker: AdminClient) -> None:
    """Clear the retained messages of all topics that match FILTER.

    The journal keeps the messages. You can undo this for an hour: penstock retained undo.
    """
    found = broker.change("DELETE", PATH, filter=topic_filter, dry_run=True)
    count = counted(found["count"], "retained message")
    if is_given("--dry-run") or not found["count"]:
        topics = [f"  {printable(topic, 200)}" for topic in found["first"]]
        if found["count"] > len(topics):
            topics.append(f"  and {found['count'] - len(topics):,} more")
        print_result(found, "\n".join([f"would clear {count}", *topics]))
        return
    confirm(f"Clear {count}, beginning with {printable(found['first'][0], 200)}?")
    done = broker.change("DELETE", PATH, filter=topic_filter)
    cleared = f"cleared {counted(done['count'], 'retained message')}"
    back = f"penstock retained undo {done['undo']}" if done["undo"] else ""
    print_result(done, f"{cleared}; {back or done['no_undo']}")


@retained.command()
@click.argument("code")
@admin_options
def undo(code: str, *, broker: AdminClient) -> None:
    """Restore retained messages that were cleared.

    CODE is the one that penstock retained clear printed.
    """
    done = broker.change("POST", f"{PATH}/undo", undo=code)
    parts = [f"retained {counted(done['restored'], 'message')} again"]
    if done["superseded"]:
        parts.append(f"{done['superseded']:,} topics have a newer one")
    if done["expired"]:
        parts.append(f"{done['expired']:,} have expired")
    print_result(done, "; ".join(parts))
