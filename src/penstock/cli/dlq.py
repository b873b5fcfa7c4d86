"""``penstock dlq``: messages that failed too often.

Redriving takes several requests. The number of letters is fixed at the start: those that fail again
in the meantime, and return, are left for the next time.
"""

import sys

import click

from penstock.cli.admin_client import AdminClient, Document, admin_options, stale_option
from penstock.cli.inputs import confirm, count_option, yes_option
from penstock.cli.lazy import CommandGroup
from penstock.cli.output import columns, counted, format_time, print_result, table
from penstock.errors import PenstockError
from penstock.obs.log import printable

REDRIVEN_AT_ONCE = 1_000  # letters per request: shows progress, and no response takes long
PREVIEW_CHARACTERS = 60


@click.group(cls=CommandGroup)
def dlq() -> None:
    """Inspect, redrive and drop dead letters."""


@dlq.command(name="list", context_settings={"allow_extra_args": True})
@admin_options
@stale_option
@click.pass_context
def list_letters(context: click.Context, broker: AdminClient) -> None:
    """List the groups with dead letters."""
    if context.args:
        names = " ".join(context.args) if len(context.args) > 1 else f"{context.args[0]} GROUP"
        raise click.UsageError(f"list takes no names; to show letters: penstock dlq show {names}")
    found = list(broker.pages("/dlq", "dead_letters", after={"after": "letters_topic"}))
    rows = [
        (printable(row["topic"], 400), printable(row["group"], 400), f"{row['letters']:,}")
        for row in found
    ]
    head = ("TOPIC", "GROUP", "LETTERS")
    print_result(found, table(head, rows, "there are no dead letters"))


@dlq.command()
@click.argument("topic")
@click.argument("group")
@count_option(1_000)
@click.option("--offset", type=click.IntRange(0), help="First offset; by default the oldest.")
@admin_options
@stale_option
def show(topic: str, group: str, *, count: int, offset: int | None, broker: AdminClient) -> None:
    """Show dead letters of GROUP of TOPIC and why they failed."""
    found = broker.get("/dlq/letters", topic=topic, group=group, limit=count, offset=offset)
    print_result(found, _letters(found))


def _letters(found: Document) -> str:
    if not found["shown"]:
        return "no dead letters; penstock dlq list shows the groups with some"
    head = ("OFFSET", "TIME", "ATTEMPTS", "REASON", "PAYLOAD")
    rest = found["letters"] - len(found["shown"])
    more = f"\n... {found['letters']:,} in total" if rest > 0 else ""
    return columns([head, *map(_row, found["shown"])]) + more


def _row(letter: Document) -> tuple[str, ...]:
    return (
        str(letter["offset"]),
        format_time(letter["time"]),
        str(letter["attempts"]),
        printable(letter["reason"], PREVIEW_CHARACTERS) or "-",
        printable(letter.get("payload", "(not text)"), PREVIEW_CHARACTERS),
    )


@dlq.command()
@click.argument("topic")
@click.argument("group")
@click.option("-n", "--max", "most", type=click.IntRange(1), help="Maximum number of letters.")
@admin_options
def redrive(topic: str, group: str, *, most: int | None, broker: AdminClient) -> None:
    """Send dead letters of GROUP back to the end of TOPIC, oldest first.

    Every group of TOPIC receives them, like any new message.
    """
    available = _count(broker, topic, group)
    sent, left = _redrive(broker, topic, group, min(available, most or available))
    outcome = {"topic": topic, "group": group, "redriven": sent, "left": left}
    text = f"sent {counted(sent, 'letter')} back to {printable(topic)}; {left:,} left"
    text = text if available else "there are no dead letters to send back"
    print_result(outcome, text)


def _redrive(broker: AdminClient, topic: str, group: str, total: int) -> tuple[int, int]:
    sent = left = 0
    while sent < total:
        count = min(total - sent, REDRIVEN_AT_ONCE)
        try:
            answer = broker.post("/dlq/redrive", topic=topic, group=group, max=count)
        except PenstockError as error:
            so_far = f"sent {counted(sent, 'letter')} back, then {error.message}"
            raise PenstockError(so_far, error.advice) from error
        sent, left = sent + answer["redriven"], answer["left"]
        if total > REDRIVEN_AT_ONCE and sys.stderr.isatty():
            click.echo(f"\rsent back {sent:,} of {total:,}", err=True, nl=sent >= total)
        if not answer["redriven"]:
            break
    return sent, left


def _count(broker: AdminClient, topic: str, group: str) -> int:
    return int(broker.get("/dlq/letters", topic=topic, group=group, limit=0)["letters"])


@dlq.command()
@click.argument("topic")
@click.argument("group")
@yes_option
@admin_options
def drop(topic: str, group: str, *, broker: AdminClient) -> None:
    """Discard all dead letters of GROUP of TOPIC permanently."""
    available = _count(broker, topic, group)
    if available:
        name = f"{printable(group)} of {printable(topic)}"
        confirm(f"Drop {counted(available, 'dead letter')} of {name}?")
    dropped = broker.delete("/dlq", topic=topic, group=group)
    print_result(dropped, f"dropped {counted(dropped['dropped'], 'dead letter')}")
