"""Rebuilds the broker's state on a start: the checkpoint's rows, then every entry after it."""

from collections.abc import Iterator

from penstock.commit.erasing import erase_leftover
from penstock.commit.replay import commands_of
from penstock.core.broker import Broker
from penstock.core.commands import Erased, Trimmed
from penstock.core.effects import Effects
from penstock.core.tables import tables_of
from penstock.obs.progress import ProgressLog
from penstock.store.store import Store
from penstock.trust.replay import AHEAD_MS_MAX

SIGNED_AT_ONCE = 1_000  # messages searched at a time for the time of their signature

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


def signed_until_ms(store: Store) -> int:
    """The latest signing time of the messages accepted before this start.

    Nonces are not kept across a start, so signatures up to that time must not be accepted again.
    Clients' clocks may be ahead by at most ``AHEAD_MS_MAX``, which bounds the search.
    """
    latest = newest_ms = 0
    end = store.next_sequence
    for _ in range(SIGNED_SEARCHES_MAX):
        sequences = range(max(1, end - SIGNED_AT_ONCE), end)
        found = [message for message in store.read(sequences) if message is not None]
        if not found:
            return latest
        newest_ms = newest_ms or found[-1].time_ms
        signatures = [m.extras.signature for m in found if m.extras and m.extras.signature]
        latest = max([latest, *(signature.signed_ms for signature in signatures)])
        if found[0].time_ms < newest_ms - AHEAD_MS_MAX or found[0].sequence == 1:
            return latest
        end = found[0].sequence
    return newest_ms + AHEAD_MS_MAX  # too many to search: an upper bound
