"""All dispatchers, and other operations on groups and topics: settle, return, create, delete.

Whoever asks for something durable names a *waiter*: its ``outcome`` is called when that is on
disk and applied, its ``close`` if the disk refused. Things that change nothing (an acknowledgement
of a lease that is over) are answered without the disk.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from itertools import islice
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

from penstock.commit.completion import Callback
from penstock.core.commands import (
    GroupCommitted,
    GroupGone,
    GroupMade,
    GroupMoved,
    LeasesExtended,
    LeasesReturned,
    LeasesSettled,
    Resumed,
    Returned,
    Swept,
    TopicConfigured,
    TopicGone,
)
from penstock.core.completion import Completion
from penstock.core.effects import GroupChanged, TopicEnded
from penstock.core.groups import Group
from penstock.dispatch.backlog import Backlog
from penstock.dispatch.dead_letters import DeadLetters
from penstock.dispatch.dispatcher import AGAIN_S, Dispatcher, Worker
from penstock.dispatch.parts import DispatchParts
from penstock.dispatch.unacked import ranges_of
from penstock.errors import StorageError
from penstock.limits import BACKOFF_MAX_MS_DEFAULT, BACKOFF_MS_DEFAULT, GROUPS_MAX
from penstock.net.connection_ids import must_clean_up, node_of_worker
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.retention.topic_limits import TopicLimits
from penstock.store.search import offset_at_time
from penstock.store.store import TopicInfo

REST_S = 10.0
RESTING_MAX = 256
"""How long a dispatcher stays open that nobody comes to, and how many of them."""

SWEPT_PER_TURN = 1_024
"""Groups without workers that are looked after at a time."""

AHEAD_MAX = 64
"""Dispatchers that may read ahead: what they have at hand is in memory."""


class StartAt(Enum):
    """Where a group begins that is made."""

    EARLIEST = 0
    LATEST = 1
    OFFSET = 2
    TIME = 3


class Start(NamedTuple):
    """Where a group begins that is made; the value is an offset, or a time in ms."""

    at: StartAt = StartAt.EARLIEST
    value: int = 0


class Dispatchers:
    """The dispatchers that are open, by topic and group."""

    def __init__(self, parts: DispatchParts, *, are_leases_volatile: bool = False) -> None:
        """``are_leases_volatile``: a crash may take back that leases were given."""
        self._parts = parts
        self._backlogs: dict[bytes, Backlog] = {}
        self._dispatchers: dict[bytes, dict[bytes, Dispatcher]] = {}
        self._resting: dict[tuple[bytes, bytes], float] = {}
        """Dispatchers without workers, and since when; longest first.

        Who asks once leaves each time and comes back for more, and to open a dispatcher costs
        reading.
        """
        self._making: set[bytes] = set()
        """Topics whose making is in the line. What they keep is decided: once the first of their
        messages is on disk, and that not known here yet, they would look like another door's."""
        self._ahead: set[Dispatcher] = set()
        """Dispatchers that read ahead."""
        self._next_lease = parts.clock.wall_ms() << 10 if are_leases_volatile else 0
        """A crash may undo the record of a lease while its worker still has it. So each incarnation
        has lease numbers of its own: an old worker must not settle what another one has."""
        self._returning: set[tuple[bytes, bytes, bytes]] = set()
        """Topics, groups and workers whose end is in the line, as nobody else would say it."""
        self._unattended: list[Group] = []
        """Groups in which time may have passed, still to be looked at."""
        self.limits = TopicLimits(parts.broker, parts.store, parts.readers, self._deal_all)
        self.dead_letters = DeadLetters(parts, self)
        parts.feed.on_dropped = self._dropped

    # ── workers ───────────────────────────────────────────────────────────────────────────────

    def join(self, topic: bytes, group: bytes, worker: Worker) -> None:
        """Give messages of a group to this worker, too."""
        dispatcher = self.dispatcher(topic, group) or self._open(topic, group)
        self._resting.pop((topic, group), None)
        dispatcher.join(worker)
        dispatcher.deal()

    def dispatcher(self, topic: bytes, group: bytes) -> Dispatcher | None:
        """A dispatcher that is open."""
        return self._dispatchers.get(topic, {}).get(group)

    def _open(self, topic: bytes, group: bytes) -> Dispatcher:
        backlog = self._backlogs.get(topic)
        if backlog is None:
            backlog = Backlog(self._parts, topic, self.limits, lambda: self._deal_all(topic))
            self._backlogs[topic] = backlog
        dispatcher = Dispatcher(self._parts, self, backlog, group)
        self._dispatchers.setdefault(topic, {})[group] = dispatcher
        return dispatcher

    def _deal_all(self, topic: bytes) -> None:
        self._parts.connections.turns.run(self._deals(topic))

    def _deals(self, topic: bytes) -> Iterator[None]:
        """Let each deal; there may be thousands."""
        for dispatcher in list(self._dispatchers.get(topic, {}).values()):
            dispatcher.deal()
            yield

    def deal(self, topic: bytes, group: bytes) -> None:
        """A worker of this group has room again, or there is something for one."""
        dispatcher = self.dispatcher(topic, group)
        if dispatcher is not None:
            dispatcher.deal()

    def is_serving(self, topic: bytes, group: bytes, consumer: bytes) -> bool:
        """Whether messages are on their way to this worker: it should wait for them."""
        dispatcher = self.dispatcher(topic, group)
        return dispatcher is not None and dispatcher.is_serving(consumer)

    def rest(self, topic: bytes, group: bytes, consumer: bytes) -> None:
        """A worker takes no more messages, but keeps those it has."""
        dispatcher = self.dispatcher(topic, group)
        if dispatcher is None:
            return
        dispatcher.leave(consumer)
        if not dispatcher.workers and (topic, group) not in self._resting:
            self._resting[topic, group] = self._parts.clock.monotonic()
            if len(self._resting) > RESTING_MAX:
                self._close_resting()

    def _close_resting(self) -> None:
        """Close the dispatcher that nobody came to for longest."""
        topic, group = next(iter(self._resting))
        del self._resting[topic, group]
        self._close(self._dispatchers[topic][group])

    def may_read_ahead(self, dispatcher: Dispatcher) -> bool:
        """Whether this dispatcher is one of those that may: there is memory for some."""
        if dispatcher not in self._ahead and len(self._ahead) < AHEAD_MAX:
            self._ahead.add(dispatcher)
        return dispatcher in self._ahead

    def _close(self, dispatcher: Dispatcher) -> None:
        dispatcher.end()
        self._ahead.discard(dispatcher)
        del self._dispatchers[dispatcher.topic][dispatcher.group]
        if not self._dispatchers[dispatcher.topic]:
            del self._dispatchers[dispatcher.topic]
            self._backlogs.pop(dispatcher.topic).close()

    def leave(self, topic: bytes, group: bytes, consumer: bytes) -> None:
        """A worker leaves that has messages until it does; they go to others."""
        self.rest(topic, group, consumer)
        _Returning(self._parts, self, Returned(topic, group, consumer)).submit()

    def workers(self, topic: bytes, group: bytes) -> int:
        """How many workers a group has now."""
        dispatcher = self.dispatcher(topic, group)
        return len(dispatcher.workers) if dispatcher else 0

    def return_workers(self, is_gone: Callable[[int], bool]) -> None:
        """What workers of some nodes had goes to others: those nodes are gone, or begin anew.

        Leases with an end go on until that; it is those who have messages until they leave.
        """
        for group in self._parts.broker.groups:
            for consumer, known in group.consumers.items():
                is_worker = any(group.pending[o].lease >= 0 for o in islice(known.pending, 1))
                if is_worker and is_gone(node_of_worker(consumer)):
                    self._return(group.topic, group.name, consumer)

    def _return(self, topic: bytes, group: bytes, consumer: bytes) -> None:
        """A worker is gone, if nobody has said so yet."""
        key = topic, group, consumer
        if key not in self._returning:
            self._returning.add(key)
            returned = _Returning(self._parts, self, Returned(topic, group, consumer))
            returned.then = partial(self._returning.discard, key)
            returned.submit()

    def led(self, *, is_leader: bool) -> None:
        """We lead from now on, and look after all groups; or no longer."""
        self._unattended = []
        if not is_leader:
            return
        now_ms = self._parts.steady.now_ms()
        if any(group.leases for group in self._parts.broker.groups.timed):
            # Before anything else: whoever has one could not use it while nobody led.
            self._parts.pipeline.submit(Resumed(now_ms), None, durable=True)
        for group in self._parts.broker.groups:
            early = [
                p.lease for p in group.pending.values() if p.lease >= 0 and p.taken_ms > now_ms
            ]
            # One from the future would go on for as long as the clock was set back.
            self.return_leases(group.topic, group.name, early, reason=b"clock set back")
            self.dead_letters.bury(group.topic, group.name)

    def group_changed(self, effect: GroupChanged) -> None:
        """Another node has changed something: there may be something for workers of ours.

        Messages that were leased to a worker of ours without a request waiting here came too late:
        the request was refused, or was made by our last incarnation. Workers of a node that is gone
        are the leader's.
        """
        topic, group = effect.topic, effect.group
        if group is None:
            self._deal_all(topic)
            return
        for consumer in effect.workers:
            if must_clean_up(self._parts.cluster, node_of_worker(consumer)):
                self._return(topic, group, consumer)
        self.dead_letters.bury(topic, group)
        self.deal(topic, group)

    def topic_ended(self, effect: TopicEnded) -> None:
        """Another node deleted a topic, and it is gone."""
        for client in list(self._parts.connections.clients):
            client.topic_deleted(effect.topic)
        self._deal_all(effect.topic)

    def next_leases(self, count: int) -> int:
        """Numbers that no lease had before: the first of so many."""
        first = max(self._next_lease, self._parts.broker.groups.next_lease)
        self._next_lease = first + count
        return first

    # ── settling and giving back ──────────────────────────────────────────────────────────────

    def settle_leases(
        self,
        topic: bytes,
        group: bytes,
        leases: list[int],
        waiter: Completion[object] | None = None,
    ) -> None:
        """Messages under leases are done with. Without a waiter it may take a little.

        ``waiter`` learns which leases were over: ``lapsed``, before the outcome.
        """
        known = self._parts.broker.groups.get(topic, group)
        held = self._held(topic, group, leases)
        if known is not None and len(held) < len(leases):
            held += [lease for lease in leases if known.lapsed.find(lease) is not None]
        _tell_lapsed(waiter, leases, held)
        if not held:
            _answer(waiter)
            return
        self._parts.counters.acknowledged_total += len(held)
        command = LeasesSettled(topic, group, ranges_of(held))
        if waiter is None:
            self._parts.pipeline.submit_patiently(command, None)
        else:
            self._parts.pipeline.submit(command, waiter, durable=True)

    def return_leases(
        self,
        topic: bytes,
        group: bytes,
        leases: list[int],
        waiter: Completion[object] | None = None,
        *,
        delay_ms: int = 0,
        reason: bytes = b"",
        counts: bool = True,
        is_failure: bool = True,
    ) -> None:
        """Messages under leases are to be handed out again."""
        held = self._held(topic, group, leases)
        if not held:
            _answer(waiter)
            return
        now_ms = self._parts.steady.now_ms()
        command = LeasesReturned(
            topic, group, ranges_of(held), now_ms, delay_ms, reason, counts, is_failure
        )
        self._parts.counters.returned_total += len(held)
        _Returning(self._parts, self, command, waiter).submit()

    def extend_leases(
        self,
        topic: bytes,
        group: bytes,
        leases: list[int],
        visibility_ms: int,
        waiter: Completion[object] | None = None,
    ) -> None:
        """Leases run for some time more, counted from now."""
        held = self._held(topic, group, leases)
        _tell_lapsed(waiter, leases, held)
        if not held:
            _answer(waiter)
            return
        deadline_ms = self._parts.steady.now_ms() + visibility_ms
        command = LeasesExtended(topic, group, ranges_of(held), deadline_ms)
        self._parts.pipeline.submit(command, waiter, durable=True)

    def _held(self, topic: bytes, group: bytes, leases: list[int]) -> list[int]:
        """Those of some leases that there are: all others are over, and nothing can be done."""
        known = self._parts.broker.groups.get(topic, group)
        return [lease for lease in leases if lease in known.leases] if known else []

    # ── groups ────────────────────────────────────────────────────────────────────────────────

    def info(self, topic: bytes) -> TopicInfo | None:
        """What there is of a topic; None also if its end is in the line.

        Whoever is told an offset now will use it behind that end, where offsets begin anew.
        """
        return None if self._parts.pipeline.is_dropping(topic) else self._parts.store.topic(topic)

    def end(self, topic: bytes) -> int:
        """The offset of the next message of a topic."""
        info = self.info(topic)
        return info.next_offset if info else 0

    def earliest(self, topic: bytes) -> int:
        """The oldest message that a new group gets."""
        info = self.info(topic)
        return self.limits.low(info) if info else 0

    def messages(self, topic: bytes) -> int:
        """How many messages a topic has that are not finished, nor beyond its limits."""
        info = self.info(topic)
        if info is None:
            return 0
        low = self.limits.low(info)
        deleted = info.deleted if low == info.first_offset else 0
        return max(info.next_offset - low - deleted, 0)

    def lag(self, group: Group) -> int:
        """How many messages a group has not done, without those that it will never be given.

        Whose time is over is known of topics that somebody has worked on since the start.
        """
        info = self.info(group.topic)
        if info is None:
            return 0
        first = self.limits.first_offset(info)
        lag = group.lag(info.next_offset, first)
        backlog = self._backlogs.get(group.topic)
        if backlog is None or backlog.lanes is None or not lag:
            return lag
        heads = [max(head, first) for head in group.heads]
        return max(
            lag - backlog.lanes.expired(heads, self._parts.steady.now_ms()), len(group.leases)
        )

    def may_have(self, topic: bytes, group: bytes) -> bool:
        """Whether there is such a group, or may be one more."""
        groups = self._parts.broker.groups
        return groups.count < GROUPS_MAX or groups.get(topic, group) is not None

    def make_group(
        self,
        topic: bytes,
        group: bytes,
        start: Start,
        waiter: Completion[object],
        *,
        reader: bool = False,
    ) -> None:
        """Make a group, if there is none; ``waiter`` learns whether there was none."""
        if self._parts.broker.groups.get(topic, group) is not None:
            waiter.done(False)
            return

        def made(offset: int) -> GroupMade:
            is_first = start.at is StartAt.EARLIEST
            return self.group_made(topic, group, offset, is_first=is_first, reader=reader)

        self._locate(topic, start, waiter, made)

    def group_made(
        self, topic: bytes, group: bytes, start: int, *, is_first: bool, reader: bool = False
    ) -> GroupMade:
        """What makes a group; ``is_first``: it starts at the beginning, wherever that is now.

        Only such a group is entitled to what has waited for somebody to do it. Where no other group
        still needs older messages, it gets what nobody has done.
        """
        since, is_rest = (0 if is_first else start), False
        if is_first and self.limits.is_used_up(topic):
            start = max(start, self.earliest(topic))
            is_rest = start >= self._parts.broker.groups.retired.low(topic) and not reader
        return GroupMade(
            topic,
            group,
            start,
            reader,
            since,
            is_rest,
            BACKOFF_MS_DEFAULT,
            BACKOFF_MAX_MS_DEFAULT,
        )

    def group_gone(self, topic: bytes, group: bytes) -> GroupGone:
        """What ends a group; what it has done of a queue topic stays done."""
        return GroupGone(topic, group, self._done(topic))

    def group_moved(self, topic: bytes, group: bytes, start: int) -> GroupMoved:
        """What moves a group; what it has done of a queue topic by now stays done."""
        return GroupMoved(topic, group, start, self._done(topic))

    def _done(self, topic: bytes) -> int:
        """Messages of a queue topic before this were done by some group; -1: it is a log."""
        info = self.info(topic)
        if info is None or not self.limits.is_used_up(topic):
            return -1
        return self._parts.broker.groups.reach(topic, self.limits.first_offset(info))

    def seek(self, topic: bytes, group: bytes, start: Start, waiter: Completion[object]) -> None:
        """Move a group."""
        moved = Callback(lambda value: self._moved(topic, group, waiter, value), waiter.refused)
        self._locate(topic, start, moved, lambda offset: self.group_moved(topic, group, offset))

    def _moved(self, topic: bytes, group: bytes, waiter: Completion[object], value: object) -> None:
        waiter.done(value)
        self.deal(topic, group)

    def _locate(
        self,
        topic: bytes,
        start: Start,
        waiter: Completion[object],
        command: Callable[[int], GroupMade | GroupMoved],
    ) -> None:
        """Find out which offset is meant, then submit the command with it."""

        def submit(offset: int) -> None:
            offset = min(offset, self.end(topic))  # which may be another topic's by now
            self._parts.pipeline.submit(command(offset), waiter, durable=True)

        def fail(error: StorageError) -> None:
            waiter.refused(DisconnectReason.STORAGE_FAILED, error.message)

        store = self._parts.store
        if start.at is StartAt.TIME:
            self._parts.readers.run(lambda: offset_at_time(store, topic, start.value), submit, fail)
            return
        if start.at is StartAt.EARLIEST:
            submit(self.earliest(topic))
        else:
            submit(self.end(topic) if start.at is StartAt.LATEST else start.value)

    def commit(self, topic: bytes, group: bytes, offset: int, waiter: Completion[object]) -> None:
        """Everything below an offset is done with; an offset beyond the end is that of the end."""
        info = self.info(topic)
        if info is None:
            _answer(waiter)
            return
        known = self._parts.broker.groups.get(topic, group)
        if known is None:
            made = self.group_made(topic, group, self.earliest(topic), is_first=True)
            self._parts.pipeline.submit(made, None, durable=True)
        offset = min(offset, info.next_offset)
        ahead = min(known.ahead, info.next_offset - offset) if known else 0
        committed = GroupCommitted(topic, group, offset, ahead)
        self._parts.pipeline.submit(committed, waiter, durable=True)

    # ── topics ────────────────────────────────────────────────────────────────────────────────

    def ensure_topic(self, topic: bytes, waiter: Completion[object] | None = None) -> None:
        """Let a topic exist. One that the journal knows by other doors keeps what it has."""
        is_made = topic in self._making and waiter is None
        if is_made or self._is_known(topic):
            _answer(waiter)
        else:
            self.configure_topic(TopicConfigured(topic), waiter)

    def configure_topic(
        self, command: TopicConfigured, waiter: Completion[object] | None = None
    ) -> None:
        """Make a topic or change its settings."""
        topic = command.topic
        if not self._is_known(topic):
            if command.keep is None and topic not in self._making:
                is_log = self.info(topic) is not None
                command = msgspec.structs.replace(command, keep=is_log)
            self._making.add(topic)
        applied = Callback(
            lambda value: self._configured(topic, waiter, value),
            lambda reason, detail: self._not_configured(topic, waiter, reason, detail),
        )
        self._parts.pipeline.submit(command, applied, durable=True)

    def _is_known(self, topic: bytes) -> bool:
        """Whether a topic was made, and will still be there when the line has moved on."""
        is_made = self._parts.broker.topics.get(topic) is not None
        return is_made and not self._parts.pipeline.is_dropping(topic)

    def _configured(self, topic: bytes, waiter: Completion[object] | None, value: object) -> None:
        self._making.discard(topic)
        if waiter is not None:
            waiter.done(value)
        self._deal_all(topic)

    def _not_configured(
        self, topic: bytes, waiter: Completion[object] | None, reason: DisconnectReason, detail: str
    ) -> None:
        self._making.discard(topic)
        if waiter is not None:
            waiter.refused(reason, detail)

    def delete_topic(self, topic: bytes, waiter: Completion[object]) -> None:
        """Delete a topic, its messages, groups and settings."""
        info = self._parts.store.topic(topic)
        if info is None and self._parts.broker.topics.get(topic) is None:
            groups = self._parts.broker.groups.by_topic.get(topic)
            if not groups:
                _answer(waiter)
                return
        count = info.count if info else 0
        self._making.discard(topic)
        gone = Callback(
            lambda value: self._topic_gone(topic, count, waiter, value),
            lambda reason, detail: self._not_gone(topic, waiter, reason, detail),
        )
        self._parts.pipeline.drop_topic(topic, TopicGone(topic), gone)

    def _not_gone(
        self, topic: bytes, waiter: Completion[object], reason: DisconnectReason, detail: str
    ) -> None:
        waiter.refused(reason, detail)
        self._deal_all(topic)

    def _dropped(self, topic: bytes) -> None:
        """A topic is no more on disk: what is derived from its messages must not outlast them."""
        self._parts.broker.producers.forget_topic(topic)
        self.limits.forget(topic)
        backlog = self._backlogs.get(topic)
        if backlog is not None:
            backlog.forget()
        for dispatcher in self._dispatchers.get(topic, {}).values():
            dispatcher.forget()

    def _topic_gone(
        self, topic: bytes, count: int, waiter: Completion[object], value: object
    ) -> None:
        """Nobody knows of a topic any more. Where that comes before the disk, wait for the disk."""
        if self._parts.pipeline.is_dropping(topic):
            again = partial(self._topic_gone, topic, count, waiter, value)
            self._parts.pipeline.when_committed(again)
            return
        self._parts.counters.drops[DropReason.TOPIC_DELETED] += count
        for client in list(self._parts.connections.clients):
            client.topic_deleted(topic)
        waiter.done(value)
        self._deal_all(topic)  # workers wait for the next topic of this name

    # ── time ──────────────────────────────────────────────────────────────────────────────────

    def turn(self) -> None:
        """Close idle dispatchers and sweep the groups that have no workers."""
        if self._parts.cluster.is_leader and not self._parts.connections.stalls.is_catching_up:
            self._sweep_unattended()
        rested_before = self._parts.clock.monotonic() - REST_S
        while self._resting and next(iter(self._resting.values())) < rested_before:
            topic, group = next(iter(self._resting))
            if self._backlogs[topic].has_times:  # the lag of its groups changes as time passes
                del self._resting[topic, group]
                self._resting[topic, group] = self._parts.clock.monotonic()
            else:
                self._close_resting()
        for topic, dispatchers in self._dispatchers.items():
            lanes = self._backlogs[topic].lanes
            groups = [self._parts.broker.groups.get(topic, name) for name in dispatchers]
            if lanes is not None and all(groups):
                lanes.forget(min(group.next for group in groups if group))

    def _sweep_unattended(self) -> None:
        """Leases end and messages fall due where nobody asks for any, too."""
        now_ms = self._parts.steady.now_ms()
        looked_at = self._unattended[:SWEPT_PER_TURN]
        del self._unattended[:SWEPT_PER_TURN]
        for group in looked_at:
            wakes_ms = group.wakes_ms()
            if wakes_ms is not None and wakes_ms <= now_ms and not self._is_attended(group):
                swept = Swept(group.topic, group.name, now_ms)
                bury = partial(self._swept, group)
                self._parts.pipeline.submit(swept, Callback(bury), durable=True)
        if not self._unattended:
            self._unattended = list(self._parts.broker.groups.timed)

    def _is_attended(self, group: Group) -> bool:
        return bool(self.workers(group.topic, group.name))

    def _swept(self, group: Group, _value: object) -> None:
        self.dead_letters.bury(group.topic, group.name)
        self.deal(group.topic, group.name)


