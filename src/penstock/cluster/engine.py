"""The loop that drives the Raft core: do what it asks for, and report back what was done.

A ``Ready`` of the core has messages that may leave at once, and work for the writer. While the
writer is busy, further readies are taken and their work is collected: no heartbeat waits for it.

Responses (votes, appends) wait until what they say is durable. And while a new term or a vote is
not durable, nothing leaves at all: no other node may hear of a term that this node might forget.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.cluster.disk import Disk, DiskWork, joined
from penstock.cluster.flight import COUNT_MAX
from penstock.cluster.frames import Frame, RaftFrame
from penstock.cluster.log_view import RECENT_ENTRIES_MAX, StoreLog
from penstock.cluster.record import RaftRecord, encode_record, term_of, terms_with
from penstock.errors import StorageError
from penstock.obs.log import get_logger
from penstock.raft.config import RaftConfig
from penstock.raft.errors import LogDamaged
from penstock.raft.raw_node import RawNode
from penstock.raft.ready import Ready, SoftState
from penstock.raft.types import EntryKind, NodeId, RaftEntry, RaftMessage, ReadState, Role
from penstock.store.batch import Batch
from penstock.store.entry import Entry, decode
from penstock.store.store import Commit, LogStore, Written

CATCH_UP_ENTRIES_MAX = RECENT_ENTRIES_MAX // 2  # per step: the core reads each from memory

NO_COST = Written(0.0, 0.0)

_log = get_logger("cluster")


class EngineOwner(Protocol):
    """Receives the engine's events: in order, on the event loop."""

    def roles_changed(self, state: SoftState) -> None: ...

    def settled(self) -> None:
        """The node leads, and has applied everything that was decided before."""

    def apply(self, entry: Entry) -> None:
        """An entry is committed and part of the journal."""

    def apply_change(self, entry: RaftEntry) -> None: ...

    def applied(self, index: int) -> None: ...

    def answered(self, state: ReadState) -> None: ...

    def rows_written(self, batch: Batch, written: Written) -> None:
        """A batch without content is durable."""

    def committed_alone(self, batch: Batch, outcome: Commit | StorageError) -> None:
        """``Disk.commit`` has ended."""

    def idle(self) -> None:
        """The disk is idle and the core has nothing to do."""

    def failed(self, error: BaseException) -> None:
        """Disk or log failed: the node must exit."""


