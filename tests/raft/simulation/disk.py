"""A simulated disk: batches are written whole and in order, and are there only once they are synced.

As in the store of the broker, one batch is one transaction: log, hard state and the effects of what
was applied, under one checksum. At a crash, batches that were not synced yet vanish, or happen to
have been written nonetheless, or the last one was written in part. Its checksum tells, and it
counts as not written.
"""

import zlib
from collections import Counter, deque
from collections.abc import Iterable
from random import Random
from types import ModuleType
from typing import Any, NamedTuple

import msgspec


class State(NamedTuple):
    """What the entries up to an index have made: here, a digest of them in their order."""

    index: int
    digest: int
    conf: Any


class Log:
    """Entries without a gap behind a base, which is what was compacted or came as a snapshot."""

    __slots__ = ("base", "base_term", "entries")

    def __init__(self, base: int = 0, base_term: int = 0, entries: Iterable[Any] = ()) -> None:
        self.base = base
        self.base_term = base_term
        self.entries = list(entries)

    @property
    def last(self) -> int:
        return self.base + len(self.entries)

    def term(self, index: int) -> int | None:
        """Return the term of an entry, or of the base; None for what is not there."""
        if index == self.base:
            return self.base_term
        at = index - self.base - 1
        return self.entries[at].term if 0 <= at < len(self.entries) else None

    def after(self, index: int) -> list[Any]:
        return self.entries[max(0, index - self.base) :]

    def put(self, entries: tuple[Any, ...]) -> None:
        """Append, and forget what was there from the first one's place on."""
        del self.entries[entries[0].index - self.base - 1 :]
        self.entries += entries

    def reset(self, base: int, base_term: int) -> None:
        self.base, self.base_term, self.entries = base, base_term, []

    def compact(self, index: int) -> None:
        term = self.term(index)
        assert term is not None, "compacted beyond the log"
        del self.entries[: index - self.base]
        self.base, self.base_term = index, term

    def copy(self) -> "Log":
        return Log(self.base, self.base_term, self.entries)


class Batch:
    """What one Ready writes, and what has to wait for it."""

    __slots__ = (
        "entries",
        "hard",
        "hard_then",
        "last_then",
        "ready",
        "snapshot",
        "state",
        "waiting",
    )

    def __init__(self, ready: Any, state: State, waiting: tuple[Any, ...]) -> None:
        self.ready = ready
        self.hard = ready.hard_state
        self.snapshot = ready.snapshot
        self.entries = tuple(ready.entries)
        self.state = state
        self.waiting = waiting
        """Messages that others need not wait for, but that tell of the term or vote in here."""
        self.hard_then: Any = None
        self.last_then = 0
        """What was durable when this was: later batches may have changed it since."""

    def writes(self) -> bool:
        return bool(self.hard or self.snapshot or self.entries or self.ready.committed)

    def parts(self) -> tuple[Any, ...]:
        return (self.hard, self.snapshot, self.entries, self.state)


class Disk:
    """What one node has written. It is the core's ``LogView`` as well: that sees what is durable."""

    def __init__(self, types: ModuleType, random: Random, snapshot: Any = None) -> None:
        self._types = types
        self._random = random
        self.hard = types.HardState()
        self.log = Log()
        self.state = State(0, 0, types.ConfState())
        self.unsynced: deque[Batch] = deque()
        self.offered: dict[int, State] = {}
        """States of which a snapshot was offered; where it is sent, the state goes along."""
        if snapshot is not None:
            self.hard = types.HardState(snapshot.term, types.NO_NODE, snapshot.index)
            self.log.reset(snapshot.index, snapshot.term)
            self.state = State(snapshot.index, 0, snapshot.conf_state)

    # ── What a driver does

    def write(self, batch: Batch) -> None:
        self.unsynced.append(batch)

    def sync(self) -> Batch:
        batch = self.unsynced.popleft()
        self._keep(batch)
        return batch

    def _keep(self, batch: Batch) -> None:
        if batch.snapshot is not None:
            self.log.reset(batch.snapshot.index, batch.snapshot.term)
        if batch.entries:
            self.log.put(batch.entries)
        if batch.hard is not None:
            self.hard = batch.hard
        self.state = batch.state
        batch.hard_then, batch.last_then = self.hard, self.log.last

    def compact(self, index: int) -> None:
        assert index <= self.state.index, "compacted beyond what is durably applied"
        self.log.compact(index)

    # ── What happens to it

    def crash(self) -> Counter[str]:
        """Lose what was not synced, or find some of it written all the same; tell what was."""
        seen: Counter[str] = Counter()
        for batch in self._remains():
            if checksum(batch[0]) != batch[1]:
                seen["torn batches"] += 1
                break
            seen["unsynced batches kept"] += 1
            self._keep(self.unsynced.popleft())
        seen["unsynced batches lost"] += len(self.unsynced)
        self.unsynced.clear()
        self.offered.clear()
        return seen

    def _remains(self) -> list[tuple[tuple[Any, ...], int]]:
        """Return what is found where batches were being written, each with its checksum."""
        kept = self._random.randint(0, len(self.unsynced)) if self._random.random() < 0.4 else 0
        batches = [batch.parts() for batch in self.unsynced]
        found = [(parts, checksum(parts)) for parts in batches[:kept]]
        if kept < len(batches) and self._random.random() < 0.5:
            hard, snapshot, entries, state = batches[kept]
            part = entries[: self._random.randint(0, len(entries))]
            torn = (hard, snapshot, part, None) if part else (None, snapshot, entries, state)
            found.append((torn, checksum(batches[kept])))
        return found

    def faults(self) -> list[str]:
        """Say what a start would refuse."""
        first, applied, commit, last = (
            self.log.base,
            self.state.index,
            self.hard.commit,
            self.log.last,
        )
        tail = self.log.term(last) or 0
        found = []
        if not first <= applied <= commit <= last:
            found.append(f"base {first}, applied {applied}, commit {commit}, last {last}")
        if self.hard.term < tail:
            found.append(f"term {self.hard.term}, but the last entry is of term {tail}")
        return found

    # ── What the core asks: LogView

    def initial_state(self) -> tuple[Any, Any]:
        return self.hard, self.state.conf

    def first_index(self) -> int:
        return self.log.base + 1

    def last_index(self) -> int:
        return self.log.last

    def term(self, index: int) -> int:
        if index < self.log.base:
            raise self._types.Compacted
        term = self.log.term(index)
        if term is None:
            raise self._types.Unavailable
        return term

    def entries(self, low: int, high: int, bytes_max: int) -> tuple[Any, ...]:
        if low <= self.log.base:
            raise self._types.Compacted
        if high > self.log.last + 1:
            raise self._types.Unavailable
        found = self.log.entries[low - self.log.base - 1 : high - self.log.base - 1]
        size = 0
        for count, entry in enumerate(found):
            size += len(entry.data)
            if count and size > bytes_max:
                return tuple(found[:count])
        return tuple(found)

    def snapshot(self) -> Any:
        if self._random.random() < 0.1:
            raise self._types.SnapshotUnavailable
        index, _, conf = self.offered[self.state.index] = self.state
        return self._types.SnapshotMeta(index, self.term(index), conf)


def checksum(parts: tuple[Any, ...]) -> int:
    return zlib.crc32(msgspec.msgpack.encode(parts))
