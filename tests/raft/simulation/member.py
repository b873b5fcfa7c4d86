"""One node: the core with a driver around it, as the broker's own drives it.

What comes goes into the core; what it has to say is taken as a Ready, written as one batch and
acted upon when that is durable. Several batches may be on their way. Messages of ``after_persist``
wait for their batch. So do the others if the batch has another term or vote.
"""

from __future__ import annotations

import zlib
from collections import deque
from typing import TYPE_CHECKING, Any

from penstock.raft.types import MessageKind, Role
from tests.raft.simulation.core import CONF_CHANGES
from tests.raft.simulation.disk import Batch, Disk, State
from tests.raft.simulation.oracle import Violation, conf_parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.raft.simulation.world import World


class Member:
    """A node by its id. It restarts; ``incarnation`` tells which run an event was meant for."""

    def __init__(self, world: World, node: int, disk: Disk, pace: int) -> None:
        self.world = world
        self.id = node
        self.disk = disk
        self.pace = pace
        self.incarnation = 0
        self.raw: Any = None
        self.is_gone = False
        """Shut down for good: removed, or its disk is lost."""
        self.stalled_until = 0
        self.next_sync = ""
        """What happens to the next batch: nothing, ``full`` or ``error``."""
        self.disk_delay = 0
        self._reset()

    def _reset(self) -> None:
        """What a process starts with: nothing but what is on the disk."""
        self.log = self.disk.log.copy()
        """The log as handed out: that on the disk and what is on its way there."""
        self.hard = self.disk.hard
        self.state = self.disk.state
        self.conf = self.disk.state.conf
        self.applied = self.disk.state.index
        self.pending: deque[Batch] = deque()
        self.asked: dict[bytes, int] = {}
        """Proposals that a client waits for, with the term in which they were taken."""
        self.reads: dict[bytes, int] = {}
        self.received: dict[tuple[int, int], State] = {}
        self.commit_seen = self.disk.hard.commit
        self.has_change = False
        """A change was proposed and is not in the log as handed out yet."""

    # ── Start and crash

    def start(self) -> None:
        assert self.raw is None
        assert not self.is_gone
        self.incarnation += 1
        self._reset()
        self.raw = self.world.new_core(self)
        self.world.oracle.restarts(self.id, self.disk, self.raw)
        self.world.note(self.id, "starts", self.disk.hard)
        self.world.at(self.pace, self.tick, self.incarnation)
        self.pump()

    def crash(self) -> None:
        if self.raw is None:
            return
        self.raw = None
        self.incarnation += 1
        self.stalled_until = 0
        self.next_sync = ""
        lost = self.disk.crash()
        self.world.seen.update(lost)
        self.world.note(self.id, "crashes", +lost)
        self._reset()

    def is_leader(self) -> bool:
        return self.raw is not None and self.raw.role == Role.LEADER

    # ── What comes

    def tick(self, incarnation: int) -> None:
        if incarnation != self.incarnation:
            return
        world = self.world
        is_skipped = world.now < self.stalled_until or (
            not world.is_quiet and world.random.random() < 0.03
        )
        world.at(self.pace, self.tick, incarnation)
        if not is_skipped:
            self.feed(self.raw.tick)

    def receive(self, message: Any, state: State | None) -> None:
        if state is not None:
            self.received[message.snapshot.index, message.snapshot.term] = state
        self.feed(self.raw.step, message)

    def hears_of(
        self, incarnation: int, other: int, is_snapshot: bool, is_ok: bool = False
    ) -> None:
        """The transport tells that something did not arrive, or that a snapshot did."""
        if incarnation != self.incarnation or self.raw is None:
            return
        if is_snapshot:
            self.feed(self.raw.report_snapshot, other, is_ok)
        else:
            self.feed(self.raw.report_unreachable, other)

    def feed(self, call: Callable[..., Any], *arguments: Any) -> None:
        call(*arguments)
        self._observe()
        self.pump()

    def _observe(self) -> None:
        """Check decisions as soon as they are made, before they are sent."""
        raw, oracle = self.raw, self.world.oracle
        commit = raw.commit
        if raw.role == Role.LEADER:
            if oracle.leaders.get(raw.term) != self.id:
                oracle.leads(self.id, raw.term)
                self.world.elected(self)
            if commit != self.commit_seen:
                oracle.counted(self.id, raw.term, commit, self.conf)
        self.commit_seen = commit

    # ── What goes out

    def pump(self) -> None:
        depth = self.world.profile.depth
        while len(self.pending) < depth and self.raw is not None and self.raw.has_ready():
            self._take(self.raw.ready())

    def _take(self, ready: Any) -> None:
        """Note what a Ready says, hand it to the disk, send what need not wait."""
        self.has_change = False
        promised = (self.hard.term, self.hard.vote)
        self._note_log(ready)
        for entry in ready.committed:
            self._apply(entry)
        for read in ready.read_states:
            self._answer(read)
        is_promise = promised != (self.hard.term, self.hard.vote)
        batch = Batch(ready, self.state, tuple(ready.messages) if is_promise else ())
        if not is_promise:
            self._send_now(ready.messages)
        self._write(batch)

    def _note_log(self, ready: Any) -> None:
        oracle = self.world.oracle
        if ready.snapshot is not None:
            self._install(ready.snapshot)
        if ready.entries:
            entries = tuple(ready.entries)
            oracle.appended(self.id, self.log, self.hard.commit, entries)
            self.log.put(entries)
        if ready.hard_state is not None:
            oracle.hardened(self.id, self.hard, ready.hard_state)
            oracle.commits(self.id, self.log, self.hard.commit, ready.hard_state)
            self.hard = ready.hard_state
        if self.raw.role == Role.LEADER:
            oracle.has_everything(self.id, self.raw.term, self.log)
            if ready.entries:
                oracle.one_change_at_a_time(self.id, self.log, self.applied, self.raw.term)

    def _install(self, meta: Any) -> None:
        state = self.received.get((meta.index, meta.term))
        if state is None or meta.index <= self.state.index:
            raise Violation(f"node {self.id} installs {meta}, and has {self.state} already")
        self.world.oracle.installed(self.id, meta, state)
        self.log.reset(meta.index, meta.term)
        self.state = state
        self.conf = meta.conf_state
        self.world.seen["snapshots installed"] += 1

    def _apply(self, entry: Any) -> None:
        """The state machine: a digest of everything so far, and who takes part."""
        _, digest, conf = self.state
        digest = zlib.crc32(b"%d %d %b" % (entry.index, entry.term, entry.data), digest)
        if entry.kind in CONF_CHANGES:
            conf = self._changed(conf, entry)
        self.state = State(self.state.index + 1, digest, conf)
        self.world.oracle.applied(self.id, self.state, entry, self.disk)

    def _changed(self, conf: Any, entry: Any) -> Any:
        change = self.world.core.change_of(entry)
        after = self.world.core.configuration_after(conf, change)
        if self.world.profile.applies_early:
            self._configure(change, after)
        return after

    def _configure(self, change: Any, expected: Any) -> None:
        old = self.conf
        self.conf = self.raw.apply_conf_change(change)
        self.world.oracle.configured(self.id, old, self.conf, expected)
        self._observe()
        self.world.seen["conf changes applied"] += 1

    def _answer(self, read: Any) -> None:
        floor = self.reads.pop(bytes(read.context), None)
        if floor is not None:
            self.world.oracle.reads(self.id, read.index, floor)
            self.world.seen["reads"] += 1

    def _send_now(self, messages: Any) -> None:
        for message in messages:
            self.world.oracle.leaves(message, self.disk.hard, self.disk.log.last)
            self._send(message)

    def _send(self, message: Any) -> None:
        world = self.world
        if message.to == self.id:
            return
        world.note(self.id, "sends", message)
        is_snapshot = message.kind == MessageKind.SNAPSHOT
        state = self.disk.offered[message.snapshot.index] if is_snapshot else None
        if is_snapshot:
            world.seen["snapshots sent"] += 1
        world.network.send(message, state, self.incarnation)

    # ── The disk

    def _write(self, batch: Batch) -> None:
        self.pending.append(batch)
        if not batch.writes() and len(self.pending) == 1:
            batch.hard_then, batch.last_then = self.disk.hard, self.disk.log.last
            self._told(batch)
            return
        self.disk.write(batch)
        if len(self.disk.unsynced) == 1:
            self._begin_sync()

    def _begin_sync(self) -> None:
        world = self.world
        delay = 1 if world.is_quiet else world.random.randint(0, world.profile.sync_jitter)
        world.at(delay + self.disk_delay, self.sync, self.incarnation)

    def sync(self, incarnation: int) -> None:
        """The oldest batch is durable now, or the disk fails; the core is notified now or later."""
        if incarnation != self.incarnation:
            return
        if self.next_sync:
            self._fail_sync()
            return
        batch = self.disk.sync()
        if self.disk.unsynced:
            self._begin_sync()
        world = self.world
        is_late = world.random.random() < world.profile.told_late or batch is not self.pending[0]
        if world.now < self.stalled_until or is_late:
            world.at(world.random.randint(1, 8), self.told, incarnation)
        else:
            self._told(batch)
            self.pump()

    def _fail_sync(self) -> None:
        """Full: the batch is not written. Error: who knows. Either way the process ends."""
        world = self.world
        world.seen[f"sync {self.next_sync}"] += 1
        if self.next_sync == "full":
            self.disk.unsynced.clear()
        world.note(self.id, "sync fails", self.next_sync)
        self.crash()
        world.at(world.random.randint(20, 200), world.revive, self.id)

    def told(self, incarnation: int) -> None:
        """Notify the core of the oldest durable batch that it does not know of."""
        if incarnation != self.incarnation or not self.pending or self.pending[0].hard_then is None:
            return
        if self.world.now < self.stalled_until:
            self.world.at(self.stalled_until - self.world.now + 1, self.told, incarnation)
            return
        self._told(self.pending[0])
        self.pump()

    def _told(self, batch: Batch) -> None:
        assert batch is self.pending.popleft()
        ready = batch.ready
        self.world.oracle.told(batch)
        self.raw.persisted(ready.mark)
        self._observe()
        for message in batch.waiting:
            self._send(message)
        for message in ready.after_persist:
            self._send(message)
        self._applied(batch)

    def _applied(self, batch: Batch) -> None:
        ready = batch.ready
        if not ready.committed and ready.snapshot is None:
            return
        if not self.world.profile.applies_early:
            self._configure_late(ready.committed)
        self.applied = batch.state.index
        self.raw.applied(batch.state.index)
        self._observe()
        for entry in ready.committed:
            if entry.data and self.asked.pop(entry.data, None) == entry.term:
                self.world.note(self.id, "acknowledges", entry)
                self.world.oracle.acknowledges(entry.index, entry.data)
                self.world.clients.acknowledged(entry.index, entry.data)

    def _configure_late(self, committed: Any) -> None:
        for entry in committed:
            if entry.kind in CONF_CHANGES:
                change = self.world.core.change_of(entry)
                self._configure(change, self.world.core.configuration_after(self.conf, change))

    # ── For the end

    def has_all(self, index: int) -> bool:
        """Whether this node has applied as much, and uses a known configuration."""
        return (
            self.raw is not None
            and self.applied >= index
            and conf_parts(self.conf) == conf_parts(self.state.conf)
        )
