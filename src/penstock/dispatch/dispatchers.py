"""All open dispatchers with their workers, and the sweep of groups that have none.

Operations that need no worker are grouped by what they are about: ``leases``, ``groups``,
``topics``, ``dead_letters``.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from penstock.commit.completion import Callback
from penstock.core.commands import Resumed, Swept
from penstock.core.effects import GroupChanged
from penstock.core.groups import Group
from penstock.dispatch.backlog import Backlog
from penstock.dispatch.dead_letters import DeadLetters
from penstock.dispatch.dispatcher import Dispatcher, GroupWorker
from penstock.dispatch.groups import GroupOperations
from penstock.dispatch.leases import Leases
from penstock.dispatch.parts import DispatchParts
from penstock.dispatch.topics import TopicOperations
from penstock.net.connection_ids import must_clean_up, node_of_worker

REST_S = 10.0
RESTING_MAX = 256
"""How long a dispatcher without workers stays open, and how many such dispatchers there are."""

SWEPT_PER_TURN = 1_024  # groups without workers that are swept at a time

AHEAD_MAX = 64  # dispatchers that may read ahead: what they read is in memory


class Dispatchers:
    """The open dispatchers, by topic and group."""

    def __init__(self, parts: DispatchParts, *, are_leases_volatile: bool = False) -> None:
        """``are_leases_volatile``: a crash may lose the record of a lease."""
        self._parts = parts
        self._backlogs: dict[bytes, Backlog] = {}
        self._dispatchers: dict[bytes, dict[bytes, Dispatcher]] = {}
        # Dispatchers without workers and since when, longest first. They are kept for a while: a
        # worker that polls leaves and comes back each time, and opening a dispatcher costs reads.
        self._resting: dict[tuple[bytes, bytes], float] = {}
        self._ahead: set[Dispatcher] = set()
        self._unattended: list[Group] = []  # still to be swept
        self.topics = TopicOperations(parts, self._dispatch_all)
        self.groups = GroupOperations(parts, self.topics, self._backlogs, self.dispatch)
        self.leases = Leases(parts, self._returned, are_volatile=are_leases_volatile)
        self.dead_letters = DeadLetters(parts, self.topics, self.groups)
        parts.feed.on_dropped = self._dropped

    # ── workers ───────────────────────────────────────────────────────────────────────────────

    def join(self, topic: bytes, group: bytes, worker: GroupWorker) -> None:
        """Dispatch messages of a group to this worker, too."""
        dispatcher = self.dispatcher(topic, group) or self._open(topic, group)
        self._resting.pop((topic, group), None)
        dispatcher.join(worker)
        dispatcher.dispatch()

    def dispatcher(self, topic: bytes, group: bytes) -> Dispatcher | None:
        return self._dispatchers.get(topic, {}).get(group)

    def _open(self, topic: bytes, group: bytes) -> Dispatcher:
        backlog = self._backlogs.get(topic)
        if backlog is None:
            grown = partial(self._dispatch_all, topic)
            backlog = Backlog(self._parts, topic, self.topics.limits, grown)
            self._backlogs[topic] = backlog
        dispatcher = Dispatcher(self._parts, self, backlog, group)
        self._dispatchers.setdefault(topic, {})[group] = dispatcher
        return dispatcher

    def _dispatch_all(self, topic: bytes) -> None:
        self._parts.connections.turns.run(self._rounds(topic))

    def _rounds(self, topic: bytes) -> Iterator[None]:
        """One dispatcher at a time: there may be thousands."""
        for dispatcher in list(self._dispatchers.get(topic, {}).values()):
            dispatcher.dispatch()
            yield

    def dispatch(self, topic: bytes, group: bytes) -> None:
        """Call this when a worker has room again, or a group has something to dispatch."""
        dispatcher = self.dispatcher(topic, group)
        if dispatcher is not None:
            dispatcher.dispatch()

    def _returned(self, topic: bytes, group: bytes) -> None:
        """Messages came back: some may have failed too often, others can be dispatched."""
        self.dead_letters.move_exhausted(topic, group)
        self.dispatch(topic, group)

    def is_serving(self, topic: bytes, group: bytes, consumer: bytes) -> bool:
        """Whether messages are on their way to this worker, so that it should wait."""
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
        """Close the dispatcher that had no workers for longest."""
        topic, group = next(iter(self._resting))
        del self._resting[topic, group]
        self._close(self._dispatchers[topic][group])

    def may_read_ahead(self, dispatcher: Dispatcher) -> bool:
        if dispatcher not in self._ahead and len(self._ahead) < AHEAD_MAX:
            self._ahead.add(dispatcher)
        return dispatcher in self._ahead

    def _close(self, dispatcher: Dispatcher) -> None:
        dispatcher.close()
        self._ahead.discard(dispatcher)
        del self._dispatchers[dispatcher.topic][dispatcher.group]
        if not self._dispatchers[dispatcher.topic]:
            del self._dispatchers[dispatcher.topic]
            self._backlogs.pop(dispatcher.topic).close()

    def leave(self, topic: bytes, group: bytes, consumer: bytes) -> None:
        """A worker leaves, and its messages go to others."""
        self.rest(topic, group, consumer)
        self.leases.return_all_of(topic, group, consumer)

    def workers(self, topic: bytes, group: bytes) -> int:
        """The number of workers of a group."""
        dispatcher = self.dispatcher(topic, group)
        return len(dispatcher.workers) if dispatcher else 0

    def return_workers(self, is_gone: Callable[[int], bool]) -> None:
        """Return the messages of workers whose nodes are gone or have restarted.

        Leases with a deadline are left to it: only messages held until the worker leaves return.
        """
        for group in self._parts.broker.groups:
            for consumer, known in group.consumers.items():
                is_worker = any(group.pending[o].lease >= 0 for o in islice(known.pending, 1))
                if is_worker and is_gone(node_of_worker(consumer)):
                    self.leases.return_departed(group.topic, group.name, consumer)

    # ── the cluster ───────────────────────────────────────────────────────────────────────────

    def led(self, *, is_leader: bool) -> None:
        """Start to look after all groups as the leader, or stop."""
        self._unattended = []
        if not is_leader:
            return
        now_ms = self._parts.steady.now_ms()
        if any(group.leases for group in self._parts.broker.groups.timed):
            # Before anything else: workers could not settle while there was no leader.
            self._parts.pipeline.submit(Resumed(now_ms), None, durable=True)
        for group in self._parts.broker.groups:
            early = [
                p.lease for p in group.pending.values() if p.lease >= 0 and p.taken_ms > now_ms
            ]
            # A lease from the future would last for as long as the clock was set back.
            self.leases.give_back(group.topic, group.name, early, reason=b"clock set back")
            self.dead_letters.move_exhausted(group.topic, group.name)

    def group_changed(self, effect: GroupChanged) -> None:
        """Another node has changed a group: there may be something for workers of this node.

        Messages that were leased to a worker of ours without a request waiting here came too late:
        the request was refused, or was made by our last incarnation. Workers of a node that is gone
        are the leader's.
        """
        topic, group = effect.topic, effect.group
        if group is None:
            self._dispatch_all(topic)
            return
        for consumer in effect.workers:
            if must_clean_up(self._parts.cluster, node_of_worker(consumer)):
                self.leases.return_departed(topic, group, consumer)
        self._returned(topic, group)

    def _dropped(self, topic: bytes) -> None:
        """A topic is gone from disk: forget what was derived from its messages."""
        self._parts.broker.producers.forget_topic(topic)
        self.topics.limits.forget(topic)
        backlog = self._backlogs.get(topic)
        if backlog is not None:
            backlog.forget()
        for dispatcher in self._dispatchers.get(topic, {}).values():
            dispatcher.forget()

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
            offsets = self._backlogs[topic].offsets
            groups = [self._parts.broker.groups.get(topic, name) for name in dispatchers]
            if offsets is not None and all(groups):
                offsets.forget(min(group.next for group in groups if group))

    def _sweep_unattended(self) -> None:
        """Leases end and messages fall due in groups without workers, too."""
        now_ms = self._parts.steady.now_ms()
        swept_now = self._unattended[:SWEPT_PER_TURN]
        del self._unattended[:SWEPT_PER_TURN]
        for group in swept_now:
            wakes_ms = group.wakes_ms()
            is_due = wakes_ms is not None and wakes_ms <= now_ms
            if is_due and not self.workers(group.topic, group.name):
                swept = Swept(group.topic, group.name, now_ms)
                returned = partial(self._swept, group)
                self._parts.pipeline.submit(swept, Callback(returned), durable=True)
        if not self._unattended:
            self._unattended = list(self._parts.broker.groups.timed)

    def _swept(self, group: Group, _value: object) -> None:
        self._returned(group.topic, group.name)
