"""The loop that turns: what the core wants is done, and the core is told that it was done.

**Ready** (what the core wants) → messages that may leave at once → **work** for the writer: fold
what is committed, write entries and record, sync → what was folded is applied, the core is told
what is durable, the messages that waited for it leave → ready. While the writer is busy, readies go
on being taken: no heartbeat waits for a disk. What they want of the disk is gathered meanwhile.

Two rules decide what may leave when. Answers (votes, appends) wait until what they say is durable.
And while a new term or a vote is not, nothing leaves at all: others must not hear of a term that
this node might forget.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.cluster.applying import NO_COST
from penstock.cluster.disk import Disk, DiskWork, joined
from penstock.cluster.frames import Frame, RaftFrame
from penstock.cluster.log_view import RECENT_ENTRIES_MAX, StoreLog
from penstock.cluster.record import RaftRecord, encode_record, term_of, terms_with
from penstock.errors import StorageError
from penstock.obs.log import get_logger
from penstock.raft.raw_node import LogDamaged, RaftConfig, RawNode, Ready, SoftState
from penstock.raft.types import EntryKind, NodeId, RaftEntry, RaftMessage, ReadState, Role
from penstock.store.batch import Batch
from penstock.store.entry import Entry as JournalEntry
from penstock.store.entry import decode
from penstock.store.store import Commit, LogStore, Written

_log = get_logger("cluster")

TOLD_AT_ONCE_MAX = RECENT_ENTRIES_MAX // 2
"""Entries that the core is told of in one step: it asks for them once more, from memory."""


class EngineOwner(Protocol):
    """Whom the engine tells what happened. Everything in order, on the event loop."""

    def send(self, to: NodeId, frame: Frame) -> None:
        """Send a frame to another node, or not."""

    def now_ms(self) -> int:
        """The time that a leader tells its followers."""

    def roles_changed(self, state: SoftState) -> None:
        """Who leads has changed, or this node's role."""

    def settled(self) -> None:
        """Say that this node leads, and has applied all that was decided before."""

    def apply(self, entry: JournalEntry) -> None:
        """An entry is committed and part of the journal."""

    def apply_change(self, entry: RaftEntry) -> None:
        """A change of the configuration is committed."""

    def applied(self, index: int) -> None:
        """All up to an entry is applied."""

    def answered(self, state: ReadState) -> None:
        """How far to apply before a read is current."""

    def rows_written(self, batch: Batch, written: Written) -> None:
        """A batch that had rows only is durable."""

    def committed_alone(self, batch: Batch, outcome: Commit | StorageError) -> None:
        """What became of a batch that was committed alone."""

    def idle(self) -> None:
        """The disk has nothing to do and the core wants nothing: whatever waited may begin."""

    def failed(self, error: BaseException) -> None:
        """The disk, or the log, is not what it should be: this node must end."""


