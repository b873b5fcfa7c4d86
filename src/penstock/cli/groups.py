"""``penstock groups``: those who work on topics, how far they are, and how to steer them.

A place in a topic is an end (``earliest``, ``latest``), an offset, or a time.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from penstock.cli.admin_client import (
    AdminClient,
    admin_options,
    confirm,
    duration,
    json_option,
    print_result,
    stale_option,
    yes_option,
)
from penstock.cli.columns import columns, counted
from penstock.cli.connection import CONTEXT
from penstock.cli.lazy import CommandGroup
from penstock.config.units import with_unit
from penstock.obs.log import printable

_Command = TypeVar("_Command", bound=Callable[..., Any])

_PLACE = "earliest|latest|OFFSET|TIME"


@click.group(cls=CommandGroup, context_settings=CONTEXT)
def groups() -> None:
    """Inspect and configure consumer groups."""


def _place(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> int | str | None:
    """Take a place as the broker does: numbers are offsets (a click callback)."""
    return int(text) if text and text.isascii() and text.isdecimal() else text


def _named(command: _Command) -> _Command:
    return click.argument("topic")(click.argument("group")(command))


_start_option = click.option(
    "--from",
    "start",
    callback=_place,
    metavar=_PLACE,
    help="Where it begins, if it is new: at the earliest unless given. Times as in"
    " 2030-01-31T12:00:00Z.",
)
_SETTINGS = (
    click.option(
        "--max-deliveries",
        type=click.IntRange(0),
        metavar="NUMBER",
        help="After this many failed deliveries a message becomes a dead letter; 0: never.",
    ),
    click.option(
        "--backoff",
        callback=duration,
        metavar="TIME",
        help="Pause before a message that failed is handed out again, as in 500ms; it doubles each"
        " time. Unless given: none the first time, then 1s.",
    ),
    click.option(
        "--backoff-max",
        callback=duration,
        metavar="TIME",
        help="The longest such pause, not less than the first; 0: no limit. Unless --backoff is"
        " given: 1m.",
    ),
)


def _settings_options(command: _Command) -> _Command:
    for option in reversed(_SETTINGS):  # click lists options from the last applied
        command = option(command)
    return command


def _fields(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as the page names them."""
    names = {"backoff": "backoff_s", "backoff_max": "backoff_max_s"}
    return {names.get(name, name): value for name, value in settings.items()}


# ── Looking ───────────────────────────────────────────────────────────────────────────────────


@groups.command(name="list", context_settings=CONTEXT)
@click.argument("topic", required=False)
@click.option(
    "--each", "is_each", is_flag=True, help="Give every topic of a reader a line of its own."
)
@json_option
@admin_options
@stale_option
def list_groups(topic: str | None, *, is_each: bool, as_json: bool, broker: AdminClient) -> None:
    """List the groups of TOPIC, or of all topics.

    A reader, such as a Spark query, has a group on every topic it reads. Those are one line, with
    their sums; --each shows them all, and so does --json.
    """
    after = {"after_topic": "topic", "after_group": "group"}
    found = list(broker.pages("/groups", "groups", after=after, topic=topic))
    print_result(found, _table(found if is_each else _summed(found)), as_json=as_json)


_SUMS: Final = ("lag", "in_flight", "returned", "delayed", "dead_letters")


