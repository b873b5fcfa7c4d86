"""``penstock queue``: topics that are worked on, looked at, made, steered, filled and deleted.

``push`` and ``peek`` speak the queue protocol, as any client; all else asks the administration
pages. ``peek`` takes nothing from anybody: it reads the journal.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote

import click
import msgspec

from penstock.cli.admin_client import (
    AdminClient,
    admin_options,
    confirm,
    duration,
    format_time,
    json_option,
    print_result,
    stale_option,
    yes_option,
)
from penstock.cli.columns import columns, counted
from penstock.cli.connection import CONTEXT, queue_client
from penstock.cli.lazy import CommandGroup
from penstock.cli.lines import READ_BYTES, in_lines
from penstock.config.units import with_unit, without_unit
from penstock.errors import PenstockError
from penstock.obs.log import printable

_Command = TypeVar("_Command", bound=Callable[..., Any])

PREVIEW_CHARACTERS = 60
"""How much of a payload a table shows."""


@click.group(cls=CommandGroup, context_settings=CONTEXT)
def queue() -> None:
    """Inspect and configure work queues, and push jobs."""


def _path(topic: str) -> str:
    return f"/queues/{quote(topic)}"


# ── Looking ───────────────────────────────────────────────────────────────────────────────────


@queue.command(name="list", context_settings=CONTEXT)
@click.option("--prefix", metavar="TEXT", help="Only those whose names begin so.")
@json_option
@admin_options
@stale_option
def list_queues(prefix: str | None, as_json: bool, broker: AdminClient) -> None:
    """List topics that were made or steered, or have groups."""
    found = list(_all_queues(broker, prefix))
    print_result(found, _table(found), as_json=as_json)


def _all_queues(broker: AdminClient, prefix: str | None) -> Iterator[dict[str, Any]]:
    return broker.pages("/queues", "queues", after={"after": "topic"}, prefix=prefix)


def _table(found: list[dict[str, Any]]) -> str:
    if not found:
        return "nothing is worked on; penstock queue create TOPIC makes a topic for it"
    head = ("TOPIC", "TO DO", "STORED", "GROUPS", "RATE", "LIMITS")
    return columns([head, *map(_row, found)])


def _row(found: dict[str, Any]) -> tuple[str, ...]:
    name = printable(found["topic"], 400)
    counts = (f"{found[field]:,}" for field in ("messages", "stored", "groups"))
    return name, *counts, _rate(found), _limits(found)


def _rate(found: dict[str, Any]) -> str:
    if not found["rate_per_s"]:
        return "-"
    return f"{found['rate_per_s']:g}/s, burst {max(found['burst'], 1):,}"


def _limits(found: dict[str, Any]) -> str:
    """Say how much is kept, and whether also what is done."""
    limits = []
    if found["max_messages"]:
        limits.append(counted(found["max_messages"], "message"))
    if found["max_age_s"]:
        limits.append(with_unit(found["max_age_s"], "s"))
    if found["max_bytes"]:
        limits.append(with_unit(found["max_bytes"], "bytes"))
    if found["keep"]:
        limits.append("keeps what is done")
    return ", ".join(limits) or "-"


@queue.command(context_settings=CONTEXT)
@click.argument("topic")
@json_option
@admin_options
@stale_option
def show(topic: str, as_json: bool, broker: AdminClient) -> None:
    """Show TOPIC: what it holds and how it is steered."""
    found = broker.get(_path(topic))
    print_result(found, _facts(found), as_json=as_json)


def _facts(found: dict[str, Any]) -> str:
    return columns(
        [
            ("topic", printable(found["topic"], 400)),
            ("messages", f"{found['messages']:,}"),
            ("offsets", _offsets(found)),
            ("bytes", f"{found['bytes']:,}"),
            ("groups", f"{found['groups']:,}"),
            ("rate", _rate(found)),
            ("limits", _limits(found)),
        ]
    )


def _offsets(found: dict[str, Any]) -> str:
    first, end = found["first_offset"], found["end_offset"]
    return f"{first:,} to {end - 1:,}" if first < end else f"none; the next is {end:,}"


# ── Steering ──────────────────────────────────────────────────────────────────────────────────


def _size(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    """Take bytes, as in 64MiB (a click callback)."""
    if text is None:
        return None
    try:
        return int(without_unit(text, "bytes"))
    except ValueError as error:
        raise click.BadParameter(f"{text!r} {error}") from None


_SETTINGS = (
    click.option(
        "--rate",
        type=click.FloatRange(0),
        metavar="NUMBER",
        help="Messages handed out a second, to all groups together; 0: as fast as they go.",
    ),
    click.option(
        "--burst",
        type=click.IntRange(0),
        metavar="NUMBER",
        help="How many at once after a pause; 1 unless set.",
    ),
    click.option(
        "--max-messages",
        type=click.IntRange(0),
        metavar="NUMBER",
        help="Keep no more than so many messages; 0: no limit.",
    ),
    click.option(
        "--max-age",
        callback=duration,
        metavar="TIME",
        help="Keep none older than so, as in 90d or 12h; 0: no limit.",
    ),
    click.option(
        "--max-bytes",
        callback=_size,
        metavar="SIZE",
        help="Keep no more than so much payload, as in 64MiB; 0: no limit.",
    ),
    click.option(
        "--keep/--no-keep",
        default=None,
        help="Keep messages after every group has finished them.",
    ),
)


def _settings_options(command: _Command) -> _Command:
    for option in reversed(_SETTINGS):  # click lists options from the last applied
        command = option(command)
    return command


def _fields(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as the page names them."""
    names = {"rate": "rate_per_s", "max_age": "max_age_s"}
    return {names.get(name, name): value for name, value in settings.items()}


