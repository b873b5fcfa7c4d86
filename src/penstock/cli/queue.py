"""``penstock queue``: topics used as work queues.

``push`` and ``peek`` speak the queue protocol; the other commands use the HTTP API.
"""

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.cli import names
from penstock.cli.admin_client import AdminClient, Document, admin_options, stale_option
from penstock.cli.inputs import (
    READ_BYTES,
    confirm,
    count_option,
    in_lines,
    number_option,
    option_set,
    time_option,
    yes_option,
)
from penstock.cli.lazy import NounGroup
from penstock.cli.message_lines import header_field, iso_time, payload_field
from penstock.cli.output import columns, counted, format_time, print_result, table
from penstock.cli.paged import every
from penstock.config.units import with_unit, without_unit
from penstock.errors import PenstockError
from penstock.obs.printable import printable

if TYPE_CHECKING:  # loads protobuf
    from penstock.client import Record


PATH: Final = "queues"
PREVIEW_CHARACTERS = 60


@click.group(cls=NounGroup)
def queue() -> None:
    """Inspect and configure work queues, and push jobs.

    Without a command it lists.
    """


@queue.command(name="list")
@click.option("--prefix", metavar="TEXT", help="Only topics whose names begin with TEXT.")
@admin_options
@stale_option
def list_queues(prefix: str | None, broker: AdminClient) -> None:
    """List topics that were created or configured, or have groups."""
    found = every(broker, PATH, prefix=prefix)
    head = ("TOPIC", "TO DO", "STORED", "GROUPS", "RATE", "LIMITS")
    empty = "there are no queues that you may see; penstock queue create TOPIC makes one"
    print_result(found, table(head, map(_row, found), empty))


def _row(found: Document) -> tuple[str, ...]:
    name = printable(found["topic"], 400)
    counts = (f"{found[field]:,}" for field in ("messages", "stored", "groups"))
    return name, *counts, _rate(found), _limits(found)


def _rate(found: Document) -> str:
    if not found["rate_per_s"]:
        return "-"
    return f"{found['rate_per_s']:g}/s, burst {max(found['burst'], 1):,}"


def _limits(found: Document) -> str:
    limits = [
        counted(found["max_messages"], "message") if found["max_messages"] else "",
        with_unit(found["max_age_s"], "s") if found["max_age_s"] else "",
        with_unit(found["max_bytes"], "bytes") if found["max_bytes"] else "",
        "keeps finished messages" if found["keep"] else "",
    ]
    return ", ".join(filter(None, limits)) or "-"


@queue.command()
@click.argument("topic", shell_complete=names.topics)
@admin_options
@stale_option
def show(topic: str, broker: AdminClient) -> None:
    """Show the contents and settings of TOPIC."""
    found = _detail(broker, topic)
    print_result(found, _facts(found))


def _detail(broker: AdminClient, topic: str) -> Document:
    return broker.current(f"{PATH}/detail", topic=topic)


def _facts(found: Document) -> str:
    return columns(
        [
            ("topic", printable(found["topic"], 400)),
            ("messages", f"{found['messages']:,}"),
            ("offsets", _offsets(found)),
            ("bytes", f"{found['stored_bytes']:,}"),
            ("groups", f"{found['groups']:,}"),
            ("lag", f"{found['lag']:,} (of the group that is furthest behind)"),
            ("dead letters", f"{found['dead_letters']:,}"),
            ("rate", _rate(found)),
            ("limits", _limits(found)),
        ]
    )


def _offsets(found: Document) -> str:
    first, end = found["first_offset"], found["end_offset"]
    return f"{first:,} to {end - 1:,}" if first < end else f"none; the next is {end:,}"


# ── Configuring ───────────────────────────────────────────────────────────────────────────────


