"""``penstock topics``: which there are, one of them, their tree, the busiest; deleting one.

The list is of the queue protocol, which also tells how many groups a topic has, and asks the leader
of a cluster; all else is the API's.
"""

import os
import re
from typing import TYPE_CHECKING, Final

import click
import msgspec

from penstock.cli import names
from penstock.cli.admin_client import AdminClient, Document, admin_options, stale_option
from penstock.cli.connection import BrokerTarget, checked_filters, connection_options
from penstock.cli.inputs import confirm, flag, is_given, yes_option
from penstock.cli.lazy import ListingGroup
from penstock.cli.output import (
    columns,
    counted,
    format_time,
    json_option,
    payload_text,
    print_result,
    table,
)
from penstock.cli.paged import first_page, limit_option
from penstock.cli.progress import size_text
from penstock.core.subscriptions import SubscriptionTrie
from penstock.model.topic import has_wildcard
from penstock.obs.printable import printable

if TYPE_CHECKING:  # loads protobuf
    from penstock.client import Topic

PATH: Final = "topics"
VALUE_CHARACTERS: Final = 60


@click.group(cls=ListingGroup)
def topics() -> None:
    """List, show and delete topics, or show their tree.

    Without a command it lists: penstock topics [PREFIX|FILTER].
    """


# ── list


def _checked_prefix(context: click.Context, parameter: click.Parameter, wanted: str) -> str:
    if _is_filter(wanted):
        checked_filters(context, parameter, (wanted,))
    return wanted


@topics.command("list")
@click.argument(
    "wanted",
    default="",
    metavar="[PREFIX|FILTER]",
    callback=_checked_prefix,
    shell_complete=names.topics,
)
@connection_options
@json_option
@stale_option
def list_topics(wanted: str, *, target: BrokerTarget) -> None:
    """List topics with their messages, bytes and offsets.

    All of them, or those whose names begin with PREFIX, or that match FILTER (with + or #).
    """
    with target.queue(stale_reads=is_given("--stale")) as client:
        found = _matching(client.topics(_common_prefix(wanted)), wanted)
    items = list(map(msgspec.structs.asdict, found))
    print_result({"items": items, "more": False, "incomplete": []}, _table(found, wanted))


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


# ── show


@topics.command()
@click.argument("name", metavar="TOPIC", shell_complete=names.topics)
@admin_options
def show(name: str, *, broker: AdminClient) -> None:
    """Show what TOPIC holds and who gets its messages."""
    found = broker.get(f"{PATH}/detail", name=name)
    parts = [columns(_facts(found))]
    if found["groups"]:
        head = ("GROUP", "POSITION", "LAG", "CONSUMERS")
        parts.append(table(head, map(_group_row, found["groups"]), ""))
    print_result(found, "\n\n".join(parts))


def _facts(found: Document) -> list[tuple[str, str]]:
    end = found["next_offset"] - 1
    offsets = f", offsets {found['first_offset']:,} to {end:,}" if found["messages"] else ""
    matches = found["matches"]
    away = f" ({matches['away']:,} away)" if matches["away"] else ""
    return [
        ("topic", printable(found["name"], 400)),
        ("messages", f"{found['messages']:,}, {size_text(found['bytes'])}{offsets}"),
        ("created", format_time(found["created"])),
        ("last message", format_time(found["last_time"])),
        ("rate", f"{found['rate_per_s']:,.1f}/s"),
        ("retained", "there is a retained message" if found["retained"] else "no"),
        ("signatures", "required" if found["signature_required"] else "not required"),
        ("capture", found["capture"]["text"]),
        ("sessions", f"{matches['sessions']:,} subscribed{away}"),
        ("others", f"{counted(matches['live'], 'subscriber')} by other protocols"),
    ]


def _group_row(group: Document) -> tuple[str, ...]:
    numbers = (f"{group[name]:,}" for name in ("position", "lag", "consumers"))
    return printable(group["group"], 400), *numbers


# ── tree, busiest


def _level(_context: click.Context, _parameter: click.Parameter, prefix: str) -> str:
    return prefix if not prefix or prefix.endswith("/") else f"{prefix}/"


@topics.command()
@click.argument("prefix", default="", callback=_level)
@limit_option
@admin_options
def tree(prefix: str, *, limit: int, broker: AdminClient) -> None:
    """List the names of one level, below PREFIX.

    Each with its newest message. Without PREFIX, those of the first level.
    """
    page = first_page(broker, f"{PATH}/tree", limit, prefix=prefix or None, values=True)
    empty = f"no topic is below {printable(prefix)}" if prefix else "no topics"
    head = ("NAME", "TOPICS BELOW", "MESSAGES", "NEWEST")
    print_result(page.document, page.text(table(head, map(_tree_row, page.items), empty)))


def _tree_row(node: Document) -> tuple[str, ...]:
    below = f"{node['children']:,}{' or more' if node['children_capped'] else ''}"
    last = node["last"]
    return (
        printable(node["name"], 400) + ("/" if node["children"] else ""),
        below if node["children"] else "-",
        f"{node['messages']:,}" if node["is_topic"] else "-",
        payload_text(last["payload"], VALUE_CHARACTERS) if last else "-",
    )


@topics.command()
@admin_options
def busiest(broker: AdminClient) -> None:
    """List the topics of the newest 10,000 messages."""
    found = broker.get(f"{PATH}/busiest")
    head = ("TOPIC", "MESSAGES", "SHARE", "RATE", "BYTES")
    print_result(found, table(head, map(_busy_row, found["items"]), "no messages"))


def _busy_row(one: Document) -> tuple[str, ...]:
    share, rate = f"{one['share']:.0%}", f"{one['rate_per_s']:,.1f}/s"
    return printable(one["name"], 400), f"{one['messages']:,}", share, rate, f"{one['bytes']:,}"


# ── delete


@topics.command()
@click.argument("name", metavar="TOPIC", shell_complete=names.topics)
@flag("--dry-run", help="Only show what would be removed.")
@yes_option
@admin_options
def delete(name: str, *, broker: AdminClient) -> None:
    """Delete TOPIC with its messages, groups and settings.

    A retained message stays: penstock retained clear removes it.
    """
    found = broker.change("DELETE", PATH, name=name, dry_run=True)
    what = f"{printable(name)} with {counted(found['messages'], 'message')}"
    what += f" and {counted(len(found['groups']), 'group')}"
    if is_given("--dry-run"):
        print_result(found, f"would delete {what}")
        return
    confirm(f"Delete {what}?")
    print_result(broker.change("DELETE", PATH, name=name), f"deleted {what}")
