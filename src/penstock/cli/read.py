"""``penstock topics`` and ``penstock read``: what the journal contains."""

import os
import re
from itertools import islice
from typing import TYPE_CHECKING

import click
import msgspec

from penstock.cli.admin_client import stale_option
from penstock.cli.connection import BrokerTarget, checked_filters, connection_options
from penstock.cli.inputs import flag, is_given
from penstock.cli.interrupts import discard_output
from penstock.cli.journal_reader import JournalReader, StartPosition, start_options
from penstock.cli.message_lines import record_json, record_text
from penstock.cli.output import columns, json_option, print_result, wants_json
from penstock.core.subscriptions import SubscriptionTrie
from penstock.errors import PenstockError
from penstock.model.topic import has_wildcard
from penstock.obs.log import printable

if TYPE_CHECKING:  # loads protobuf
    from penstock.client import Topic


@click.command()
@click.argument("filters", nargs=-1, required=True, metavar="FILTER...", callback=checked_filters)
@connection_options
@start_options
@click.option(
    "--last", type=click.IntRange(min=1), metavar="COUNT", help="The last COUNT of each topic."
)
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after COUNT messages.")
@flag("--json", help="Print a JSON object per message.")
@stale_option
def read(
    filters: tuple[str, ...],
    *,
    target: BrokerTarget,
    begin: int | None,
    since: float | None,
    last: int | None,
    count: int | None,
) -> None:
    """Print the messages of topics that match FILTERs, as `topic payload`, one per line.

    In journal order, from the oldest message unless an option says otherwise. Nothing is consumed.
    `penstock sub --from` also prints new messages.
    """
    if sum(option is not None for option in (begin, since, last)) > 1:
        raise click.UsageError("give only one of --from, --since and --last")
    show = record_json if wants_json() else record_text
    is_empty = True
    try:
        with target.queue(stale_reads=is_given("--stale")) as client:
            stored = JournalReader(client, filters, StartPosition(begin or 0, since, last)).stored()
            for record in islice(stored, count):
                is_empty = False
                click.echo(show(record))
            if is_empty and not client.changes(filters).topics:
                what = f"no topic matches {' '.join(filters)}"
                raise PenstockError(what, "penstock topics lists all topics")
    except BrokenPipeError:
        discard_output()


def _checked_prefix(context: click.Context, parameter: click.Parameter, wanted: str) -> str:
    if _is_filter(wanted):
        checked_filters(context, parameter, (wanted,))
    return wanted


@click.command()
@click.argument("wanted", default="", metavar="[PREFIX|FILTER]", callback=_checked_prefix)
@connection_options
@json_option
@stale_option
def topics(wanted: str, *, target: BrokerTarget) -> None:
    """List topics with their messages, bytes and offsets.

    All of them, or those whose names begin with PREFIX, or that match FILTER (with + or #).
    """
    with target.queue(stale_reads=is_given("--stale")) as client:
        found = _matching(client.topics(_common_prefix(wanted)), wanted)
    print_result(list(map(msgspec.structs.asdict, found)), _table(found, wanted))


def _is_filter(wanted: str) -> bool:
    return has_wildcard(os.fsencode(wanted))


def _common_prefix(wanted: str) -> str:
    """The prefix of all matching names; "a/#" also matches "a"."""
    if not _is_filter(wanted):
        return wanted
    return re.split("[+#]", wanted, maxsplit=1)[0].removesuffix("/")


def _matching(found: "list[Topic]", wanted: str) -> "list[Topic]":
    if not _is_filter(wanted):
        return found
    trie: SubscriptionTrie[None] = SubscriptionTrie()
    trie.subscribe(wanted.encode(), None, 0)
    return [topic for topic in found if trie.match(topic.name.encode())]


def _table(found: "list[Topic]", wanted: str) -> str:
    if not found and wanted:
        how = "matches" if _is_filter(wanted) else "begins with"
        return f"no topic {how} {printable(wanted, 400)}; penstock topics lists all"
    if not found:
        return "no topics; penstock pub TOPIC MESSAGE creates one"
    head = ("TOPIC", "MESSAGES", "BYTES", "OFFSETS", "GROUPS")
    return columns([head, *map(_row, found)])


def _row(topic: "Topic") -> tuple[str, ...]:
    offsets = f"{topic.first_offset:,} to {topic.end_offset - 1:,}" if topic.messages else "none"
    name = printable(topic.name, 400)
    return name, f"{topic.messages:,}", f"{topic.bytes:,}", offsets, f"{topic.groups:,}"
