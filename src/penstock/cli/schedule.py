"""``penstock schedule``: publish at a time, every so often, or by a cron expression."""

from base64 import b64encode
from os import fsencode
from typing import Any, BinaryIO

import click

from penstock.cli import names
from penstock.cli.admin_client import AdminClient, Document, admin_options
from penstock.cli.inputs import confirm, option_set, time_option, yes_option
from penstock.cli.lazy import NounGroup
from penstock.cli.message_options import name_value_pairs
from penstock.cli.output import counted, format_time, print_result, table
from penstock.errors import PenstockError
from penstock.obs.printable import printable

PATH = "schedules"
PAYLOAD_CHARACTERS = 400

_timing_options = option_set(
    click.option("--at", metavar="WHEN", help="Once, as in 2026-01-31T08:00 of the time zone."),
    time_option("--in", "Once, so long from now, as in 10m."),
    time_option("--every", "Interval, as in 30s; at least 1s."),
    click.option("--anchor", metavar="WHEN", help="Start of --every; by default now."),
    click.option("--cron", metavar="FIELDS", help="As in '0 8 * * mon-fri', or @hourly."),
    click.option(
        "--timezone",
        metavar="NAME",
        help="Of --at, --anchor and --cron, as in Europe/Paris; UTC by default.",
    ),
)


@click.group(cls=NounGroup)
def schedule() -> None:
    """Publish later, once or repeatedly; schedules survive restarts of the broker.

    Without a command it lists.
    """


@schedule.command()
@click.argument("name")
@click.argument("topic", shell_complete=names.topics)
@click.argument("message", required=False)
@_timing_options
@click.option(
    "--missed",
    type=click.Choice(["skip", "once", "all"]),
    default="once",
    show_default=True,
    help="What becomes of firings that no broker could make in time.",
)
@click.option("-f", "--file", type=click.File("rb"), help="Publish a file; - is standard input.")
@click.option("-q", "--qos", type=click.IntRange(0, 2), default=1, show_default=True)
@click.option("-r", "--retain", is_flag=True, help="Retain the message for new subscribers.")
@click.option(
    "-D",
    "--property",
    "headers",
    multiple=True,
    callback=name_value_pairs,
    metavar="NAME=VALUE",
    help="Header (user property) of the message; repeatable.",
)
@click.option("--content-type", default="", metavar="TYPE", help="As in application/json.")
@click.option("--priority", type=click.IntRange(0, 7), default=0, help="Higher ones go first.")
@time_option("--expiry", "Drop a message if it is not delivered within TIME, as in 90s.")
@click.option("--dry-run", is_flag=True, help="Say when it would fire, and create nothing.")
@admin_options
def create(
    name: str,
    topic: str,
    message: str | None,
    *,
    file: BinaryIO | None,
    expiry: float | None,
    broker: AdminClient,
    **asked: Any,
) -> None:
    """Publish a message by a schedule.

    Give one of --at, --in, --every and --cron. Each firing has your rights as of that time.
    """
    if message is not None and file is not None:
        raise click.UsageError("give only one of MESSAGE and -f")
    payload = file.read() if file is not None else fsencode(message or "")
    asked |= _timing(asked)
    encoded = b64encode(payload).decode()
    made = broker.post(PATH, name=name, topic=topic, base64=encoded, expires_s=expiry, **asked)
    row = made["schedule"]
    done = "would be created" if made["dry_run"] else "created"
    text = f"{printable(name)} {done}: {printable(row['timing_text'])}"
    print_result(made, f"{text}\n{_firings(row['next_firings'])}")


@schedule.command(name="list")
@click.option("--prefix", metavar="TEXT", help="Only names that begin with TEXT.")
@click.option("--state", type=click.Choice(["active", "done", "ownerless"]))
@admin_options
def list_schedules(prefix: str | None, state: str | None, broker: AdminClient) -> None:
    """List schedules: next firing, last result."""
    found = _all(broker, prefix=prefix, state=state)
    head = ("NAME", "TOPIC", "TIMING", "NEXT", "LAST", "PUBLISHED", "REFUSED", "SKIPPED")
    empty = "there are no schedules; penstock schedule create makes one"
    print_result(found, table(head, map(_row, found), empty))


