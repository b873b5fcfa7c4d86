"""Writing the fold down, a slice at a time, so that a start replays seconds and not years.

A **round** begins by noting which sessions and retained messages differ from their rows on disk and
up to which entry everything was applied by then. Its rows ride along with ordinary commits, a
bounded number each; a row is the truth of the moment it is taken and says so (``applied``). With
the last one goes the mark: a start may begin replaying after the entry noted at the beginning.

Retention removes no entry that a start would replay. So where the journal may only be small, a
round also begins after so many bytes (``round_bytes``), and one that lasts longer than as many
again takes more rows with each commit.
"""

from penstock.core.broker import Broker
from penstock.limits import BATCH_BYTES_MAX
from penstock.store.batch import Batch

ROUND_INTERVAL_S = 1.0
"""Pause between rounds: what a start after a crash must replay at most, about."""

ROWS_PER_COMMIT_MAX = 256
"""Rows in one commit: bounds what a commit costs beyond its messages."""

ROWS_PER_COMMIT_PRESSED = 4_096
"""The same while retention waits for the end of the round."""

_TABLES = ("sessions", "subscribers", "groups", "settings", "sinks")
"""Tables of which every row is written anew; retained messages have a way of their own."""

_Row = tuple[str, bytes]
"""Table and key."""


class Checkpointer:
    """Decides which rows go with the next commit."""

    def __init__(self, broker: Broker, round_bytes: int = BATCH_BYTES_MAX) -> None:
        self._broker = broker
        self._round_bytes = round_bytes
        self._bytes = 0
        """Of the entries since the last round began."""
        self._rows: list[_Row] = []
        self._retained_left = 0
        self._producers_left = 0
        self._round_index: int | None = None
        self._done_index = broker.index
        self._mark = 0
        """The last mark on disk; before the first one of this life nothing is known of it."""
        self._changed_index = self._committed_index = broker.index
        self._next_round_at = 0.0

    def committed(self, index: int, size: int = 0) -> None:
        """An entry is on disk. Where applying comes first, less is known of those that are not."""
        self._committed_index = index
        self._bytes += size

    def changed(self, index: int) -> None:
        """An entry with messages or events was applied: there is something to write down.

        Rows alone make no entry, else the broker would never come to rest.
        """
        self._changed_index = index

    def is_due(self, now: float) -> bool:
        """Whether a commit should be made for the checkpoint's sake."""
        if self._round_index is not None:
            return True
        is_time = now >= self._next_round_at or self._is_pressed
        return is_time and self._changed_index > self._done_index

    @property
    def _is_pressed(self) -> bool:
        """Whether so much was written since the last round began that retention wants the next."""
        return self._bytes >= self._round_bytes

    def fill(self, batch: Batch, now: float) -> None:
        """Add this commit's slice of rows, and the mark when the round is complete."""
        if not self.is_due(now):
            return
        if self._round_index is None:
            self._begin()
        rows_max = ROWS_PER_COMMIT_PRESSED if self._is_pressed else ROWS_PER_COMMIT_MAX
        slice_, self._rows = self._rows[:rows_max], self._rows[rows_max:]
        for table, key in slice_:
            if table == "groups":
                for row in self._broker.groups.rows(key, self._broker.index):
                    batch.add_row(*row)
            else:
                batch.add_row(table, key, self._row(table, key))
        self._fill_retained(batch, rows_max - len(slice_))
        for row_key, signing_key in self._broker.keys.take_dirty(rows_max):
            batch.add_row("keys", row_key, signing_key.encode() if signing_key else None)
        self._fill_producers(batch, rows_max)
        left = (self._rows, self._retained_left, self._producers_left)
        if not (any(left) or self._broker.keys.dirty_count):
            batch.checkpoint = self._done_index = self._mark = self._round_index or 0
            self._round_index = None
            self._next_round_at = now + ROUND_INTERVAL_S

    def _begin(self) -> None:
        broker = self._broker
        self._round_index = min(broker.index, self._committed_index)
        self._bytes = 0
        self._rows = [(table, key) for table in _TABLES for key in self._dirty(table)]
        for table in _TABLES:
            self._dirty(table).clear()
        self._retained_left = broker.retained.dirty_count
        self._producers_left = broker.producers.dirty_count

    def _dirty(self, table: str) -> dict[bytes, None]:
        """Keys of a table whose rows on disk are older than the state."""
        broker = self._broker
        if table == "sessions":
            return broker.dirty
        if table == "subscribers":
            return broker.subscribers.dirty
        if table == "settings":
            return broker.topics.dirty
        if table == "sinks":
            return broker.sinks.dirty
        return broker.groups.dirty

    def _row(self, table: str, key: bytes) -> bytes | None:
        """A row as of now; None: there is none any more."""
        broker = self._broker
        if table == "sessions":
            return broker.session_row(key)
        if table == "subscribers":
            return broker.subscribers.row(key, broker.index)
        if table == "sinks":
            return broker.sinks.row(key, broker.index, self._mark)
        return broker.topics.row(key, broker.index)

    def _fill_retained(self, batch: Batch, room: int) -> None:
        rows = self._broker.retained.take_dirty(min(room, self._retained_left))
        self._retained_left -= len(rows)
        for topic, message in rows:
            batch.add_row("retained", topic, message.encode() if message else None)

    def _fill_producers(self, batch: Batch, rows_max: int) -> None:
        """They are taken in the order in which they changed, so what follows is a later round's."""
        room = min(rows_max, self._producers_left)
        rows = self._broker.producers.take_dirty(room)
        self._producers_left = max(self._producers_left - room, 0) if rows else 0
        for key, row in rows:
            batch.add_row("producers", key, row)

    def failed(self, batch: Batch) -> None:
        """The commit did not happen: what it carried is still to be written."""
        producers: list[bytes] = []
        for table, key, _value in batch.rows:
            if table == "retained":
                self._broker.retained.mark_dirty((key,))
            elif table == "keys":
                self._broker.keys.mark_dirty((key,))
            elif table == "producers":
                producers.append(key)
            elif table in {"groups", "pending"}:
                self._broker.groups.failed(table, key)
            else:
                self._dirty(table)[key] = None
        self._broker.producers.mark_dirty(producers)
        if batch.checkpoint is not None or self._round_index is not None:
            for table, key in self._rows:
                self._dirty(table)[key] = None
            self._rows = []
            self._round_index = None
            self._done_index = -1
            self._mark = 0