@queue.command(context_settings=CONTEXT)
@click.argument("topic")
@_settings_options
@json_option
@admin_options
def create(topic: str, as_json: bool, broker: AdminClient, **settings: Any) -> None:
    """Create TOPIC, or update the settings of an existing one.

    A topic is made by the first message, too. What is not given is without limit. A new topic lets
    go of messages that every group has done; one that other protocols filled keeps them.
    """
    made = broker.put(_path(topic), **_fields(settings))
    print_result(made, _facts(made), as_json=as_json)


@queue.command(name="set", context_settings=CONTEXT)
@click.argument("topic")
@_settings_options
@json_option
@admin_options
def set_queue(topic: str, as_json: bool, broker: AdminClient, **settings: Any) -> None:
    """Change settings of TOPIC.

    It must be there. What is not given stays as it is.
    """
    if all(value is None for value in settings.values()):
        raise click.UsageError("nothing to change: give --rate, --max-age or another setting")
    broker.get(_path(topic))  # refused if there is none: a slip must not make one
    changed = broker.put(_path(topic), **_fields(settings))
    print_result(changed, _facts(changed), as_json=as_json)


@queue.command(context_settings=CONTEXT)
@click.argument("topic")
@yes_option
@json_option
@admin_options
def delete(topic: str, is_sure: bool, as_json: bool, broker: AdminClient) -> None:
    """Delete TOPIC, its messages, its groups and its settings."""
    found = broker.get(_path(topic))
    holds = f"{counted(found['messages'], 'message')} and {counted(found['groups'], 'group')}"
    confirm(f"Delete {printable(topic)} with {holds}?", is_sure=is_sure)
    deleted = broker.delete(_path(topic))
    gone = counted(deleted["messages"], "message")
    print_result(deleted, f"deleted {printable(topic)} with {gone}", as_json=as_json)


# ── Messages ──────────────────────────────────────────────────────────────────────────────────


def _headers(
    _context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
) -> tuple[tuple[str, bytes], ...]:
    """Take NAME=VALUE (a click callback)."""
    pairs = [text.partition("=") for text in given]
    for name, equals, _ in pairs:
        if not equals:
            raise click.BadParameter(f"{name!r}: write NAME=VALUE")
    return tuple((name, value.encode()) for name, _, value in pairs)


@queue.command(context_settings=CONTEXT)
@click.argument("topic")
@click.argument("payloads", nargs=-1, metavar="[PAYLOAD]...")
@click.option("--priority", type=click.IntRange(0, 7), default=0, help="The greater, the sooner.")
@click.option("--delay", callback=duration, metavar="TIME", help="Not to be handed out before.")
@click.option("--ttl", callback=duration, metavar="TIME", help="Not to be handed out after.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    callback=_headers,
    metavar="NAME=VALUE",
    help="A header; may be repeated.",
)
@json_option
@admin_options
def push(
    topic: str,
    payloads: tuple[str, ...],
    *,
    as_json: bool,
    broker: AdminClient,
    **settings: Any,
) -> None:
    """Put messages into TOPIC: each PAYLOAD is one.

    Without any, each line of standard input is one. Exits with 0 once the broker's disk has them
    all, else with 1, and then reports how many were stored.
    """
    if not payloads and sys.stdin.isatty():
        raise click.UsageError("no message: give PAYLOAD, or pipe lines into the command")
    given = [os.fsencode(payload) for payload in payloads]
    batches = [given] if given else in_lines(_standard_input())
    settings = {"delay_s": settings.pop("delay") or 0, "ttl_s": settings.pop("ttl"), **settings}
    offsets = _push(broker, topic, batches, settings)
    last = offsets[-1] if offsets else None
    outcome = {"topic": topic, "pushed": len(offsets), "last_offset": last}
    pushed = counted(len(offsets), "message")
    print_result(outcome, f"pushed {pushed} to {printable(topic)}", as_json=as_json)


