"""``penstock groups``: consumer groups, their progress and settings.

A position in a topic is ``earliest``, ``latest``, an offset, or a time.
"""

from collections import Counter
from typing import Final

import click

from penstock.cli import names
from penstock.cli.admin_client import (
    AdminClient,
    Document,
    NotFound,
    admin_options,
    stale_option,
)
from penstock.cli.inputs import confirm, number_option, option_set, time_option, yes_option
from penstock.cli.lazy import NounGroup
from penstock.cli.output import columns, counted, print_result, span, table
from penstock.cli.paged import every
from penstock.config.units import with_unit
from penstock.errors import PenstockError
from penstock.obs.printable import printable

PATH: Final = "groups"
_POSITION = "earliest|latest|OFFSET|TIME"


@click.group(cls=NounGroup)
def groups() -> None:
    """Inspect and configure consumer groups.

    Without a command it lists.
    """


def _position(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> int | str | None:
    return int(text) if text and text.isascii() and text.isdecimal() else text


_names = option_set(
    click.argument("topic", shell_complete=names.topics),
    click.argument("group", shell_complete=names.groups),
)

_settings_options = option_set(
    number_option("--max-deliveries", "Dead-letter after this many failed deliveries; 0: never."),
    time_option(
        "--backoff",
        "Delay before redelivering a failed message, as in 500ms; doubles each time. Default:"
        " none for the first redelivery, then 1s.",
    ),
    time_option(
        "--backoff-max",
        "Maximum delay, not less than --backoff; 0: no limit. Default without --backoff: 1m.",
    ),
)


def _fields(settings: dict[str, object]) -> dict[str, object]:
    names = {"backoff": "backoff_s", "backoff_max": "backoff_max_s"}
    return {names.get(name, name): value for name, value in settings.items()}


@groups.command(name="list")
@click.argument("topic", required=False, shell_complete=names.topics)
@click.option("--each", "is_each", is_flag=True, help="Show every topic of a reader separately.")
@admin_options
@stale_option
def list_groups(topic: str | None, *, is_each: bool, broker: AdminClient) -> None:
    """List the groups of TOPIC, or of all topics.

    A reader, such as a Spark query, has a group on every topic it reads. They are summed up in one
    line; --each and --json show all of them.
    """
    found = every(broker, PATH, topic=topic)
    rows = map(_row, found if is_each else _summed(found))
    empty = "there are no groups that you may see; the first consumer, or groups create, makes one"
    head = ("TOPIC", "GROUP", "LAG", "OLDEST", "IN FLIGHT", "RETRYING", "DEAD", "WORKERS")
    print_result(found, table(head, rows, empty))


_SUMS: Final = ("lag", "in_flight", "returned", "delayed", "dead_letters")


def _summed(found: list[Document]) -> list[Document]:
    topics = Counter(group["group"] for group in found if group["reader"])
    rows: dict[tuple[str, str], Document] = {}
    for group in found:
        count = topics[group["group"]] if group["reader"] else 1
        key = (group["group"], "" if count > 1 else group["topic"])
        row = rows.get(key)
        if row is None:
            name = f"({count:,} topics)" if count > 1 else group["topic"]
            rows[key] = {**group, "topic": name}
        else:
            row |= {name: row[name] + group[name] for name in _SUMS}
            ages = [age for age in (row["oldest_s"], group["oldest_s"]) if age is not None]
            row["oldest_s"] = max(ages, default=None)
    return list(rows.values())


def _row(found: Document) -> tuple[str, ...]:
    retrying = found["returned"] + found["delayed"]
    return (
        printable(found["topic"], 400),
        printable(found["group"], 400),
        f"{found['lag']:,}",
        _oldest(found),
        f"{found['in_flight']:,}",
        f"{retrying:,}",
        f"{found['dead_letters']:,}",
        "reader" if found["reader"] else f"{found['workers']:,}",
    )


def _oldest(found: Document) -> str:
    return "-" if found["oldest_s"] is None else span(found["oldest_s"])


@groups.command()
@_names
@admin_options
@stale_option
def show(topic: str, group: str, broker: AdminClient) -> None:
    """Show the progress and settings of GROUP of TOPIC.

    Also what needs attention: waiting messages without workers, dead letters.
    """
    found = _find(broker, topic, group)
    print_result(found, _facts(found))


def _find(broker: AdminClient, topic: str, group: str) -> Document:
    found = _known(broker, topic, group)
    if found is None:
        what = f"there is no group {group!r} of the topic {topic!r}"
        raise PenstockError(what, "penstock groups list shows all; groups create makes one")
    return found


def _known(broker: AdminClient, topic: str, group: str) -> Document | None:
    found: list[Document] = broker.current(PATH, topic=topic, group=group)["items"]
    return found[0] if found else None


def _facts(found: Document) -> str:
    most = found["max_deliveries"]
    return columns(
        [
            ("topic", printable(found["topic"], 400)),
            ("group", printable(found["group"], 400)),
            ("kind", "reader" if found["reader"] else "workers"),
            ("started at", f"{found['start']:,}"),
            ("position", f"{found['position']:,} (all before it is done)"),
            ("lag", f"{found['lag']:,}"),
            ("oldest", _oldest(found)),
            ("in flight", f"{found['in_flight']:,}"),
            ("retrying", f"{found['returned']:,} now, {found['delayed']:,} later"),
            ("redeliveries", f"{found['redeliveries']:,} in total"),
            ("dead letters", _dead(found)),
            ("workers", f"{found['workers']:,}"),
            ("max deliveries", f"{most:,}, then dead-lettered" if most else "no limit"),
            ("back-off", _backoff(found)),
            *(("attention", one["text"]) for one in found["attention"]),
        ]
    )


def _dead(found: Document) -> str:
    return f"{found['dead_letters']:,} now, {found['dead_letters_total']:,} in total"


def _backoff(found: Document) -> str:
    if not found["backoff_s"]:
        return "none"
    longest = found["backoff_max_s"]
    delay = f"{with_unit(found['backoff_s'], 's')}, doubled each time"
    return f"{delay} up to {with_unit(longest, 's')}" if longest else delay


@groups.command()
@_names
@click.option(
    "--from",
    "start",
    callback=_position,
    metavar=_POSITION,
    help="Where a new group starts; by default at the earliest message. A time is written as in"
    " 2030-01-31T12:00:00Z.",
)
@_settings_options
@admin_options
def create(
    topic: str, group: str, *, start: int | str | None, broker: AdminClient, **settings: object
) -> None:
    """Create GROUP of TOPIC before its first consumer connects.

    It then misses no message. TOPIC need not exist yet. An existing group keeps its position, and
    its settings are updated.
    """
    names, fields = {"topic": topic, "group": group}, _fields(settings)
    try:
        is_there = _known(broker, topic, group) is not None
    except NotFound:  # nor is the topic
        is_there = False
    if is_there:
        broker.change("PATCH", PATH, **names, **fields)
    else:
        broker.post(PATH, **names, start=start, **fields)
    made = _find(broker, topic, group)
    print_result(made, _facts(made))


@groups.command(name="set")
@_names
@_settings_options
@admin_options
def set_group(topic: str, group: str, broker: AdminClient, **settings: object) -> None:
    """Change settings of the existing GROUP of TOPIC.

    Settings that are not given do not change.
    """
    if all(value is None for value in settings.values()):
        raise click.UsageError("nothing to change: give --max-deliveries or --backoff")
    broker.change("PATCH", PATH, topic=topic, group=group, **_fields(settings))
    changed = _find(broker, topic, group)
    print_result(changed, _facts(changed))


@groups.command()
@_names
@click.argument("position", metavar=_POSITION, callback=_position)
@yes_option
@admin_options
def seek(topic: str, group: str, *, position: int | str, broker: AdminClient) -> None:
    """Move GROUP of TOPIC to another position.

    Moved back, it repeats messages; moved forward, it skips some. Messages in flight stay with
    their consumers.
    """
    names = {"topic": topic, "group": group}
    told = broker.change("PATCH", PATH, **names, seek=position, dry_run=True)
    name = f"{printable(group)} of {printable(topic)}"
    confirm(f"Move {name} from {told['position']:,} to {told['seek_to']:,}{_consequence(told)}?")
    broker.change("PATCH", PATH, **names, seek=position)
    moved = _find(broker, topic, group)
    print_result(moved, _facts(moved))


def _consequence(told: Document) -> str:
    """What moving a group would mean."""
    if told["skipped"]:
        return f", which skips {counted(told['skipped'], 'message')}"
    if told["repeated"]:
        return f", which repeats {counted(told['repeated'], 'message')}"
    return ""


@groups.command()
@_names
@yes_option
@admin_options
def delete(topic: str, group: str, *, broker: AdminClient) -> None:
    """Delete GROUP of TOPIC and its position.

    Messages and dead letters stay.
    """
    names = {"topic": topic, "group": group}
    found = broker.delete(PATH, **names, dry_run=True)
    name = f"{printable(group)} of {printable(topic)}"
    lag = counted(found["lag"], "message")
    confirm(f"Delete {name}, which has a lag of {lag}?")
    deleted = broker.delete(PATH, **names)
    print_result(deleted, f"deleted {name}")
