"""The registry of durable tables: state that is written as rows and read again on a start.

A checkpoint, recovery and the digests that compare nodes go through ``tables_of``, and so does a
new table: it is one registration there.

A table is written in **rounds**. ``begin_round`` notes which rows differ from the disk, ``take``
gives them in portions, ``failed`` takes back rows whose commit failed. A row contains everything up
to the moment it is taken, and records that moment, so that replay can skip it.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple, Protocol

import msgspec

from penstock.core.broker import Broker
from penstock.core.group_row import encode_group
from penstock.core.groups import Groups
from penstock.core.retained import RetainedMessage
from penstock.trust.keys import Key

Row = tuple[str, bytes, bytes | None]  # name of the table on disk, key, value; None deletes the row

StoredRows = Callable[[str], Iterable[tuple[bytes, bytes]]]
"""Keys and values of a table on disk, in the order of keys."""

StateRows = Iterable[tuple[bytes, bytes | None]]


class Moment(NamedTuple):
    """What rows need to know about the moment at which they are taken."""

    applied: int  # the last entry that was applied
    mark: int  # the checkpoint on disk: replay begins after this entry


class DurableTable(Protocol):
    """A part of the broker's state that has rows on disk."""

    name: str
    disk_names: tuple[str, ...]  # of its tables on disk
    is_taken_last: bool  # whether its rows are written by the commit that ends the round

    def load(self, rows: StoredRows) -> None:
        """Take the state from disk; nothing counts as changed."""

    def state(self) -> StateRows:
        """All of the state, for the comparison of nodes."""

    def begin_round(self) -> None:
        """Note which rows differ from the disk now."""

    @property
    def is_round_over(self) -> bool:
        """Whether ``take`` has given all rows of the round."""

    def take(self, room: int, moment: Moment) -> Iterator[Row]:
        """The next rows of the round, about ``room`` of them at most."""

    def failed(self, table: str, keys: list[bytes]) -> None:
        """These rows were not written."""

    def end_round(self) -> None:
        """Give up the round; rows it did not take stay dirty."""


class KeyedTable:
    """A table whose state keeps a set of changed keys (``dirty``) and makes a row of each."""

    def __init__(
        self,
        name: str,
        dirty: dict[bytes, None],
        rows: Callable[[bytes, Moment], Iterable[Row]],
        load: Callable[[StoredRows], None],
        state: Callable[[], StateRows],
    ) -> None:
        self.name = name
        self.disk_names: tuple[str, ...] = (name,)
        self.is_taken_last = False
        self.load = load
        self.state = state
        self._dirty = dirty
        self._rows = rows
        self._left: dict[bytes, None] = {}

    def begin_round(self) -> None:
        self._left = dict(self._dirty)
        self._dirty.clear()

    @property
    def is_round_over(self) -> bool:
        return not self._left

    def take(self, room: int, moment: Moment) -> Iterator[Row]:
        for key in list(islice(self._left, max(room, 0))):
            del self._left[key]
            yield from self._rows(key, moment)

    def failed(self, table: str, keys: list[bytes]) -> None:  # noqa: ARG002 - there is only one
        self._dirty.update(dict.fromkeys(keys))

    def end_round(self) -> None:
        self._dirty.update(self._left)
        self._left = {}


class _GroupTable(KeyedTable):
    """Groups have two tables on disk; what is pending has rows of its own."""

    def __init__(self, groups: Groups) -> None:
        super().__init__("groups", groups.dirty, self._group_rows, self._load, self._state)
        self.disk_names = ("groups", "pending")
        self._groups = groups

    def _group_rows(self, key: bytes, moment: Moment) -> Iterator[Row]:
        return self._groups.rows(key, moment.applied)

    def failed(self, table: str, keys: list[bytes]) -> None:
        for key in keys:
            self._groups.failed(table, key)

    def _load(self, rows: StoredRows) -> None:
        for key, row in rows("groups"):
            self._groups.load(key, row)
        for key, row in rows("pending"):
            self._groups.load_chunk(key, row)
        self._groups.end_loading()

    def _state(self) -> StateRows:
        encode = msgspec.msgpack.encode
        yield b"", b"%d" % self._groups.next_lease
        for group in self._groups:
            pending = sorted((offset, encode(one)) for offset, one in group.pending.items())
            yield encode((group.topic, group.name)), encode_group(group, 0) + encode(pending)


class _Whole(Protocol):
    """State that is stored as it was at one moment."""

    @property
    def dirty(self) -> dict[bytes, None]: ...

    def row(self, key: bytes, /) -> bytes | None: ...

    def row_keys(self) -> Iterable[bytes]: ...

    def load(self, rows: Iterable[tuple[bytes, bytes]], /) -> None: ...


