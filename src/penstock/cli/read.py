"""``penstock topics`` and ``penstock read``: what the journal has, by the queue protocol."""

import os
import re
from itertools import islice
from typing import TYPE_CHECKING

import click
import msgspec

from penstock.cli.admin_client import json_option, print_result, stale_flag
from penstock.cli.columns import columns
from penstock.cli.connection import (
    CONTEXT,
    checked_filters,
    connection_options,
    queue_client,
)
from penstock.cli.interrupts import discard_output
from penstock.cli.journal_reader import JournalReader, StartPosition, start_options
from penstock.cli.message_lines import record_json, record_text
from penstock.config.address import Address
from penstock.core.subscriptions import SubscriptionTrie
from penstock.errors import PenstockError
from penstock.model.topic import has_wildcard
from penstock.obs.log import printable

if TYPE_CHECKING:
    from penstock.client import Topic


@click.command(context_settings=CONTEXT)
@click.argument("filters", nargs=-1, required=True, metavar="FILTER...", callback=checked_filters)
@connection_options
@start_options
@click.option("--last", type=click.IntRange(min=1), metavar="COUNT", help="The last of each topic.")
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after COUNT messages.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per message.")
@stale_flag
def read(
    filters: tuple[str, ...],
    *,
    host: str,
    port: int,
    begin: int | None,
    since: float | None,
    last: int | None,
    count: int | None,
    as_json: bool,
    is_stale_fine: bool,
) -> None:
    """Print what topics hold that match FILTERs, as `topic payload`, a line per message.

    In the order in which they were journaled; all of them, unless an option says where to begin.
    Nothing is taken from anybody. `penstock sub --from` goes on with what comes.
    """
    if sum(option is not None for option in (begin, since, last)) > 1:
        raise click.UsageError("give only one of --from, --since and --last")
    show = record_json if as_json else record_text
    is_empty = True
    try:
        with queue_client(Address(host, port), stale_reads=is_stale_fine) as client:
            held = JournalReader(client, filters, StartPosition(begin or 0, since, last)).held()
            for record in islice(held, count):
                is_empty = False
                click.echo(show(record))
            if is_empty and not client.changes(filters).topics:
                raise PenstockError(
                    f"no topic matches {' '.join(filters)}", "penstock topics lists what there is"
                )
    except BrokenPipeError:
        discard_output()


def _checked_prefix(context: click.Context, parameter: click.Parameter, wanted: str) -> str:
    if _is_filter(wanted):
        checked_filters(context, parameter, (wanted,))
    return wanted


@click.command(context_settings=CONTEXT)
@click.argument("wanted", default="", metavar="[PREFIX|FILTER]", callback=_checked_prefix)
@connection_options
@json_option
@stale_flag
def topics(wanted: str, *, host: str, port: int, as_json: bool, is_stale_fine: bool) -> None:
    """List topics with their messages, bytes and offsets.

    Only those whose names begin with PREFIX, or that match FILTER, which has + or #, if one is
    given.
    """
    with queue_client(Address(host, port), stale_reads=is_stale_fine) as client:
        found = _matching(client.topics(_beginning(wanted)), wanted)
    print_result(list(map(msgspec.structs.asdict, found)), _table(found, wanted), as_json=as_json)


def _is_filter(wanted: str) -> bool:
    return has_wildcard(os.fsencode(wanted))


def _beginning(wanted: str) -> str:
    """What the names of all wanted topics begin with; "a/#" matches "a", too."""
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
        return "no topics; penstock pub TOPIC MESSAGE makes one"
    head = ("TOPIC", "MESSAGES", "BYTES", "OFFSETS", "GROUPS")
    return columns([head, *map(_row, found)])


def _row(topic: "Topic") -> tuple[str, ...]:
    offsets = f"{topic.first_offset:,} to {topic.end_offset - 1:,}" if topic.messages else "none"
    name = printable(topic.name, 400)
    return name, f"{topic.messages:,}", f"{topic.bytes:,}", offsets, f"{topic.groups:,}"
