"""A participant's stable log, in memory: what would be on its disk."""

from collections.abc import Sequence

from penstock.raft.types import (
    Compacted,
    ConfState,
    EntriesUnavailable,
    HardState,
    RaftEntry,
    SnapshotMeta,
)


class MemoryLog:
    """The log after a snapshot. ``history`` are the states that the state machine went through.

    A snapshot that is asked for is always of the last of these, as in etcd's tests.
    """

    def __init__(self, start: SnapshotMeta) -> None:
        self._hard_state = HardState()
        self._start = start
        self._entries: list[RaftEntry] = []
        self._conf_state = start.conf_state
        self.history = [start]

    def initial_state(self) -> tuple[HardState, ConfState]:
        return self._hard_state, self._conf_state

    def first_index(self) -> int:
        return self._start.index + 1

    def last_index(self) -> int:
        return self._start.index + len(self._entries)

    def term(self, index: int) -> int:
        if index == self._start.index:
            return self._start.term
        return self._at(index).term

    def _at(self, index: int) -> RaftEntry:
        if index <= self._start.index:
            raise Compacted(index)
        if index > self.last_index():
            raise EntriesUnavailable(index)
        return self._entries[index - self.first_index()]

    def entries(self, low: int, high: int, bytes_max: int) -> tuple[RaftEntry, ...]:
        self._at(low)
        self._at(high - 1)
        found = self._entries[low - self.first_index() : high - self.first_index()]
        taken, size = [found[0]], len(found[0].data)
        for entry in found[1:]:
            size += len(entry.data)
            if size > bytes_max:
                break
            taken.append(entry)
        return tuple(taken)

    def snapshot(self) -> SnapshotMeta:
        return self.history[-1]

    def write(
        self,
        hard_state: HardState | None,
        entries: Sequence[RaftEntry],
        installed: SnapshotMeta | None,
    ) -> None:
        """What a batch asks for; entries replace what is there from their first index on."""
        if hard_state is not None:
            self._hard_state = hard_state
        if installed is not None:
            self._start, self._entries = installed, []
            self._conf_state = installed.conf_state
            self.history.append(installed)
        if entries:
            first = entries[0].index
            assert self.first_index() <= first <= self.last_index() + 1, "a hole in the log"
            self._entries[first - self.first_index() :] = entries

    def applied(self, entry: RaftEntry, conf_state: ConfState | None) -> None:
        """The state machine is at ``entry``; the configuration is another one if given."""
        if conf_state is not None:
            self._conf_state = conf_state
        state = self.history[-1].conf_state if conf_state is None else conf_state
        self.history.append(SnapshotMeta(entry.index, entry.term, state))

    def note_applied(self) -> None:
        """What was applied is committed, also if only a commit index before it was written."""
        state = self._hard_state
        if state.commit < self.history[-1].index:
            self._hard_state = HardState(state.term, state.vote, self.history[-1].index)

    def compact(self, index: int) -> None:
        """Forget all up to ``index``, which must be there."""
        start = SnapshotMeta(index, self.term(index), self._conf_state)
        self._entries = self._entries[index - self._start.index :]
        self._start = start

    def all_entries(self) -> list[RaftEntry]:
        return list(self._entries)