class Engine:
    """A Raft core with its record and its disk. ``raw`` is None until ``start``."""

    def __init__(
        self,
        store: LogStore,
        record: RaftRecord,
        send: Callable[[NodeId, Frame], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._send_frame = send
        self._now_ms = now_ms
        self._owner: EngineOwner
        self._loop = asyncio.get_running_loop()
        self.record = record
        self.raw: RawNode | None = None
        self.disk = Disk(store, self._loop, self._commit_ended, self._fail)
        self.work = DiskWork()  # what the writer gets next
        self.last_write = NO_COST
        self.durable_applied = record.applied  # a start replays what comes after this entry
        self.may_commit_alone = False
        """This node leads alone and has nothing else to do: true from ``idle`` to ``wake``."""
        self.has_written = False  # this incarnation is durable: before, it must number no batch
        self._log: StoreLog
        self._in_flight: DiskWork | None = None
        self._commit = self._recovered = store.next_index - 1
        self._settled_term = 0
        self._change = 0  # index of the last configuration change in the log, if it is new
        self._wake_due = False
        self._is_closed = False

    @property
    def is_leader(self) -> bool:
        """Whether this node leads and has applied an entry of its own term."""
        if self.raw is None:
            return False
        node = self.raw.node  # checked with every request, so without another hop
        return node.role is Role.LEADER and node.term == self._settled_term

    @property
    def has_tail(self) -> bool:
        return self.raw is None or self.raw.last_index != self.record.applied

    def begin(self, owner: EngineOwner) -> None:
        self._owner = owner
        self.disk.start()

    def start(self, config: RaftConfig) -> None:
        """Start the core. The record is durable before this incarnation sends anything."""
        self._log = StoreLog(self._store, self.record)
        self.raw = RawNode(config, self._log)
        self.work.needs_record = self.work.blocks_sending = True
        self._change = self._change_in_tail()
        if self.record.is_alone():
            self.raw.campaign()
        self.wake()

    def _change_in_tail(self) -> int:
        store = self._store
        if store.last_index < store.next_index:
            return 0
        tail = store.log_entries(store.next_index, store.last_index + 1, sys.maxsize)
        return max((entry.index for entry in tail if entry.kind), default=0)

    def close(self) -> None:
        self._is_closed = True
        self.disk.close()

    def _fail(self, error: BaseException) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._owner.failed(error)

    def guarded(self, call: Callable[[], object]) -> None:
        """Call into the core. Any exception ends the node: it might lead and never commit again."""
        try:
            call()
        except LogDamaged as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - a bug of ours; others can go on without us
            _log.exception("core_failed")
            self._fail(error)

    # ── Readies ───────────────────────────────────────────────────────────────────────────────

    def wake(self) -> None:
        """Look for work, once, at the end of this iteration of the loop."""
        self.may_commit_alone = False
        if not self._wake_due:
            self._wake_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._wake_due = False
        raw = self.raw
        if raw is not None and not self._is_closed:
            self.guarded(lambda: self._pump(raw))

    def _pump(self, raw: RawNode) -> None:
        self.catch_up()
        while not self._is_closed:
            if not (self.disk.is_busy and self.record.is_alone()):
                while raw.has_ready():
                    self._take(raw.ready())
            if self.disk.is_busy:
                return
            work = self.work
            if work.is_empty:
                self._owner.idle()
                return
            self.work = work.successor()
            if work.needs_disk:
                self._hand_to_disk(work)
                return
            self._done(work, None)

    def _take(self, ready: Ready) -> None:
        work, record = self.work, self.record
        hard = ready.hard_state
        if hard is not None:
            self._commit = hard.commit
            if (hard.term, hard.vote) != (record.term, record.vote):
                record.term, record.vote = hard.term, hard.vote
                work.needs_record = work.blocks_sending = True
        if ready.entries:
            work.entries = joined(work.entries, ready.entries)
            record.terms = terms_with(record.terms, ready.entries)
            changes = [e.index for e in ready.entries if e.kind is not EntryKind.NORMAL]
            self._change = max([self._change, *changes])
        work.marks.append(ready.mark)
        if work.blocks_sending or (self._in_flight is not None and self._in_flight.blocks_sending):
            work.after_persist += ready.messages
        else:
            self._send(ready.messages)
        work.after_persist += [m for m in ready.after_persist if m.to != record.node_id]
        if ready.soft_state is not None:
            self._owner.roles_changed(ready.soft_state)
        if ready.committed:
            self._take_committed(ready.committed)
        for state in ready.read_states:
            self._owner.answered(state)

    def _take_committed(self, entries: Sequence[RaftEntry]) -> None:
        """Have the disk apply committed entries; those from before this start are applied."""
        assert self.raw is not None
        known = [entry for entry in entries if entry.index <= self._recovered]
        for entry in known:
            self._apply_known(entry)
        if known:
            self.raw.applied(known[-1].index)
        if len(known) < len(entries):
            self.work.apply_to = entries[-1].index

    def _hand_to_disk(self, work: DiskWork) -> None:
        self._in_flight = work
        record = self.record
        write = work.write(encode_record(record), self._committed()) if work.needs_write else None
        applied = record.applied

        def done(written: Written | None) -> None:
            self._in_flight = None
            if written is not None:
                self.last_write = written
                self.durable_applied = applied
                self.has_written = True
            self.guarded(lambda: self._done(work, written))
            self.wake()

        self.disk.perform(work.apply_to, write, self._applied_by_disk, done)

    def _committed(self) -> int | None:
        """How far the log is committed, for the record; None: to its end, whatever is added.

        None holds for a lone node, but not while another is about to join: a start would take that
        entry for one whose consequences are in the record.
        """
        is_changing = self._change > self.record.applied
        return None if self.record.is_alone() and not is_changing else self._commit

    def _done(self, work: DiskWork, written: Written | None) -> None:
        if self._is_closed:
            return
        assert self.raw is not None
        self._log.stable(work.entries)
        for mark in work.marks:
            self.raw.persisted(mark)
        self._send(work.after_persist)
        for callback in work.callbacks:
            callback(None)
        for batch in work.batches:
            self._owner.rows_written(batch, written or NO_COST)

    def _send(self, messages: Sequence[RaftMessage]) -> None:
        assert self.raw is not None
        is_leader = self.raw.role is Role.LEADER
        said = (self._now_ms(), COUNT_MAX) if is_leader else (0, 0)
        for message in messages:
            self._send_frame(message.to, RaftFrame(message, *said))

    # ── Applying ──────────────────────────────────────────────────────────────────────────────

    def _applied_by_disk(self, entries: list[Entry]) -> None:
        """Apply all of these entries to the broker, or fail: a start replays them."""
        if self._is_closed or not entries:
            return
        try:
            self._apply(entries)
        except Exception as error:  # noqa: BLE001 - whatever it is, our state is not the others'
            self._fail(error)
        self.wake()

    def _apply(self, entries: list[Entry]) -> None:
        assert self.raw is not None
        for entry in entries:
            self.record.applied = entry.index
            change = entry.configuration
            if change is not None:
                kind, content = change
                self._owner.apply_change(RaftEntry(0, entry.index, content, EntryKind(kind)))
                self.work.needs_record = True
            self._owner.apply(entry)
        self.raw.applied(entries[-1].index)
        self._applied(entries[-1].index)

    def _apply_known(self, entry: RaftEntry) -> None:
        """Note an entry that store and broker have from before this start."""
        record = self.record
        record.applied = entry.index
        if entry.kind is not EntryKind.NORMAL:
            self._owner.apply_change(entry)
            self.work.needs_record = True
        elif entry.data:
            for segment in decode(entry.data, verify=False).segments:
                record.origins[segment.node] = (segment.incarnation, segment.number)
        self._applied(entry.index)

    def _applied(self, index: int) -> None:
        raw = self.raw
        assert raw is not None
        is_new = raw.role is Role.LEADER and raw.term != self._settled_term
        if is_new and term_of(self.record.terms, index) == raw.term:
            self._settled_term = raw.term
            self._owner.settled()
        self._owner.applied(index)

    def _commit_ended(self, batch: Batch, outcome: Commit | StorageError) -> None:
        self._owner.committed_alone(batch, outcome)

    def committed_alone(self, index: int) -> None:
        """Note an entry that was committed without the core, which learns of it in ``catch_up``."""
        if index != self.record.applied:  # else the batch had rows only
            self.record.applied = self._commit = index
            if not self.may_commit_alone:  # else nobody waits for it
                self._owner.applied(index)

    def catch_up(self) -> None:
        """Take the core through entries that were committed without it; it needs no content."""
        raw, applied = self.raw, self.record.applied
        while raw is not None and raw.last_index < applied:
            raw.propose([b""] * min(applied - raw.last_index, CATCH_UP_ENTRIES_MAX))
            ready = raw.ready()
            self._log.stable(ready.entries)
            raw.persisted(ready.mark)
            committed = raw.ready().committed
            assert ready.entries[-1].index == committed[-1].index
            raw.applied(committed[-1].index)
            self._log.forget()