class Engine:
    """A core, its record, its disk. ``raw`` is None until ``start``."""

    def __init__(
        self,
        store: LogStore,
        record: RaftRecord,
        owner: EngineOwner,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._store = store
        self._owner = owner
        self._loop = loop
        self.record = record
        self.raw: RawNode | None = None
        self.disk = Disk(store, loop, owner.committed_alone, self._fail)
        self.work = DiskWork()
        """What the writer gets next."""
        self.last_write = NO_COST
        self.durable_folded = 0
        """What is after this entry, a start would have to read for what the record says."""
        self.has_written = False
        """Whether this incarnation is on record: before, it must not number anything."""
        self._log: StoreLog
        self._in_flight: DiskWork | None = None
        self._commit = self._recovered = store.next_index - 1
        self._settled_term = 0
        self._change = 0
        """The last entry of the log that changes the configuration, as far as it is new."""
        self._wake_due = False
        self._is_closed = False

    @property
    def is_leader(self) -> bool:
        """Whether this node leads and has applied an entry of its own term."""
        if self.raw is None:
            return False
        node = self.raw.node  # asked with every request: straight to what it is
        return node.role is Role.LEADER and node.term == self._settled_term

    @property
    def has_tail(self) -> bool:
        """Whether something is in the log that is not applied."""
        return self.raw is None or self.raw.last_index != self.record.folded

    @property
    def is_quiet(self) -> bool:
        """Whether the disk does nothing, and nothing is gathered for it."""
        return not self.disk.is_busy and self.work.is_void

    def start(self, config: RaftConfig) -> None:
        """Take part. The record is written before this incarnation says anything to others."""
        self._log = StoreLog(self._store, self.record)
        self.raw = RawNode(config, self._log)
        self.work.needs_record = self.work.holds = True
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
        """Finish what the writer has, and do nothing more."""
        self._is_closed = True
        self.disk.close()

    def _fail(self, error: BaseException) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._owner.failed(error)

    def guarded(self, call: Callable[[], object]) -> None:
        """Call into the core; whatever goes wrong in it ends the node.

        A core that was left in the middle of something may lead, and never commit anything again.
        """
        try:
            call()
        except LogDamaged as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - a bug of ours; others can go on without us
            _log.exception("core_failed")
            self._fail(error)

    # ── Turning ───────────────────────────────────────────────────────────────────────────────

    def wake(self) -> None:
        """See what is to be done, once, after whatever else happens in this turn of the loop."""
        if not self._wake_due:
            self._wake_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._wake_due = False
        raw = self.raw
        if raw is not None and not self._is_closed:
            self.guarded(lambda: self._pump(raw))

    def _pump(self, raw: RawNode) -> None:
        """Take what the core wants until it wants nothing, or the disk is busy."""
        self.catch_up()
        while not self._is_closed:
            if not (self.disk.is_busy and self.record.is_alone()):
                while raw.has_ready():
                    self._take(raw.ready())
            if self.disk.is_busy:
                return
            work = self.work
            if work.is_void:
                self._owner.idle()
                return
            self.work = work.successor()
            if work.needs_disk:
                self._hand_to_disk(work)
                return
            self._done(work, None)

    def _take(self, ready: Ready) -> None:
        """Sort what is to be done into now and after the disk."""
        work, record = self.work, self.record
        hard = ready.hard_state
        if hard is not None:
            self._commit = hard.commit
            if (hard.term, hard.vote) != (record.term, record.vote):
                record.term, record.vote = hard.term, hard.vote
                work.needs_record = work.holds = True
        if ready.entries:
            work.entries = joined(work.entries, ready.entries)
            record.terms = terms_with(record.terms, ready.entries)
            changes = [e.index for e in ready.entries if e.kind is not EntryKind.NORMAL]
            self._change = max([self._change, *changes])
        work.marks.append(ready.mark)
        if work.holds or (self._in_flight is not None and self._in_flight.holds):
            work.after += ready.messages
        else:
            self._send(ready.messages)
        work.after += [message for message in ready.after_persist if message.to != record.node_id]
        if ready.soft_state is not None:
            self._owner.roles_changed(ready.soft_state)
        if ready.committed:
            self._take_committed(ready.committed)
        for state in ready.read_states:
            self._owner.answered(state)

    def _take_committed(self, entries: Sequence[RaftEntry]) -> None:
        """Have committed entries folded; those that a start has folded already, apply at once."""
        assert self.raw is not None
        known = [entry for entry in entries if entry.index <= self._recovered]
        for entry in known:
            self._apply_known(entry)
        if known:
            self.raw.applied(known[-1].index)
        if len(known) < len(entries):
            self.work.fold_to = entries[-1].index

    def _hand_to_disk(self, work: DiskWork) -> None:
        """Fold and write. All that is folded by then is committed by the record, too."""
        self._in_flight = work
        record = self.record
        write = work.write(encode_record(record), self._committed()) if work.needs_write else None
        folded = record.folded

        def done(written: Written | None) -> None:
            self._in_flight = None
            if written is not None:
                self.last_write = written
                self.durable_folded = folded
                self.has_written = True
            self.guarded(lambda: self._done(work, written))
            self.wake()

        self.disk.perform(work.fold_to, write, self._folded, done)

    def _committed(self) -> int | None:
        """How far the log is committed, for the record; None: to its end, whatever is added.

        That is so where nobody else has a say, but not while somebody is to join: a start would
        take that entry for one whose consequences are in the record.
        """
        is_changing = self._change > self.record.folded
        return None if self.record.is_alone() and not is_changing else self._commit

    def _done(self, work: DiskWork, written: Written | None) -> None:
        """All of a work is durable: tell the core, and let go what waited for it."""
        if self._is_closed:
            return
        assert self.raw is not None
        self._log.stable(work.entries)
        for mark in work.marks:
            self.raw.persisted(mark)
        self._send(work.after)
        for then in work.thens:
            then(None)
        for batch in work.batches:
            self._owner.rows_written(batch, written or NO_COST)

    def _send(self, messages: Sequence[RaftMessage]) -> None:
        assert self.raw is not None
        now_ms = self._owner.now_ms() if self.raw.role is Role.LEADER else 0
        for message in messages:
            self._owner.send(message.to, RaftFrame(message, now_ms))

    # ── Applying ──────────────────────────────────────────────────────────────────────────────

    def _folded(self, entries: list[JournalEntry]) -> None:
        """Entries are part of the journal now: apply them all, or end. A start reads them anew."""
        if self._is_closed or not entries:
            return
        try:
            self._apply(entries)
        except Exception as error:  # noqa: BLE001 - whatever it is, our state is not the others'
            self._fail(error)
        self.wake()

    def _apply(self, entries: list[JournalEntry]) -> None:
        assert self.raw is not None
        for entry in entries:
            self.record.folded = entry.index
            change = entry.configuration
            if change is not None:
                kind, content = change
                self._owner.apply_change(RaftEntry(0, entry.index, content, EntryKind(kind)))
                self.work.needs_record = True
            self._owner.apply(entry)
        self.raw.applied(entries[-1].index)
        self._applied(entries[-1].index)

    def _apply_known(self, entry: RaftEntry) -> None:
        """Take note of an entry that the store, and the broker, have from before this start."""
        record = self.record
        record.folded = entry.index
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

    def committed_alone(self, index: int) -> None:
        """A batch was committed without asking anybody: the core is told before it is used again.

        That is once for many: nobody else has a say, so there is nothing that could come between.
        """
        if index != self.record.folded:  # else there were rows only
            self.record.folded = self._commit = index
            self._owner.applied(index)

    def catch_up(self) -> None:
        """Have the core make the steps that were made without it: entries, on disk, applied.

        What they hold lies in the store; nobody needs it here.
        """
        raw, folded = self.raw, self.record.folded
        while raw is not None and raw.last_index < folded:
            raw.propose([b""] * min(folded - raw.last_index, TOLD_AT_ONCE_MAX))
            ready = raw.ready()
            self._log.stable(ready.entries)
            raw.persisted(ready.mark)
            committed = raw.ready().committed
            assert ready.entries[-1].index == committed[-1].index
            raw.applied(committed[-1].index)
            self._log.forget()