def _standard_input() -> Iterator[bytes]:
    while chunk := os.read(sys.stdin.fileno(), READ_BYTES):
        yield chunk


def _push(
    broker: AdminClient,
    topic: str,
    batches: Iterable[list[bytes]],
    settings: dict[str, Any],
) -> list[int]:
    offsets: list[int] = []
    with queue_client(broker.server) as client:
        for batch in filter(None, batches):
            results = client.produce_many(topic, batch, **settings)
            offsets += [result.offset for result in results if result.offset is not None]
            error = next((result.error for result in results if result.error), None)
            if error is not None:
                raise PenstockError(f"stored {counted(len(offsets), 'message')}, then: {error}")
    return offsets


@queue.command(context_settings=CONTEXT)
@click.argument("topic")
@click.option(
    "-n",
    "--max",
    "count",
    type=click.IntRange(1, 10_000),
    default=10,
    show_default=True,
    help="How many.",
)
@click.option("--offset", type=click.IntRange(0), help="Where to begin; else the last are shown.")
@json_option
@admin_options
@stale_option
def peek(topic: str, *, count: int, offset: int | None, as_json: bool, broker: AdminClient) -> None:
    """Show messages of TOPIC, and take none.

    They stay what they are to those who work on it.
    """
    with queue_client(broker.server, stale_reads=broker.is_stale_fine) as client:
        found = client.topic(topic)
        if found is None:
            raise PenstockError(f"there is no topic {topic!r}", "penstock queue list shows topics")
        first = max(found.end_offset - count, found.first_offset) if offset is None else offset
        records = list(client.messages(topic, first, min(first + count, found.end_offset)))
    shown = [_record(record) for record in records]
    print_result(shown, _record_table(shown), as_json=as_json)


def _record(record: Any) -> dict[str, Any]:
    """A message as JSON has it: its payload as text, or in base64."""
    try:
        payload = {"payload": record.payload.decode()}
    except UnicodeDecodeError:
        payload = {"payload_base64": msgspec.to_builtins(record.payload)}
    headers = [[name, value.decode("utf-8", "backslashreplace")] for name, value in record.headers]
    return {
        "offset": record.offset,
        "time": _time(record.ts_ms),
        "priority": record.priority,
        "content_type": record.content_type,
        **({"not_before": _time(record.due_ms)} if record.due_ms else {}),
        **({"not_after": _time(record.expires_ms)} if record.expires_ms else {}),
        **({"headers": headers} if headers else {}),
        **payload,
    }


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _record_table(shown: list[dict[str, Any]]) -> str:
    """Show what all messages have; and what few have, if one of them does."""
    if not shown:
        return "no messages there"
    rare = [field for field in _RARE_FIELDS if any(field in record for record in shown)]
    head = ["OFFSET", "TIME", "PRIORITY", "TYPE", *(_RARE_FIELDS[field][0] for field in rare)]
    return columns([(*head, "PAYLOAD"), *(_record_row(record, rare) for record in shown)])


def _record_row(record: dict[str, Any], rare: list[str]) -> tuple[str, ...]:
    return (
        str(record["offset"]),
        format_time(record["time"]),
        str(record["priority"]),
        record["content_type"],
        *(_RARE_FIELDS[field][1](record[field]) if field in record else "-" for field in rare),
        printable(record.get("payload", "(not text)"), PREVIEW_CHARACTERS),
    )


def _header_line(headers: list[list[str]]) -> str:
    return printable(" ".join(f"{name}={value}" for name, value in headers), PREVIEW_CHARACTERS)


_RARE_FIELDS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "not_before": ("NOT BEFORE", format_time),
    "not_after": ("NOT AFTER", format_time),
    "headers": ("HEADERS", _header_line),
}
"""Field of a message → the column that it has, and how it is shown there."""