def _answer(waiter: Completion[object] | None) -> None:
    if waiter is not None:
        waiter.done(0)


def _tell_lapsed(waiter: Completion[object] | None, leases: list[int], held: list[int]) -> None:
    """Tell which leases were over already, if somebody wants to know."""
    if len(held) < len(leases) and isinstance(waiter, LeaseWaiter):
        known = set(held)
        waiter.lapsed([lease for lease in leases if lease not in known])


@runtime_checkable
class LeaseWaiter(Completion[object], Protocol):
    """Wants to know which of the leases it settles were over already."""

    def lapsed(self, leases: list[int]) -> None: ...


class _Returning:
    """Messages on their way back: tried until the disk takes it, then dealt anew."""

    def __init__(
        self,
        parts: DispatchParts,
        dispatchers: Dispatchers,
        command: Returned | LeasesReturned,
        waiter: Completion[object] | None = None,
    ) -> None:
        self._parts = parts
        self._dispatchers = dispatchers
        self._command = command
        self._waiter = waiter
        self.then: Callable[[], None] | None = None
        """Called when they are back."""

    def submit(self) -> None:
        """Put it in the line."""
        self._parts.pipeline.submit(self._command, self, durable=True)

    def done(self, value: object) -> None:
        """They are back."""
        if self._waiter is not None:
            self._waiter.done(value)
        if self.then is not None:
            self.then()
        self._dispatchers.dead_letters.bury(self._command.topic, self._command.group)
        self._dispatchers.deal(self._command.topic, self._command.group)

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        """The disk refused. Whoever waits can ask again; otherwise nobody will."""
        if self._waiter is not None:
            self._waiter.refused(reason, detail)
        else:
            self._parts.connections.loop.call_later(AGAIN_S, self.submit)