def _summed(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Make one of all groups of a reader, where its first one is; others stay as they are."""
    topics = Counter(group["group"] for group in found if group["reader"])
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    for group in found:
        count = topics[group["group"]] if group["reader"] else 1
        key = (group["group"], "" if count > 1 else group["topic"])
        line = lines.get(key)
        if line is None:
            name = f"({count:,} topics)" if count > 1 else group["topic"]
            lines[key] = {**group, "topic": name}
        else:
            line |= {name: line[name] + group[name] for name in _SUMS}
    return list(lines.values())


def _table(found: list[dict[str, Any]]) -> str:
    if not found:
        return "there are no groups; one is made by the first consumer, or by groups create"
    head = ("TOPIC", "GROUP", "LAG", "IN FLIGHT", "RETRYING", "DEAD (TOTAL)", "CONSUMERS")
    return columns([head, *map(_row, found)])


def _row(found: dict[str, Any]) -> tuple[str, ...]:
    retrying = found["returned"] + found["delayed"]
    numbers = (found["lag"], found["in_flight"], retrying, found["dead_letters"])
    names = (printable(found["topic"], 400), printable(found["group"], 400))
    consumers = "reader" if found["reader"] else f"{found['consumers']:,}"
    return (*names, *(f"{number:,}" for number in numbers), consumers)


@groups.command(context_settings=CONTEXT)
@_named
@json_option
@admin_options
@stale_option
def show(topic: str, group: str, as_json: bool, broker: AdminClient) -> None:
    """Show how far GROUP of TOPIC is, and how it repeats."""
    found = _find(broker, topic, group)
    print_result(found, _facts(found), as_json=as_json)


def _find(broker: AdminClient, topic: str, group: str) -> dict[str, Any]:
    found: dict[str, Any] = broker.get("/groups", topic=topic, group=group)["groups"][0]
    return found


def _facts(found: dict[str, Any]) -> str:
    return columns(
        [
            ("topic", printable(found["topic"], 400)),
            ("group", printable(found["group"], 400)),
            ("kind", "reader" if found["reader"] else "workers"),
            ("began at", f"{found['began']:,}"),
            ("position", f"{found['position']:,} (all before is done)"),
            ("lag", f"{found['lag']:,}"),
            ("in flight", f"{found['in_flight']:,}"),
            ("retrying", f"{found['returned']:,} now, {found['delayed']:,} later"),
            ("redeliveries", f"{found['redeliveries']:,} in total"),
            ("dead letters", f"{found['dead_letters']:,} in total"),
            ("consumers", f"{found['consumers']:,}"),
            ("max deliveries", _deliveries(found)),
            ("back-off", _backoff(found)),
        ]
    )


def _deliveries(found: dict[str, Any]) -> str:
    most = found["max_deliveries"]
    return f"{most:,}, then a dead letter" if most else "no limit"


def _backoff(found: dict[str, Any]) -> str:
    if not found["backoff_s"]:
        return "none"
    longest = found["backoff_max_s"]
    pause = f"{with_unit(found['backoff_s'], 's')}, doubled each time"
    return f"{pause} up to {with_unit(longest, 's')}" if longest else pause


# ── Steering ──────────────────────────────────────────────────────────────────────────────────


@groups.command(context_settings=CONTEXT)
@_named
@_start_option
@_settings_options
@json_option
@admin_options
def create(
    topic: str,
    group: str,
    *,
    start: int | str | None,
    as_json: bool,
    broker: AdminClient,
    **settings: Any,
) -> None:
    """Make GROUP of TOPIC before its first consumer comes.

    It then misses no message. TOPIC need not exist yet. An existing group keeps its position, and
    its settings are updated.
    """
    made = broker.put("/groups", topic=topic, group=group, start=start, **_fields(settings))
    print_result(made, _facts(made), as_json=as_json)


@groups.command(name="set", context_settings=CONTEXT)
@_named
@_settings_options
@json_option
@admin_options
def set_group(
    topic: str, group: str, *, as_json: bool, broker: AdminClient, **settings: Any
) -> None:
    """Change settings of GROUP of TOPIC.

    It must be there. What is not given stays as it is.
    """
    if all(value is None for value in settings.values()):
        raise click.UsageError("nothing to change: give --max-deliveries or --backoff")
    _find(broker, topic, group)  # refused if there is none: a slip must not make one
    changed = broker.put("/groups", topic=topic, group=group, **_fields(settings))
    print_result(changed, _facts(changed), as_json=as_json)


@groups.command(context_settings=CONTEXT)
@_named
@click.argument("place", metavar=_PLACE, callback=_place)
@yes_option
@json_option
@admin_options
def seek(
    topic: str,
    group: str,
    *,
    place: int | str,
    is_sure: bool,
    as_json: bool,
    broker: AdminClient,
) -> None:
    """Have GROUP of TOPIC go on from another place.

    Moved back, it does again what it has done; moved forward, it never does what lies between.
    What consumers have in hand stays theirs.
    """
    found = _find(broker, topic, group)
    question = f"Move {printable(group)} of {printable(topic)} from {found['position']} to {place}?"
    confirm(question, is_sure=is_sure)
    moved = broker.put("/groups", topic=topic, group=group, seek=place)
    print_result(moved, _facts(moved), as_json=as_json)


@groups.command(context_settings=CONTEXT)
@_named
@yes_option
@json_option
@admin_options
def delete(topic: str, group: str, *, is_sure: bool, as_json: bool, broker: AdminClient) -> None:
    """Forget GROUP of TOPIC and how far it was.

    Messages and dead letters stay.
    """
    found = _find(broker, topic, group)
    name = f"{printable(group)} of {printable(topic)}"
    behind = counted(found["lag"], "message")
    confirm(f"Delete {name}, which is behind by {behind}?", is_sure=is_sure)
    deleted = broker.delete("/groups", topic=topic, group=group)
    print_result(deleted, f"deleted {name}", as_json=as_json)
