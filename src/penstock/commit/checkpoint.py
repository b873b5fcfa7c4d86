"""Writes the broker's state as rows, incrementally, so that a start replays only a few seconds.

A **round** begins by noting which rows of each table (``core/tables``) differ from the disk, and
the last applied entry. Its rows are written with ordinary commits, a bounded number each; every row
has the entry up to which it is current (``applied``). The last commit of the round writes the mark:
a start replays the entries after the one noted at the beginning. That commit also has the rows by
which other commands are judged (users and rules), as they were at the beginning.

Retention removes no entry that a start would replay. So for a small journal a round also begins
after ``round_bytes``; one that takes longer than another ``round_bytes`` writes more rows per
commit.
"""

from collections import defaultdict

from penstock.core.broker import Broker
from penstock.core.tables import Moment, tables_of
from penstock.limits import BATCH_BYTES_MAX
from penstock.store.batch import Batch

ROUND_INTERVAL_S = 1.0  # pause between rounds: bounds what a start after a crash replays

ROWS_PER_COMMIT_MAX = 256  # bounds the cost of a commit beyond its messages

ROWS_PER_COMMIT_PRESSED = 4_096  # while retention waits for the end of the round


class Checkpointer:
    """Decides which rows go with the next commit."""

    def __init__(self, broker: Broker, round_bytes: int = BATCH_BYTES_MAX) -> None:
        self._broker = broker
        self._round_bytes = round_bytes
        self._bytes = 0  # of the entries since the last round began
        self._tables = tables_of(broker)
        self._round_index: int | None = None
        self._done_index = broker.index
        self._mark = 0  # the last one on disk; unknown before the first of this incarnation
        self._changed_index = self._committed_index = broker.index
        self._next_round_at = 0.0

    def committed(self, index: int, size: int = 0) -> None:
        """An entry is on disk; under ``interval`` it was applied before."""
        self._committed_index = index
        self._bytes += size

    def changed(self, index: int) -> None:
        """An entry with messages or events was applied, so rows may have changed.

        An entry with rows alone does not count, otherwise rounds would never end.
        """
        self._changed_index = index

    def is_due(self, now: float) -> bool:
        if self._round_index is not None:
            return True
        is_time = now >= self._next_round_at or self._is_pressed
        return is_time and self._changed_index > self._done_index

    @property
    def _is_pressed(self) -> bool:
        """Whether retention needs the next mark soon."""
        return self._bytes >= self._round_bytes

    def fill(self, batch: Batch, now: float) -> None:
        """Add this commit's slice of rows, and the mark when the round is complete."""
        if not self.is_due(now):
            return
        if self._round_index is None:
            self._begin()
        room = ROWS_PER_COMMIT_PRESSED if self._is_pressed else ROWS_PER_COMMIT_MAX
        moment = Moment(self._broker.index, self._mark)
        last = [table for table in self._tables if table.is_taken_last]
        for table in self._tables:
            for row in table.take(room, moment) if table not in last else ():
                batch.add_row(*row)
                room -= 1
        if all(table.is_round_over for table in self._tables if table not in last):
            for table in last:
                for row in table.take(room, moment):
                    batch.add_row(*row)
            batch.checkpoint = self._done_index = self._mark = self._round_index or 0
            self._round_index = None
            self._next_round_at = now + ROUND_INTERVAL_S

    def _begin(self) -> None:
        self._round_index = min(self._broker.index, self._committed_index)
        self._bytes = 0
        for table in self._tables:
            table.begin_round()

    def failed(self, batch: Batch) -> None:
        """The commit failed: write its rows again in a new round."""
        keys: dict[str, list[bytes]] = defaultdict(list)
        for name, key, _value in batch.rows:
            keys[name].append(key)
        for table in self._tables:
            for name in table.disk_names:
                if name in keys:
                    table.failed(name, keys[name])
        if batch.checkpoint is not None or self._round_index is not None:
            for table in self._tables:
                table.end_round()
            self._round_index = None
            self._done_index = -1
            self._mark = 0
