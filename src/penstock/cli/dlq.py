"""``penstock dlq``: messages that failed as often as their group allows.

Sending them back is done some at a time, as long as it takes. How many is settled at the beginning:
those that fail again meanwhile, and come back, are left for another time.
"""

import sys
from typing import Any

import click

from penstock.cli.admin_client import (
    AdminClient,
    admin_options,
    confirm,
    format_time,
    json_option,
    print_result,
    stale_option,
    yes_option,
)
from penstock.cli.columns import columns, counted
from penstock.cli.connection import CONTEXT
from penstock.cli.lazy import CommandGroup
from penstock.errors import PenstockError
from penstock.obs.log import printable

REDRIVEN_AT_ONCE = 1_000
"""Letters sent back by one request: the progress is seen, and no answer takes long."""

PREVIEW_CHARACTERS = 60
"""How much of a payload a table shows."""


@click.group(cls=CommandGroup, context_settings=CONTEXT)
def dlq() -> None:
    """Look at dead letters, send them back or drop them."""


@dlq.command(name="list", context_settings=CONTEXT | {"allow_extra_args": True})
@json_option
@admin_options
@stale_option
@click.pass_context
def list_letters(context: click.Context, as_json: bool, broker: AdminClient) -> None:
    """List the groups that have dead letters, and how many."""
    if context.args:
        names = " ".join(context.args) if len(context.args) > 1 else f"{context.args[0]} GROUP"
        raise click.UsageError(f"list takes no names; for its letters: penstock dlq show {names}")
    found = list(broker.pages("/dlq", "dead_letters", after={"after": "letters_topic"}))
    print_result(found, _table(found), as_json=as_json)


def _table(found: list[dict[str, Any]]) -> str:
    if not found:
        return "there are no dead letters"
    rows = [
        (printable(row["topic"], 400), printable(row["group"], 400), f"{row['letters']:,}")
        for row in found
    ]
    return columns([("TOPIC", "GROUP", "LETTERS"), *rows])


@dlq.command(context_settings=CONTEXT)
@click.argument("topic")
@click.argument("group")
@click.option(
    "-n",
    "--max",
    "count",
    type=click.IntRange(1, 1_000),
    default=10,
    show_default=True,
    help="How many.",
)
@click.option("--offset", type=click.IntRange(0), help="Where to begin; else with the oldest.")
@json_option
@admin_options
@stale_option
def show(
    topic: str,
    group: str,
    *,
    count: int,
    offset: int | None,
    as_json: bool,
    broker: AdminClient,
) -> None:
    """Show dead letters of GROUP of TOPIC and why they failed.

    The oldest come first.
    """
    query = {"topic": topic, "group": group, "limit": count, "offset": offset}
    found = broker.get("/dlq/letters", **query)
    print_result(found, _letters(found), as_json=as_json)


def _letters(found: dict[str, Any]) -> str:
    if not found["shown"]:
        return "no dead letters there; penstock dlq list shows who has some"
    head = ("OFFSET", "DIED", "ATTEMPTS", "REASON", "PAYLOAD")
    rest = found["letters"] - len(found["shown"])
    more = f"\n... {found['letters']:,} in all" if rest > 0 else ""
    return columns([head, *map(_row, found["shown"])]) + more


def _row(letter: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(letter["offset"]),
        format_time(letter["time"]),
        str(letter["attempts"]),
        printable(letter["reason"], PREVIEW_CHARACTERS) or "-",
        printable(letter.get("payload", "(not text)"), PREVIEW_CHARACTERS),
    )


@dlq.command(context_settings=CONTEXT)
@click.argument("topic")
@click.argument("group")
@click.option("-n", "--max", "most", type=click.IntRange(1), help="No more than so many.")
@json_option
@admin_options
def redrive(
    topic: str, group: str, *, most: int | None, as_json: bool, broker: AdminClient
) -> None:
    """Send dead letters of GROUP back to the end of TOPIC.

    The oldest go first. Every group of TOPIC gets them, as it gets any new message.
    """
    there = _count(broker, topic, group)
    sent, left = _redrive(broker, topic, group, min(there, most or there))
    outcome = {"topic": topic, "group": group, "redriven": sent, "left": left}
    text = f"sent {counted(sent, 'letter')} back to {printable(topic)}; {left:,} left"
    print_result(
        outcome, text if there else "there are no dead letters to send back", as_json=as_json
    )


def _redrive(broker: AdminClient, topic: str, group: str, total: int) -> tuple[int, int]:
    """Send letters back, step by step; return how many, and how many are left."""
    sent = left = 0
    while sent < total:
        count = min(total - sent, REDRIVEN_AT_ONCE)
        try:
            answer = broker.post("/dlq/redrive", topic=topic, group=group, max=count)
        except PenstockError as error:
            so_far = f"sent {counted(sent, 'letter')} back, then {error.message}"
            raise PenstockError(so_far, error.advice) from error
        sent, left = sent + answer["redriven"], answer["left"]
        _tell_progress(sent, total)
        if not answer["redriven"]:
            break
    return sent, left


def _count(broker: AdminClient, topic: str, group: str) -> int:
    return int(broker.get("/dlq/letters", topic=topic, group=group, limit=0)["letters"])


def _tell_progress(sent: int, total: int) -> None:
    """Say how far it is, to whoever watches, if there is more than one step."""
    if total > REDRIVEN_AT_ONCE and sys.stderr.isatty():
        click.echo(f"\rsent back {sent:,} of {total:,}", err=True, nl=sent >= total)


@dlq.command(context_settings=CONTEXT)
@click.argument("topic")
@click.argument("group")
@yes_option
@json_option
@admin_options
def drop(topic: str, group: str, *, is_sure: bool, as_json: bool, broker: AdminClient) -> None:
    """Be done with all dead letters of GROUP of TOPIC, for good."""
    there = _count(broker, topic, group)
    if there:
        name = f"{printable(group)} of {printable(topic)}"
        confirm(f"Drop {counted(there, 'dead letter')} of {name}?", is_sure=is_sure)
    dropped = broker.delete("/dlq", topic=topic, group=group)
    print_result(dropped, f"dropped {counted(dropped['dropped'], 'dead letter')}", as_json=as_json)
