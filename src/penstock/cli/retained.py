"""``penstock retained``: retained messages, clearing them, and taking that back."""

import click

from penstock.cli.admin_client import AdminClient, Document, admin_options
from penstock.cli.connection import checked_filters
from penstock.cli.inputs import confirm, flag, is_given, yes_option
from penstock.cli.lazy import CommandGroup
from penstock.cli.output import counted, format_time, print_result, table
from penstock.cli.paged import first_page, limit_option
from penstock.obs.log import printable

PATH = "/api/v1/retained"
PAYLOAD_CHARACTERS = 60
_HEAD = ("TOPIC", "TIME", "QOS", "BYTES", "BY", "PAYLOAD")


@click.group(cls=CommandGroup)
def retained() -> None:
    """List retained messages, clear them, and take that back."""


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
    payload = one["payload"]
    shown = payload.get("text") or payload.get("base64") or payload.get("hex") or ""
    return (
        printable(one["topic"], 80),
        format_time(one["time"]) if one["time"] else "-",
        str(one["qos"]),
        f"{one['payload_bytes']:,}",
        printable(one["author"] or "-", 64),
        printable(str(shown), PAYLOAD_CHARACTERS),
    )


@retained.command()
@click.argument("topic_filter", metavar="FILTER", callback=_filter)
@flag("--dry-run", help="Only say what would be cleared.")
@yes_option
@admin_options
def clear(topic_filter: str, *, broker: AdminClient) -> None:
    """Clear the retained messages of all topics that match FILTER.

    The journal keeps the messages. It can be taken back for an hour: penstock retained undo.
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
    """Retain again what a clearing removed.

    CODE is the one that it printed.
    """
    done = broker.change("POST", f"{PATH}/undo", undo=code)
    parts = [f"retained {counted(done['restored'], 'message')} again"]
    if done["superseded"]:
        parts.append(f"{done['superseded']:,} topics have a newer one")
    if done["expired"]:
        parts.append(f"{done['expired']:,} have expired")
    print_result(done, "; ".join(parts))
