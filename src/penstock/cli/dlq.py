"""``penstock dlq``: messages that failed too often.

Redriving takes several requests. The number of letters is fixed at the start: those that fail again
in the meantime, and return, are left for the next time.
"""

import sys
from typing import Final

import click

from penstock.cli import names
from penstock.cli.admin_client import AdminClient, Document, admin_options, stale_option
from penstock.cli.inputs import confirm, count_option, yes_option
from penstock.cli.lazy import NounGroup
from penstock.cli.output import (
    columns,
    counted,
    format_time,
    payload_text,
    print_result,
    table,
)
from penstock.cli.paged import every
from penstock.errors import PenstockError
from penstock.obs.printable import printable

PATH: Final = "dlq"
REDRIVEN_AT_ONCE = 1_000  # letters per request: shows progress, and no response takes long
PREVIEW_CHARACTERS = 60


@click.group(cls=NounGroup)
def dlq() -> None:
    """Inspect, redrive and drop dead letters.

    Without a command it lists.
    """


@dlq.command(name="list", context_settings={"allow_extra_args": True})
@admin_options
@stale_option
@click.pass_context
def list_letters(context: click.Context, broker: AdminClient) -> None:
    """List the groups with dead letters."""
    if context.args:
        names = " ".join(context.args) if len(context.args) > 1 else f"{context.args[0]} GROUP"
        raise click.UsageError(f"list takes no names; to show letters: penstock dlq show {names}")
    found = every(broker, PATH)
    head = ("TOPIC", "GROUP", "LETTERS", "OLDEST", "MOSTLY")
    print_result(found, table(head, map(_group_row, found), "there are no dead letters"))


def _group_row(found: Document) -> tuple[str, ...]:
    reasons = found["reasons"]
    return (
        printable(found["topic"], 400),
        printable(found["group"], 400),
        f"{found['letters']:,}",
        format_time(found["oldest"]) if found["oldest"] else "-",
        (printable(reasons[0]["reason"], PREVIEW_CHARACTERS) if reasons else "") or "-",
    )


@dlq.command()
@click.argument("topic", shell_complete=names.topics)
@click.argument("group", shell_complete=names.groups)
@count_option(1_000)
@click.option("--offset", type=click.IntRange(0), help="First offset; by default the oldest.")
@admin_options
@stale_option
def show(topic: str, group: str, *, count: int, offset: int | None, broker: AdminClient) -> None:
    """Show dead letters of GROUP of TOPIC and why they failed."""
    names = {"topic": topic, "group": group}
    found = broker.current(f"{PATH}/letters", **names, limit=count, offset=offset)
    print_result(found, _letters(found))


def _letters(found: Document) -> str:
    if not found["items"]:
        return "no dead letters; penstock dlq list shows the groups with some"
    head = ("OFFSET", "TIME", "ATTEMPTS", "REASON", "PAYLOAD")
    rest = found["letters"] - len(found["items"])
    more = f"\n... {found['letters']:,} in total" if rest > 0 else ""
    return columns([head, *map(_row, found["items"])]) + more


def _row(letter: Document) -> tuple[str, ...]:
    return (
        str(letter["offset"]),
        format_time(letter["time"]),
        str(letter["attempts"]),
        printable(letter["reason"], PREVIEW_CHARACTERS) or "-",
        payload_text(letter["payload"], PREVIEW_CHARACTERS),
    )


@dlq.command()
@click.argument("topic", shell_complete=names.topics)
@click.argument("group", shell_complete=names.groups)
@click.option("-n", "--max", "most", type=click.IntRange(1), help="Maximum number of letters.")
@admin_options
def redrive(topic: str, group: str, *, most: int | None, broker: AdminClient) -> None:
    """Send dead letters of GROUP back to the end of TOPIC, oldest first.

    Every group of TOPIC receives them, like any new message.
    """
    available = _count(broker, topic, group)
    sent, left = _moved(broker, "redrive", topic, group, min(available, most or available))
    outcome = {"topic": topic, "group": group, "redriven": sent, "left": left}
    text = f"sent {counted(sent, 'letter')} back to {printable(topic)}; {left:,} left"
    text = text if available else "there are no dead letters to send back"
    print_result(outcome, text)


_DONE: Final = {"redrive": "sent back", "delete": "dropped"}


def _moved(broker: AdminClient, what: str, topic: str, group: str, total: int) -> tuple[int, int]:
    """Redrive or delete so many letters: how many went, and how many are left."""
    moved = left = 0
    while moved < total:
        count = min(total - moved, REDRIVEN_AT_ONCE)
        try:
            answer = broker.post(f"{PATH}/{what}", topic=topic, group=group, max=count)
        except PenstockError as error:
            so_far = f"{_so_far(what, moved)}, then {error.message}"
            raise PenstockError(so_far, error.advice) from error
        moved, left = moved + answer["moved"], answer["left"]
        if total > REDRIVEN_AT_ONCE and sys.stderr.isatty():
            text = f"\r{_DONE[what]} {moved:,} of {total:,}"
            click.echo(text, err=True, nl=moved >= total)
        if answer["refused"]:
            raise PenstockError(f"{_so_far(what, moved)}, then: {answer['refused']}")
        if not answer["moved"]:
            break
    return moved, left


def _so_far(what: str, moved: int) -> str:
    letters = counted(moved, "letter")
    return f"sent {letters} back" if what == "redrive" else f"dropped {letters}"


def _count(broker: AdminClient, topic: str, group: str) -> int:
    found = broker.current(f"{PATH}/letters", topic=topic, group=group, limit=1)
    return int(found["letters"])


@dlq.command()
@click.argument("topic", shell_complete=names.topics)
@click.argument("group", shell_complete=names.groups)
@yes_option
@admin_options
def drop(topic: str, group: str, *, broker: AdminClient) -> None:
    """Discard all dead letters of GROUP of TOPIC permanently."""
    available = _count(broker, topic, group)
    if available:
        name = f"{printable(group)} of {printable(topic)}"
        confirm(f"Drop {counted(available, 'dead letter')} of {name}?")
    dropped, left = _moved(broker, "delete", topic, group, available)
    outcome = {"topic": topic, "group": group, "dropped": dropped, "left": left}
    print_result(outcome, f"dropped {counted(dropped, 'dead letter')}")
