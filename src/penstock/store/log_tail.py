"""The log: the journal as several nodes agree upon it.

Entries of the log are entries of the journal, in the same database, under the same keys. Those that
are not agreed upon yet are its **tail**: nobody reads them, no topic knows of them, and they may be
replaced. ``LmdbStore.apply`` makes them part of what is read. What a log needs and a journal does
not (an entry that holds nothing, one that changes who has a say) is wrapped as an entry here, and
unwrapped for whoever asks for it.

Beside the log stands one **record** in ``meta``: how far the log is committed, and whatever those
who agree want to have remembered with it.
"""

import struct
from collections.abc import Sequence
from zlib import crc32

import msgspec

from penstock.errors import StorageDamaged
from penstock.store.batch import Batch
from penstock.store.entry import decode, encode
from penstock.store.environment import Environment, Transaction
from penstock.store.journal import JournalCursor, broken_order
from penstock.store.keys import journal_key
from penstock.store.store import LogEntry

RECORD_KEY = b"raft"

_RECORD = struct.Struct("<IIQ")  # checksum, zero, committed
_ALL = (1 << 64) - 1
"""Committed: whatever is in the log."""

EMPTY_ENTRY_BYTES = len(encode(Batch(), 0, 0, []))


class TailEntry(msgspec.Struct, frozen=True, gc=False):
    """An entry that is in the log, but not applied."""

    index: int
    base_sequence: int
    end_sequence: int
    data: bytes
    """As it lies in the journal."""


def wrapped(entry: LogEntry, base_sequence: int) -> TailEntry:
    """An entry of the log as one of the journal; raises StorageDamaged if it cannot be that."""
    if entry.kind or not entry.data:
        batch = Batch()
        if entry.kind:
            batch.configuration = (entry.kind, entry.data)
        data = encode(batch, entry.index, base_sequence, [])
        return TailEntry(entry.index, base_sequence, base_sequence, data)
    found = decode(entry.data)
    if (found.index, found.base_sequence) != (entry.index, base_sequence):
        where = (
            f"is entry {found.index} from sequence {found.base_sequence} on, not {base_sequence}"
        )
        raise broken_order(entry.index, where)
    return TailEntry(entry.index, base_sequence, found.end_sequence, entry.data)


def log_entry(data: bytes) -> LogEntry:
    """An entry of the journal as one of the log: the inverse of ``wrapped``."""
    entry = decode(data, verify=False)
    if len(data) == EMPTY_ENTRY_BYTES:
        return LogEntry(entry.index, 0, b"")
    change = entry.configuration
    if change is not None:
        return LogEntry(entry.index, *change)
    return LogEntry(entry.index, 0, data)


class LogTail:
    """What is in the log and not applied; the writer thread changes it."""

    def __init__(self, index: int, sequence: int) -> None:
        self._applied_index = index
        self._applied_sequence = sequence
        self.entries: list[TailEntry] = []

    @property
    def last_index(self) -> int:
        """The last entry of the log. Any thread."""
        entries = self.entries
        return entries[-1].index if entries else self._applied_index

    def before(self, index: int) -> tuple[list[TailEntry], int]:
        """What is left of the tail before an entry, and the sequence that this one begins with."""
        if not self._applied_index < index <= self.last_index + 1:
            raise broken_order(index, f"can not follow entry {self.last_index} of the log")
        kept = self.entries[: index - self._applied_index - 1]
        return kept, kept[-1].end_sequence if kept else self._applied_sequence

    def joined(self, entries: Sequence[LogEntry]) -> tuple[list[TailEntry], list[TailEntry]]:
        """The tail once ``entries`` have replaced what it has from the first of them on.

        Also those of them, as they are to be put into the journal.
        """
        kept, sequence = self.before(entries[0].index)
        fresh: list[TailEntry] = []
        for entry in entries:
            fresh.append(wrapped(entry, sequence))
            sequence = fresh[-1].end_sequence
        return kept + fresh, fresh

    def cut(self, index: int) -> list[TailEntry]:
        """Entries of the tail from this one on: they are to be deleted."""
        return [entry for entry in self.entries if entry.index >= index]

    def applied(self, index: int, sequence: int) -> None:
        """Everything up to an entry is applied."""
        kept = [entry for entry in self.entries if entry.index > index]
        self._applied_index, self._applied_sequence, self.entries = index, sequence, kept


def read_tail(journal: JournalCursor, index: int) -> list[TailEntry]:
    """The entries after ``index``, as a start finds them."""
    return [
        TailEntry(entry.index, entry.base_sequence, entry.end_sequence, bytes(entry.buffer))
        for entry in journal.after(index)
    ]


def put_tail(
    environment: Environment,
    transaction: Transaction,
    cut: Sequence[TailEntry],
    fresh: Sequence[TailEntry],
) -> None:
    """Replace entries at the end of the journal."""
    journal = environment["journal"]
    for entry in cut:
        transaction.delete(journal_key(entry.base_sequence, entry.index), db=journal)
    for entry in fresh:
        key = journal_key(entry.base_sequence, entry.index)
        transaction.put(key, entry.data, db=journal, append=True)


def get_record(
    environment: Environment, transaction: Transaction
) -> tuple[bytes | None, int | None]:
    """The record, and how far the log is committed (None: all of it); raises StorageDamaged."""
    found = transaction.get(RECORD_KEY, db=environment["meta"])
    if found is None:
        return None, None
    if len(found) >= _RECORD.size:
        checksum, _, committed = _RECORD.unpack_from(found)
        if crc32(found[4:], crc32(bytes(4))) == checksum:
            return bytes(found[_RECORD.size :]), None if committed == _ALL else committed
    raise StorageDamaged(
        "the record of the cluster in the database is damaged",
        "Restore the data directory from a backup, or let the node join anew under another id.",
    )


def put_record(
    environment: Environment, transaction: Transaction, record: bytes, committed: int | None
) -> None:
    """Write the record."""
    number = _ALL if committed is None else committed
    content = _RECORD.pack(0, 0, number) + record
    checked = struct.pack("<I", crc32(content)) + content[4:]
    transaction.put(RECORD_KEY, checked, db=environment["meta"])
