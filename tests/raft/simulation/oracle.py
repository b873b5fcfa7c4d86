"""What must hold, checked as things happen: each check looks at what is new, not at everything.

The oracle sees all nodes at once. It keeps one committed log, as the first node that handed it out
had it, and holds every other against it. Log matching is checked place by place: whoever has an
entry of this index and term must have the same data in it and the same term before it, from which
the rest follows by induction.
"""

from collections import Counter
from typing import Any

from penstock.raft.types import MessageKind
from tests.raft.simulation.core import CONF_CHANGES
from tests.raft.simulation.disk import Batch, Disk, State


class Violation(Exception):  # noqa: N818 - it is what the simulation is looking for
    """Something that must never happen has happened."""


class Oracle:
    """Everything that was ever seen, as far as later steps must agree with it."""

    def __init__(self, disks: dict[int, Disk], bootstrap: Any, seen: Counter[str]) -> None:
        self._disks = disks
        self._seen = seen
        self.leaders: dict[int, int] = {}
        self._complete: set[int] = set()
        self._votes: dict[tuple[int, int], int] = {}
        self._places: dict[tuple[int, int], tuple[int, bytes, int]] = {}
        self.committed: list[Any] = [None] * (bootstrap.index + 1)
        """The entries that are committed, by index; what is before the first one is given."""
        self._base = bootstrap.index
        self._base_term = bootstrap.term
        self._committed_by: dict[int, int] = {}
        """How far the log was committed when a term committed last."""
        given = State(bootstrap.index, 0, bootstrap.conf_state)
        self.states: list[State] = [given] * (bootstrap.index + 1)
        """What applying made, by index."""
        self.acknowledged = 0
        """The highest index that a client received."""

    # ── Elections

    def leads(self, node: int, term: int) -> None:
        """One leader per term."""
        other = self.leaders.setdefault(term, node)
        if other != node:
            raise Violation(f"nodes {other} and {node} both lead in term {term}")

    def has_everything(self, node: int, term: int, log: Any) -> None:
        """Leader completeness: what earlier terms committed is in the log of who leads now.

        A leader of an old term may find out late that it is one; it owes nothing of later terms.
        """
        if term in self._complete:
            return
        self._complete.add(term)
        unacked = max((i for t, i in self._committed_by.items() if t < term), default=self._base)
        for index in range(max(log.base, self._base) + 1, unacked + 1):
            if log.term(index) != self.committed[index].term:
                raise Violation(
                    f"node {node} leads in term {term} without the committed entry {index}"
                    f"{self._acknowledged(index)}: it has term {log.term(index)} there"
                )

    def _acknowledged(self, index: int) -> str:
        return " (acknowledged)" if index <= self.acknowledged else ""

    # ── Logs

    def appended(self, node: int, log: Any, commit: int, entries: tuple[Any, ...]) -> None:
        """Log matching, no gap, and nothing committed is overwritten."""
        first = entries[0].index
        if not log.base < first <= log.last + 1:
            raise Violation(f"node {node} appends {first} to a log of {log.base}..{log.last}")
        if first <= commit:
            raise Violation(f"node {node} overwrites {first}, which it has as committed")
        self._seen["entries overwritten"] += log.last + 1 - first
        before = log.term(first - 1)
        for entry in entries:
            if entry.index != first:
                raise Violation(f"node {node} appends {entry.index} in the place of {first}")
            mine = (int(entry.kind), entry.data, before)
            theirs = self._places.setdefault((first, entry.term), mine)
            if theirs != mine:
                raise Violation(f"place {first} of term {entry.term}: {theirs} and {mine}")
            before = entry.term
            first += 1

    def one_change_at_a_time(self, node: int, log: Any, applied: int, term: int) -> None:
        """A leader proposes a change only after it has applied the one before."""
        changes = [e for e in log.after(applied) if e.kind in CONF_CHANGES]
        if len(changes) > 1 and changes[-1].term == term:
            places = ", ".join(str(entry.index) for entry in changes)
            raise Violation(f"node {node} has changes of the configuration under way at {places}")

    # ── What is promised

    def hardened(self, node: int, old: Any, new: Any) -> None:
        """Term and commit never go back, and there is one vote per term."""
        if new.term < old.term or new.commit < old.commit:
            raise Violation(f"node {node} goes back from {old} to {new}")
        if new.term == old.term and old.vote and new.vote != old.vote:
            raise Violation(f"node {node} votes again: {old}, then {new}")

    def leaves(self, message: Any, hard: Any, last: int) -> None:
        """What is said must be durable: votes, and that entries were taken.

        What was taken in an earlier term may be overwritten in the batch that it waited for. Who
        leads now has got a vote from a majority after that, so nobody can commit by it.
        """
        if message.reject:
            return
        if message.kind == MessageKind.VOTE_RESPONSE:
            self._votes_once(message)
            if hard.term < message.term or (hard.term == message.term and hard.vote != message.to):
                raise Violation(f"a vote leaves before it is durable: {message}; {hard}")
        elif message.kind == MessageKind.APPEND_RESPONSE:
            is_taken = last >= message.index or hard.term > message.term
            if hard.term < message.term or not is_taken:
                raise Violation(
                    f"entries are acknowledged before they are durable: {message}; {last}"
                )

    def _votes_once(self, message: Any) -> None:
        key = (message.sender, message.term)
        other = self._votes.setdefault(key, message.to)
        if other != message.to:
            raise Violation(f"node {key[0]} votes for {other} and {message.to} in term {key[1]}")

    def counted(self, node: int, term: int, index: int, conf: Any) -> None:
        """A leader commits only entries of its own term that a majority has on disk."""
        copies = [voter for voter in conf.voters if self._has(voter, index, term)]
        if 2 * len(copies) <= len(conf.voters):
            raise Violation(
                f"node {node} commits {index} in term {term}, of which {copies} of {conf.voters} "
                "have a durable copy of that term"
            )

    def _has(self, voter: int, index: int, term: int) -> bool:
        log = self._disks[voter].log
        return log.base > index or log.term(index) == term

    # ── What is committed and applied

    def commits(self, node: int, log: Any, old: int, hard: Any) -> None:
        """The committed log never changes, on any node."""
        if hard.commit > log.last:
            raise Violation(f"node {node} has {hard.commit} committed of {log.last}")
        for index in range(max(old, log.base) + 1, hard.commit + 1):
            entry = log.entries[index - log.base - 1]
            if index == len(self.committed):
                self.committed.append(entry)
                self._committed_by[hard.term] = index
            elif self.committed[index].term != entry.term:
                raise Violation(
                    f"node {node} has {entry} committed{self._acknowledged(index)}, "
                    f"but {self.committed[index]} was"
                )

    def applied(self, node: int, state: State, entry: Any, disk: Disk) -> None:
        """All apply the same, in the same order; nothing that they might still lose."""
        if state.index != entry.index:
            raise Violation(f"node {node} applies {entry.index} after {state.index - 1}")
        if disk.log.term(entry.index) != entry.term:
            raise Violation(f"node {node} applies {entry}, which it has not made durable")
        if entry.index >= len(self.committed) or self.committed[entry.index].term != entry.term:
            raise Violation(f"node {node} applies {entry}, which is not what was committed")
        if entry.index == len(self.states):
            self.states.append(state)
        elif self.states[entry.index] != state:
            raise Violation(f"node {node} came to {state}, others to {self.states[entry.index]}")

    def installed(self, node: int, meta: Any, state: State) -> None:
        """A snapshot is what applying would have made."""
        if meta.index >= len(self.states) or self.states[meta.index] != state:
            raise Violation(f"node {node} installs {state}, which nobody has applied")
        term = self._base_term if meta.index == self._base else self.committed[meta.index].term
        if meta.term != term or conf_parts(meta.conf_state) != conf_parts(state.conf):
            raise Violation(f"node {node} installs {meta}, but that place is {term}, {state.conf}")

    def configured(self, node: int, old: Any, new: Any, expected: Any) -> None:
        """One voter at a time, and as the entry says."""
        if len(set(old.voters) ^ set(new.voters)) > 1 or new.voters_outgoing:
            raise Violation(f"node {node} goes from {old} to {new} at once")
        if conf_parts(new) != conf_parts(expected):
            raise Violation(f"node {node} goes from {old} to {new}, but should to {expected}")

    # ── Clients

    def acknowledges(self, index: int, data: bytes) -> None:
        if self.committed[index].data != data:
            raise Violation(f"{data!r} is acknowledged as {index}, which is another's")
        self.acknowledged = max(self.acknowledged, index)

    def reads(self, node: int, index: int, floor: int) -> None:
        """A read sees what was acknowledged before it was asked, and nothing uncommitted."""
        if not floor <= index < len(self.committed):
            raise Violation(
                f"a read on node {node} would see {index}, but {floor} was acknowledged before "
                f"it was asked, and {len(self.committed) - 1} is committed"
            )

    # ── Restarts

    def restarts(self, node: int, disk: Disk, raw: Any) -> None:
        if faults := disk.faults():
            raise Violation(f"node {node} cannot start: {'; '.join(faults)}")
        if raw.term < disk.hard.term or raw.commit < disk.hard.commit:
            raise Violation(f"node {node} starts before {disk.hard}: {raw.term}, {raw.commit}")

    def told(self, batch: Batch) -> None:
        """What waited for a batch may leave now; it was durable, whatever came after."""
        for message in batch.ready.after_persist:
            self.leaves(message, batch.hard_then, batch.last_then)


def conf_parts(conf: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the parts of a configuration that we use, in a fixed order."""
    return tuple(sorted(conf.voters)), tuple(sorted(conf.learners))