def _size(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else int(without_unit(text, "bytes"))
    except ValueError as error:
        raise click.BadParameter(f"{text!r} {error}") from None


_settings_options = option_set(
    number_option(
        "--rate",
        "Maximum deliveries per second, over all groups; 0: no limit.",
        click.FloatRange(0),
    ),
    number_option("--burst", "Maximum deliveries at once after a pause; 1 by default."),
    number_option("--max-messages", "Maximum number of messages kept; 0: no limit."),
    time_option("--max-age", "Maximum age of messages kept, as in 90d or 12h; 0: no limit."),
    click.option(
        "--max-bytes",
        callback=_size,
        metavar="SIZE",
        help="Maximum payload bytes kept, as in 64MiB; 0: no limit.",
    ),
    click.option(
        "--keep/--no-keep", default=None, help="Keep messages after every group has finished them."
    ),
)


def _fields(settings: dict[str, object]) -> dict[str, object]:
    names = {"rate": "rate_per_s", "max_age": "max_age_s"}
    return {names.get(name, name): value for name, value in settings.items()}


@queue.command()
@click.argument("topic", shell_complete=names.topics)
@_settings_options
@admin_options
def create(topic: str, broker: AdminClient, **settings: object) -> None:
    """Create TOPIC, or update the settings of an existing one.

    The first message also creates a topic. There is no limit unless one is given. A new topic
    removes messages that every group has finished; one created by another protocol keeps them.
    """
    made = broker.change("PATCH", PATH, topic=topic, **_fields(settings))
    print_result(made, _facts(made))


@queue.command(name="set")
@click.argument("topic", shell_complete=names.topics)
@_settings_options
@admin_options
def set_queue(topic: str, broker: AdminClient, **settings: object) -> None:
    """Change settings of the existing TOPIC.

    Settings that are not given do not change.
    """
    if all(value is None for value in settings.values()):
        raise click.UsageError("nothing to change: give --rate, --max-age or another setting")
    _detail(broker, topic)  # a typo must not create a topic
    changed = broker.change("PATCH", PATH, topic=topic, **_fields(settings))
    print_result(changed, _facts(changed))


@queue.command()
@click.argument("topic", shell_complete=names.topics)
@yes_option
@admin_options
def delete(topic: str, broker: AdminClient) -> None:
    """Delete TOPIC, its messages, its groups and its settings."""
    found = _detail(broker, topic)
    content = f"{counted(found['messages'], 'message')} and {counted(found['groups'], 'group')}"
    confirm(f"Delete {printable(topic)} with {content}?")
    deleted = broker.delete(PATH, topic=topic)
    messages = counted(deleted["messages"], "message")
    print_result(deleted, f"deleted {printable(topic)} with {messages}")


# ── Messages ──────────────────────────────────────────────────────────────────────────────────


def _headers(
    _context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
) -> tuple[tuple[str, bytes], ...]:
    pairs = [text.partition("=") for text in given]
    for name, equals, _ in pairs:
        if not equals:
            raise click.BadParameter(f"{name!r}: write NAME=VALUE")
    return tuple((name, value.encode()) for name, _, value in pairs)


@queue.command()
@click.argument("topic", shell_complete=names.topics)
@click.argument("payloads", nargs=-1, metavar="[PAYLOAD]...")
@click.option("--priority", type=click.IntRange(0, 7), default=0, help="Higher ones go first.")
@time_option("--delay", "Do not deliver before TIME.")
@time_option("--ttl", "Do not deliver after TIME.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    callback=_headers,
    metavar="NAME=VALUE",
    help="A header; repeatable.",
)
@admin_options
def push(
    topic: str,
    payloads: tuple[str, ...],
    *,
    delay: float | None,
    broker: AdminClient,
    **settings: Any,
) -> None:
    """Push each PAYLOAD to TOPIC, or each line of standard input.

    Exits with 0 once all messages are on the broker's disk; otherwise with 1, and reports how many
    were stored.
    """
    if not payloads and sys.stdin.isatty():
        raise click.UsageError("no message: give PAYLOAD, or pipe lines into the command")
    given = [os.fsencode(payload) for payload in payloads]
    batches = (
        [given] if given else in_lines(iter(lambda: os.read(sys.stdin.fileno(), READ_BYTES), b""))
    )
    settings["ttl_s"] = settings.pop("ttl")
    offsets = _push(broker, topic, batches, {"delay_s": delay or 0, **settings})
    last = offsets[-1] if offsets else None
    outcome = {"topic": topic, "pushed": len(offsets), "last_offset": last}
    pushed = counted(len(offsets), "message")
    print_result(outcome, f"pushed {pushed} to {printable(topic)}")


def _push(
    broker: AdminClient, topic: str, batches: Iterable[list[bytes]], settings: Document
) -> list[int]:
    offsets: list[int] = []
    with broker.target.queue() as client:
        for batch in filter(None, batches):
            results = client.produce_many(topic, batch, **settings)
            offsets += [result.offset for result in results if result.offset is not None]
            error = next((result.error for result in results if result.error), None)
            if error is not None:
                raise PenstockError(f"stored {counted(len(offsets), 'message')}, then: {error}")
    return offsets


@queue.command()
@click.argument("topic", shell_complete=names.topics)
@count_option(10_000)
@click.option("--offset", type=click.IntRange(0), help="First offset; by default the last ones.")
@admin_options
@stale_option
def peek(topic: str, *, count: int, offset: int | None, broker: AdminClient) -> None:
    """Show messages of TOPIC without consuming them."""
    with broker.target.queue(stale_reads=broker.is_stale_fine) as client:
        found = client.topic(topic)
        if found is None:
            raise PenstockError(f"there is no topic {topic!r}", "penstock queue list shows topics")
        first = max(found.end_offset - count, found.first_offset) if offset is None else offset
        records = list(client.messages(topic, first, min(first + count, found.end_offset)))
    shown = [_record(record) for record in records]
    print_result(shown, _record_table(shown))


def _record(record: "Record") -> Document:
    return {
        "offset": record.offset,
        "time": iso_time(record.ts_ms),
        "priority": record.priority,
        "content_type": record.content_type,
        **({"not_before": iso_time(record.due_ms)} if record.due_ms else {}),
        **({"not_after": iso_time(record.expires_ms)} if record.expires_ms else {}),
        **header_field(record),
        **payload_field(record.payload),
    }


def _record_table(shown: list[Document]) -> str:
    if not shown:
        return "no messages"
    optional = [field for field in _OPTIONAL_FIELDS if any(field in record for record in shown)]
    head = ["OFFSET", "TIME", "PRIORITY", "TYPE", *(_OPTIONAL_FIELDS[field] for field in optional)]
    return columns([(*head, "PAYLOAD"), *(_record_row(record, optional) for record in shown)])


_OPTIONAL_FIELDS = {"not_before": "NOT BEFORE", "not_after": "NOT AFTER", "headers": "HEADERS"}


def _record_row(record: Document, optional: list[str]) -> tuple[str, ...]:
    return (
        str(record["offset"]),
        format_time(record["time"]),
        str(record["priority"]),
        record["content_type"],
        *(_optional_cell(record.get(field)) for field in optional),
        printable(record.get("payload", "(not text)"), PREVIEW_CHARACTERS),
    )


def _optional_cell(value: str | list[list[str]] | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return format_time(value)
    return printable(" ".join(f"{name}={text}" for name, text in value), PREVIEW_CHARACTERS)
