"""Rebuilds the broker's state on a start: the checkpoint's rows, then every entry after it."""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.commit.erasing import erase_leftover
from penstock.commit.replay import commands_of
from penstock.core.broker import Broker
from penstock.core.commands import Erased, Trimmed
from penstock.core.effects import Effects
from penstock.core.tables import tables_of
from penstock.model.message import Message, Signature
from penstock.obs.progress import ProgressLog
from penstock.store.store import Store
from penstock.trust.replay import AHEAD_MS_MAX

SIGNED_AT_ONCE = 1_000  # messages searched at a time for signatures

SIGNED_SEARCHES_MAX = 50


def recover(store: Store, broker: Broker) -> None:
    """Load all rows, then apply the entries after the checkpoint without carrying out effects."""

    def rows(table: str) -> Iterator[tuple[bytes, bytes]]:
        return ProgressLog(f"loading {table}").each(store.rows(table))

    for table in tables_of(broker):
        table.load(rows)
    broker.begin_recovery()
    erasing = _replay(store, broker)
    broker.index = store.next_index - 1
    broker.settle_recovery()
    erase_leftover(store, erasing)


def _replay(store: Store, broker: Broker) -> list[Trimmed | Erased]:
    """Apply the entries after the checkpoint; return the deletions, which may be unfinished."""
    discarded = Effects()
    erasing: list[Trimmed | Erased] = []
    for entry in ProgressLog("replaying entries after the checkpoint").each(store.replay()):
        broker.begin(entry.index, entry.base_sequence)
        for command in commands_of(entry):
            broker.apply(command, None, discarded)
            if isinstance(command, (Trimmed, Erased)):
                erasing.append(command)
        for topic, offset, count, producer, seq in entry.producers():
            broker.producers.note(topic, producer, seq, offset, count)
    return erasing


class SignedBefore(NamedTuple):
    """What the journal tells about signatures that were accepted before this start."""

    signatures: list[Signature]
    known_from_ms: int  # all that were signed at this time or later are among them


def signed_before(store: Store, now_ms: int, window_ms: int) -> SignedBefore:
    """Signatures that might be presented again, read from the newest messages of the journal.

    A message is accepted at most ``AHEAD_MS_MAX`` before the time of its signature. So if all
    messages from some time on are known, so are all signatures from that time plus
    ``AHEAD_MS_MAX`` on. The search ends where the window does, at a message that retention has
    removed, or after many: then older signatures are refused, for nobody knows them.
    """
    found: list[Signature] = []
    oldest_ms = now_ms
    for messages in _backwards(store):
        for message in reversed(messages):
            if message is None:
                return SignedBefore(found, oldest_ms + AHEAD_MS_MAX + 1)
            oldest_ms = message.time_ms
            if message.extras and message.extras.signature:
                found.append(message.extras.signature)
        if oldest_ms < now_ms - window_ms - AHEAD_MS_MAX:
            return SignedBefore(found, 0)
    is_complete = store.next_sequence - 1 <= SIGNED_AT_ONCE * SIGNED_SEARCHES_MAX
    return SignedBefore(found, 0 if is_complete else oldest_ms + AHEAD_MS_MAX + 1)


def _backwards(store: Store) -> Iterator[list[Message | None]]:
    """The newest messages, slice by slice, newest slice first."""
    end = store.next_sequence
    for _ in range(SIGNED_SEARCHES_MAX):
        if end > 1:
            first = max(1, end - SIGNED_AT_ONCE)
            yield store.read(range(first, end))
            end = first