@schedule.command()
@click.argument("name", shell_complete=names.schedules)
@admin_options
def show(name: str, broker: AdminClient) -> None:
    """Show a schedule with its next five firings."""
    row = _one(broker, name)
    lines = [
        ("name", printable(row["name"])),
        ("state", row["state"]),
        ("topic", printable(row["topic"])),
        ("timing", printable(row["timing_text"])),
        ("missed", row["missed"]),
        ("message", _message(row)),
        ("owner", printable(row["owner"]) or "nobody by name"),
        ("created", format_time(row["created"])),
        ("last", _last(row)),
        ("published", counted(row["published"], "message")),
        ("refused", counted(row["refused"], "firing")),
        ("skipped", counted(row["skipped"], "firing")),
    ]
    text = "\n".join(f"{label:<10} {value}" for label, value in lines)
    print_result(row, f"{text}\n{_firings(row['next_firings'])}")


@schedule.command()
@click.argument("name", shell_complete=names.schedules)
@yes_option
@admin_options
def cancel(name: str, broker: AdminClient) -> None:
    """Cancel a schedule.

    Messages that it has published stay.
    """
    row = _one(broker, name)
    if row["state"] == "active":
        confirm(f"Cancel {printable(name)}, {printable(row['timing_text'])}?")
    cancelled = broker.delete(PATH, name=name)
    print_result(cancelled, f"cancelled {printable(name)}")


@schedule.command()
@_timing_options
@click.option(
    "-n", "--max", "count", type=click.IntRange(1, 100), default=5, show_default=True,
    help="Number of firings.",
)  # fmt: skip
@admin_options
def preview(count: int, broker: AdminClient, **asked: Any) -> None:
    """Show when a schedule would fire."""
    asked |= _timing(asked)
    found = broker.get(f"{PATH}/preview", count=count, **asked)
    print_result(found, _firings(found["next_firings"]))


def _timing(asked: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a timing, by the names of the API."""
    ways = ("at", "in", "every", "cron")
    if sum(asked[way] is not None for way in ways) != 1:
        raise click.UsageError("give exactly one of --at, --in, --every and --cron")
    return {"in_s": asked.pop("in"), "every_s": asked.pop("every")}


def _all(broker: AdminClient, **query: object) -> list[Document]:
    found, cursor = list[Document](), None
    while True:
        page = broker.get(PATH, limit=1_000, cursor=cursor, **query)
        found += page["items"]
        cursor = page["next"]
        if cursor is None:
            return found


def _one(broker: AdminClient, name: str) -> Document:
    found = broker.get(PATH, name=name)["items"]
    if not found:
        raise PenstockError(f"there is no schedule {name!r}", "penstock schedule list has them all")
    row: Document = found[0]
    return row


def _row(row: Document) -> tuple[str, ...]:
    firings = row["next_firings"]
    return (
        printable(row["name"]),
        printable(row["topic"]),
        printable(row["timing_text"]),
        format_time(firings[0]) if firings else row["state"],
        _last(row),
        f"{row['published']:,}",
        f"{row['refused']:,}",
        f"{row['skipped']:,}",
    )


def _last(row: Document) -> str:
    last = row["last"]
    if last is None:
        return "never"
    why = f": {printable(last['detail'])}" if last["detail"] else ""
    return f"{last['result']} {format_time(last['due'])}{why}"


def _message(row: Document) -> str:
    payload = row["payload"]
    if payload is None:
        return f"{counted(row['payload_bytes'], 'byte')}; you may not read this topic"
    text = payload.get("text") if "base64" not in payload else f"base64:{payload['base64']}"
    return f"{printable(text or '', PAYLOAD_CHARACTERS)} ({counted(row['payload_bytes'], 'byte')})"


def _firings(times: list[str]) -> str:
    if not times:
        return "it fires no more"
    return "\n".join(("next firings", *(f"  {format_time(time)}" for time in times)))
