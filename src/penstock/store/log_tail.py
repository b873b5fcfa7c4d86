"""The log: the journal as the nodes of a cluster agree on it.

Log entries are journal entries, in the same database, under the same keys. Those that are not
committed yet are its **tail**: no read sees them, and they may be replaced. ``LmdbStore.apply``
makes them visible. Beside the log, ``meta`` has one **record**: the commit index, and whatever
consensus stores with it.
"""

import struct
from collections.abc import Sequence
from zlib import crc32

from penstock.errors import StorageDamaged
from penstock.store.batch import Batch
from penstock.store.entry import Entry, decode, encode
from penstock.store.environment import Environment, Transaction
from penstock.store.journal import JournalCursor, broken_order
from penstock.store.keys import journal_key
from penstock.store.store import LogEntry
from penstock.store.topics_ahead import TopicsAhead

RECORD_KEY = b"raft"

_RECORD = struct.Struct("<IIQ")  # checksum, zero, committed
_ALL = (1 << 64) - 1  # the whole log is committed

EMPTY_ENTRY_BYTES = len(encode(Batch(), 0, 0, []))


def wrapped(entry: LogEntry, base_sequence: int) -> Entry:
    """A log entry as a journal entry; raises StorageDamaged if it cannot be one."""
    if entry.kind or not entry.data:
        batch = Batch()
        if entry.kind:
            batch.configuration = (entry.kind, entry.data)
        return decode(encode(batch, entry.index, base_sequence, []), verify=False)
    found = decode(entry.data)
    if (found.index, found.base_sequence) != (entry.index, base_sequence):
        what = f"is entry {found.index} from sequence {found.base_sequence} on, not {base_sequence}"
        raise broken_order(entry.index, what)
    return found


def log_entry(entry: Entry) -> LogEntry:
    if len(entry.buffer) == EMPTY_ENTRY_BYTES:
        return LogEntry(entry.index, 0, b"")
    change = entry.configuration
    if change is not None:
        return LogEntry(entry.index, *change)
    return LogEntry(entry.index, 0, bytes(entry.buffer))


class LogTail:
    """Entries that are in the log but not applied; the writer thread changes it."""

    def __init__(self, index: int, sequence: int) -> None:
        self._applied_index = index
        self._applied_sequence = sequence
        self.entries: list[Entry] = []
        self._ahead = TopicsAhead()

    @property
    def last_index(self) -> int:
        """The last entry of the log. Any thread."""
        entries = self.entries
        return entries[-1].index if entries else self._applied_index

    @property
    def next_index(self) -> int:
        return self.last_index + 1

    @property
    def next_sequence(self) -> int:
        return self.entries[-1].end_sequence if self.entries else self._applied_sequence

    def ahead(self, batch: Batch) -> TopicsAhead | None:
        """The topics of the tail, for a batch that is to follow it; None: it has none."""
        if not self.entries:
            return None
        assert not batch.drops, "topics are dropped only when all of the log is applied"
        self._ahead.follow(self.entries)
        return self._ahead

    def joined(self, entries: Sequence[LogEntry]) -> tuple[list[Entry], list[Entry]]:
        """The tail after ``entries`` have replaced its end, and the new part; changes nothing."""
        kept, sequence = self._before(entries[0].index)
        fresh: list[Entry] = []
        for entry in entries:
            fresh.append(wrapped(entry, sequence))
            sequence = fresh[-1].end_sequence
        return kept + fresh, fresh

    def _before(self, index: int) -> tuple[list[Entry], int]:
        """The tail before an entry, and the sequence with which that entry begins."""
        if not self._applied_index < index <= self.last_index + 1:
            raise broken_order(index, f"cannot follow entry {self.last_index} of the log")
        kept = self.entries[: index - self._applied_index - 1]
        return kept, kept[-1].end_sequence if kept else self._applied_sequence

    def cut(self, index: int) -> list[Entry]:
        return [entry for entry in self.entries if entry.index >= index]

    def applied(self, index: int, sequence: int) -> None:
        kept = [entry for entry in self.entries if entry.index > index]
        self._applied_index, self._applied_sequence, self.entries = index, sequence, kept


def read_tail(journal: JournalCursor, index: int) -> list[Entry]:
    return [decode(bytes(entry.buffer), verify=False) for entry in journal.after(index)]


def put_tail(
    environment: Environment, transaction: Transaction, cut: Sequence[Entry], fresh: Sequence[Entry]
) -> None:
    journal = environment["journal"]
    for entry in cut:
        transaction.delete(journal_key(entry.base_sequence, entry.index), db=journal)
    for entry in fresh:
        key = journal_key(entry.base_sequence, entry.index)
        transaction.put(key, entry.buffer, db=journal, append=True)


def get_record(
    environment: Environment, transaction: Transaction
) -> tuple[bytes | None, int | None]:
    """The record, and the commit index (None: the whole log); raises StorageDamaged."""
    found = transaction.get(RECORD_KEY, db=environment["meta"])
    if found is None:
        return None, None
    if len(found) >= _RECORD.size:
        checksum, _, committed = _RECORD.unpack_from(found)
        if crc32(found[4:], crc32(bytes(4))) == checksum:
            return bytes(found[_RECORD.size :]), None if committed == _ALL else committed
    raise StorageDamaged(
        "the record of the cluster in the database is damaged",
        "Restore the data directory from a backup, or let the node join again with another id.",
    )


def put_record(
    environment: Environment, transaction: Transaction, record: bytes, committed: int | None
) -> None:
    number = _ALL if committed is None else committed
    content = _RECORD.pack(0, 0, number) + record
    checked = struct.pack("<I", crc32(content)) + content[4:]
    transaction.put(RECORD_KEY, checked, db=environment["meta"])
