"""Finding entries by sequence or index, and iterating over them, within a given transaction."""

from collections.abc import Iterator

from penstock.errors import StorageDamaged
from penstock.store.entry import Entry, decode
from penstock.store.environment import Environment, Transaction
from penstock.store.keys import journal_key, unpack_journal_key

REMEMBERED_MAX = 4_096  # entries of one snapshot that a reader of many topics keeps decoded
VERIFIED_MAX = 65_536  # entries that are remembered as verified; others are verified again


class JournalCursor:
    """The journal in one snapshot; checksums are compared unless in ``verified`` (None: never)."""

    def __init__(
        self, environment: Environment, transaction: Transaction, verified: dict[int, None] | None
    ) -> None:
        self._cursor = transaction.cursor(environment["journal"])
        self._verified = verified

    def holding(self, sequence: int) -> Entry | None:
        """The entry that holds a sequence; None if it is gone or does not exist yet."""
        cursor = self._cursor
        found = cursor.prev() if cursor.set_range(journal_key(sequence + 1, 0)) else cursor.last()
        if not found:
            return None
        entry = self._entry()
        return entry if sequence < entry.end_sequence else None

    def reaching(self, sequence: int) -> Entry | None:
        """The first entry with messages that ends after a sequence."""
        entry = self.holding(sequence)
        if entry is not None:
            return entry
        found = self._cursor.set_range(journal_key(sequence + 1, 0))
        while found:
            entry = self._entry()
            if entry.count:
                return entry
            found = self._cursor.next()
        return None

    def at(self, base_sequence: int, index: int) -> Entry | None:
        return self._entry() if self._cursor.set_key(journal_key(base_sequence, index)) else None

    def after(self, index: int) -> Iterator[Entry]:
        found = self._cursor.set_range(self._key_after(index))
        while found:
            yield self._entry()
            found = self._cursor.next()

    def keys_after(self, index: int) -> Iterator[tuple[bytes, int]]:
        """Keys of the entries after ``index``, with the index of each."""
        found = self._cursor.set_range(self._key_after(index))
        while found:
            key = bytes(self._cursor.key())
            yield key, unpack_journal_key(key)[1]
            found = self._cursor.next()

    def each(self) -> Iterator[Entry | StorageDamaged]:
        """All entries; a damaged one is yielded as its error."""
        found = self._cursor.first()
        while found:
            try:
                yield self._entry()
            except StorageDamaged as error:
                yield error
            found = self._cursor.next()

    def following(self, entry: Entry) -> Entry | None:
        key = journal_key(entry.base_sequence, entry.index + 1)
        return self._entry() if self._cursor.set_range(key) else None

    def first(self) -> Entry | None:
        return self._entry() if self._cursor.first() else None

    def last(self) -> Entry | None:
        return self._entry() if self._cursor.last() else None

    def sample(self, count: int, next_sequence: int) -> None:
        oldest = self.first()
        if oldest is not None:
            span = next_sequence - oldest.base_sequence
            for number in range(count):
                self.holding(oldest.base_sequence + span * number // count)

    def _entry(self) -> Entry:
        base_sequence, index = unpack_journal_key(self._cursor.key())
        try:
            entry = decode(self._cursor.value(), verify=self._is_new(index))
        except StorageDamaged as error:
            raise StorageDamaged(f"entry {index}: {error.message}", error.advice) from error
        if (entry.base_sequence, entry.index) != (base_sequence, index):
            raise broken_order(index, f"is stored under the key of entry {entry.index}")
        self._remember(index)
        return entry

    def _is_new(self, index: int) -> bool:
        return self._verified is not None and index not in self._verified

    def _remember(self, index: int) -> None:
        if self._verified is None:
            return
        if len(self._verified) >= VERIFIED_MAX:
            self._verified.clear()
        self._verified[index] = None

    def _key_after(self, index: int) -> bytes:
        """The smallest possible key of entries after ``index``; both halves of keys ascend."""
        low, high = 0, self._last_base() + 1
        while high - low > 1:  # the first entry at or above `low` is not after `index`
            middle = (low + high) // 2
            if self._index_from(middle) <= index:
                low = middle
            else:
                high = middle
        return journal_key(low, index + 1)

    def _last_base(self) -> int:
        return int(unpack_journal_key(self._cursor.key())[0]) if self._cursor.last() else 0

    def _index_from(self, base_sequence: int) -> float:
        if not self._cursor.set_range(journal_key(base_sequence, 0)):
            return float("inf")
        return float(unpack_journal_key(self._cursor.key())[1])


class RememberingCursor(JournalCursor):
    """A cursor for readers of many topics, who come back to the same entries again and again."""

    def __init__(
        self, environment: Environment, transaction: Transaction, verified: dict[int, None] | None
    ) -> None:
        super().__init__(environment, transaction, verified)
        self._found: dict[int, Entry] = {}

    def at(self, base_sequence: int, index: int) -> Entry | None:
        found = self._found.get(index)
        if found is None:
            found = super().at(base_sequence, index)
            if found is not None and len(self._found) < REMEMBERED_MAX:
                self._found[index] = found
        return found


def broken_order(index: int, what: str) -> StorageDamaged:
    return StorageDamaged(
        f"entry {index} {what}",
        "Restore the data directory from a backup; docs/operating/storage.md explains how to "
        "assess the damage.",
    )