class _WholeTable(KeyedTable):
    """Users, roles, tokens and bans; schedules.

    Other commands are judged by the access book, and a schedule by all others, so replay needs the
    table of the entry at which it begins. The rows are those of the beginning of the round, and the
    commit that writes the mark has all of them.
    """

    def __init__(self, name: str, part: _Whole) -> None:
        def rows(key: bytes, _moment: Moment) -> list[Row]:
            return [(name, key, part.row(key))]

        def state() -> StateRows:
            return ((key, part.row(key)) for key in part.row_keys())

        super().__init__(name, part.dirty, rows, lambda rows: part.load(rows(name)), state)
        self.is_taken_last = True
        self._part = part
        self._rows_then: dict[bytes, bytes | None] = {}

    def begin_round(self) -> None:
        super().begin_round()
        self._rows_then = {key: self._part.row(key) for key in self._left}

    def take(self, room: int, moment: Moment) -> Iterator[Row]:  # noqa: ARG002 - all, as they were
        rows, self._rows_then, self._left = self._rows_then, {}, {}
        return ((self.name, key, row) for key, row in rows.items())


class ChangeQueue(Protocol):
    """State that gives up its changed rows in the order of the changes."""

    @property
    def dirty_count(self) -> int: ...

    def mark_dirty(self, keys: Iterable[bytes]) -> None: ...


class QueuedTable:
    """A table on a ``ChangeQueue``; rows that change during a round belong to the next one."""

    def __init__(
        self,
        name: str,
        queue: ChangeQueue,
        take: Callable[[int], Iterable[tuple[bytes, bytes | None]]],
        load: Callable[[StoredRows], None],
        state: Callable[[], StateRows],
    ) -> None:
        self.name = name
        self.disk_names: tuple[str, ...] = (name,)
        self.is_taken_last = False
        self.load = load
        self.state = state
        self._queue = queue
        self._take = take
        self._left = 0

    def begin_round(self) -> None:
        self._left = self._queue.dirty_count

    @property
    def is_round_over(self) -> bool:
        return not self._left

    def take(self, room: int, moment: Moment) -> Iterator[Row]:  # noqa: ARG002 - rows carry no index
        taken = list(self._take(min(max(room, 0), self._left)))
        self._left = self._left - len(taken) if taken or room <= 0 else 0
        return ((self.name, key, row) for key, row in taken)

    def failed(self, table: str, keys: list[bytes]) -> None:  # noqa: ARG002 - there is only one
        self._queue.mark_dirty(keys)

    def end_round(self) -> None:
        self._left = 0


def tables_of(broker: Broker) -> tuple[DurableTable, ...]:
    """All durable tables of a broker, in the order in which they are loaded."""
    return (
        _sessions(broker),
        _retained(broker),
        _keyed("subscribers", broker.subscribers, lambda: broker.subscribers.by_id),
        _GroupTable(broker.groups),
        _keyed("settings", broker.topics, lambda: (topic.name for topic in broker.topics)),
        _sinks(broker),
        _producers(broker),
        _keys(broker),
        _WholeTable("access", broker.access),
        _WholeTable("schedules", broker.schedules),
    )


class _Keyed(Protocol):
    """State whose rows are found by key."""

    dirty: dict[bytes, None]

    def row(self, name: bytes, index: int, /) -> bytes | None: ...

    def load(self, row: bytes, /) -> None: ...


def _keyed(name: str, part: _Keyed, names: Callable[[], Iterable[bytes]]) -> KeyedTable:
    return KeyedTable(
        name,
        part.dirty,
        lambda key, moment: [(name, key, part.row(key, moment.applied))],
        _load_each(name, part.load),
        lambda: ((key, part.row(key, 0)) for key in list(names())),
    )


def _sessions(broker: Broker) -> KeyedTable:
    return KeyedTable(
        "sessions",
        broker.dirty,
        lambda key, _moment: [("sessions", key, broker.session_row(key))],
        _load_each("sessions", broker.load_session),
        lambda: ((key, s.to_row(0)) for key, s in broker.sessions.items() if s.recorded),
    )


def _sinks(broker: Broker) -> KeyedTable:
    sinks = broker.sinks
    return KeyedTable(
        "sinks",
        sinks.dirty,
        lambda key, moment: [("sinks", key, sinks.row(key, moment.applied, moment.mark))],
        _load_each("sinks", sinks.load),
        lambda: ((sink.name, sinks.row(sink.name, 0)) for sink in sinks),
    )


def _retained(broker: Broker) -> QueuedTable:
    retained = broker.retained
    return QueuedTable(
        "retained",
        retained,
        lambda room: ((t, m.encode() if m else None) for t, m in retained.take_dirty(room)),
        _load_each("retained", lambda row: retained.restore(RetainedMessage.decode(row))),
        lambda: ((message.topic, message.encode()) for message in retained.match(b"#")),
    )


def _keys(broker: Broker) -> QueuedTable:
    ring = broker.keys
    return QueuedTable(
        "keys",
        ring,
        lambda room: ((k, one.encode() if one else None) for k, one in ring.take_dirty(room)),
        _load_each("keys", lambda row: ring.restore(Key.decode(row))),
        lambda: ((b"%d" % key.id, key.encode()) for key in ring.all()),
    )


def _producers(broker: Broker) -> QueuedTable:
    producers = broker.producers

    def load(rows: StoredRows) -> None:
        for key, row in rows("producers"):
            producers.load(key, row)

    # Not compared between nodes: each forgets old numbers in its own time.
    return QueuedTable("producers", producers, producers.take_dirty, load, lambda: ())


def _load_each(name: str, load: Callable[[bytes], None]) -> Callable[[StoredRows], None]:
    def load_all(rows: StoredRows) -> None:
        for _key, row in rows(name):
            load(row)

    return load_all
