"""Shared subscriptions of one connection: ``$share/<name>/<filter>``, each message to one member.

A client that subscribes so becomes a **member** of the share's group (``core.shares``) of every
topic that the filter matches, a worker of the group's dispatcher among those of other protocols: a
message is leased to it until it acknowledges it (PUBACK) or leaves. Nothing of this passes through
the session. ``share_keeper`` looks after shares whose members are away.

**When.** A subscription is answered when all its groups are there: nothing that is published
afterwards is missed.

**Which topics.** A filter without wildcards names one, whether it exists or not. With wildcards:
the topics that exist, found by one scan of the journal's topics; then those that appear, seen when
they are committed. A new group begins *now*, as a subscription does; the workers of a queue
(``model/queue_names``) begin with the jobs that have waited.

**Which QoS.** 1 at most, as a handshake that outlives its connection would bind a message to a
client that may never reconnect. A message or subscription of QoS 0 is settled when it is sent.

**Packet ids** are from the upper half, which the session leaves alone (``core/session``).

**How much.** All memberships of a client share one window, and no more than the client's receive
maximum leaves: what it cannot be sent now is better off with another member. Dispatchers ask for
room one by one, so two may fill the same room; messages for which no packet id is left go back.

**Whose.** Topics that the client may not both receive and work on are left out, one by one.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Protocol

from penstock.commit.completion import Callback
from penstock.commit.feed import CommittedMessages
from penstock.core.delivery import (
    DELIVER_CONTENT_TYPE_SHIFT,
    DELIVER_DUP,
    DELIVER_PUBLISHED_RETAIN,
    Delivery,
    aged,
)
from penstock.core.session import PACKET_ID_MAX
from penstock.core.shares import WORKER_PREFIX, Share
from penstock.core.subscription_options import Marks, routed
from penstock.core.subscriptions import SubscriptionTrie
from penstock.dispatch.dispatcher import LeasedMessage
from penstock.dispatch.groups import Start, StartAt
from penstock.doors.mqtt.parts import MqttParts
from penstock.model.message import FLAG_RETAIN, FLAG_RETAIN_UNKEPT
from penstock.model.queue_names import WORKERS, is_queue
from penstock.obs.printable import printable
from penstock.obs.reasons import DisconnectReason
from penstock.store.store import Store
from penstock.trust.principal import Principal
from penstock.trust.rules import Action

SHARED_QOS_MAX = 1
WINDOW = 256  # messages in flight to one client, if ``limits.inflight_max`` allows as many
MEMBERSHIPS_MAX = 10_000  # topics that one client shares; each costs a dispatcher
JOINED_AT_ONCE = 256  # of those, joined in one turn of the loop
FIRST_ID, LAST_ID = PACKET_ID_MAX + 1, 65_535


class GroupClient(Protocol):
    """The connection that messages go to."""

    principal: Principal

    @property
    def is_5(self) -> bool: ...  # whether it speaks MQTT 5
    def deliver_shared(self, deliveries: list[Delivery], marks: Marks) -> None: ...
    def share_room(self) -> int: ...  # messages that it takes now; 0: ``ask_for_more`` follows
    def is_id_taken(self, packet_id: int) -> bool: ...  # by the session, from an earlier version
    def close(self, reason: DisconnectReason, detail: str = "") -> None: ...


class _Member:
    """A client in one group of one topic, a ``GroupWorker`` of its dispatcher."""

    takes_turns = False
    settles = False
    visibility_ms = 0

    __slots__ = ("_subscriptions", "consumer", "group", "has_worked", "names", "topic")

    def __init__(self, subscriptions: "SharedSubscriptions", topic: bytes, group: bytes) -> None:
        self._subscriptions = subscriptions
        self.topic = topic
        self.group = group
        self.consumer = subscriptions.consumer
        self.names: set[bytes] = set()  # the subscriptions that made it a member
        self.has_worked = False

    def room(self) -> int:
        return self._subscriptions.room(self)

    def work(self, jobs: list[LeasedMessage]) -> None:
        self.has_worked = True
        self._subscriptions.send(self, jobs)

    def idle(self) -> None:
        pass

    def limited(self, _retry_ms: int) -> None:
        pass

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        self._subscriptions.close(reason, detail)


class Countdown:
    """Calls ``ready`` once, when ``done`` was called for itself and for every ``wait``."""

    __slots__ = ("_left", "_ready")

    def __init__(self, ready: Callable[[], None]) -> None:
        self._left = 1
        self._ready = ready

    def wait(self) -> None:
        self._left += 1

    def done(self) -> None:
        self._left -= 1
        if not self._left:
            self._ready()


class _SharedFilter:
    """One shared subscription; ``groups`` counts those that are not there yet."""

    __slots__ = ("follower", "groups", "options", "share")

    def __init__(self, share: Share, options: int, ready: Callable[[], None]) -> None:
        self.share = share
        self.options = options
        self.groups = Countdown(ready)
        self.follower: Callable[[CommittedMessages], None] | None = None  # if it has wildcards


class SharedSubscriptions:
    """All shared subscriptions of one connection, and its messages in flight."""

    def __init__(self, door: MqttParts, client: GroupClient, number: int) -> None:
        self._door = door
        self._client = client
        self.consumer = (WORKER_PREFIX if client.is_5 else b"mqtt#") + b"%d" % number
        self._subscriptions: dict[bytes, _SharedFilter] = {}
        self._members: dict[tuple[bytes, bytes], _Member] = {}  # by topic and group
        self._starved: dict[_Member, None] = {}  # had no room when their dispatchers asked
        self._in_flight: dict[int, tuple[_Member, int]] = {}  # leases by packet id
        self._last_id = LAST_ID
        self._window = min(door.connections.limits.inflight_max, WINDOW)

    # ── joining and leaving ───────────────────────────────────────────────────────────────────

    def subscribe(self, name: bytes, share: Share, options: int, ready: Callable[[], None]) -> None:
        known = self._subscriptions.get(name)
        if known is not None:
            known.options = options
            ready()
            return
        subscription = self._subscriptions[name] = _SharedFilter(share, options, ready)
        if share.has_wildcard:
            self._follow(name, subscription)
        else:
            self._join_topic(name, share.topic_filter, _now(share.topic_filter, share.group))
            subscription.groups.done()

    def _follow(self, name: bytes, subscription: _SharedFilter) -> None:
        """Watch for new topics first, then list the existing ones: so none is missed."""
        topic_filter = subscription.share.topic_filter
        follower = subscription.follower = partial(self._grown, name)
        self._door.feed.follow(topic_filter, follower)
        store = self._door.readers.store
        self._door.readers.run(
            lambda: topics_matching(store, topic_filter, MEMBERSHIPS_MAX),
            lambda topics: self._found(name, subscription, iter(topics)),
            lambda error: self.close(DisconnectReason.STORAGE_FAILED, error.message),
        )

    def _found(self, name: bytes, subscription: _SharedFilter, topics: Iterator[bytes]) -> None:
        some = list(islice(topics, JOINED_AT_ONCE))
        if not some or self._subscriptions.get(name) is not subscription:
            subscription.groups.done()
            return
        for topic in some:
            self._join_topic(name, topic, _now(topic, subscription.share.group))
        self._door.connections.loop.call_soon(self._found, name, subscription, topics)

    def _grown(self, name: bytes, part: CommittedMessages) -> None:
        """A topic has grown that may be new: a new group begins with these messages."""
        self._join_topic(name, part.topic, Start(StartAt.OFFSET, part.first_offset))

    def _join_topic(self, name: bytes, topic: bytes, start: Start) -> None:
        subscription = self._subscriptions[name]
        group = subscription.share.group
        member = self._members.get((topic, group))
        if member is not None:
            member.names.add(name)
            return
        if not self._may_work(topic):
            return
        if len(self._members) >= MEMBERSHIPS_MAX:
            self._door.connections.throttled_log.warning(
                "shares_limited", topics_max=MEMBERSHIPS_MAX
            )
            return
        if not self._door.dispatchers.groups.has_room_for(topic, group):
            self._door.connections.throttled_log.warning("groups_limited", topic=printable(topic))
            return
        if self._door.admission.gate.admit_group(topic, group) is not None:
            return
        member = self._members[topic, group] = _Member(self, topic, group)
        member.names.add(name)
        groups = subscription.groups
        groups.wait()

        def joined(_value: object) -> None:
            self._join(member)
            groups.done()

        made = Callback(joined, self.close)
        create = self._door.dispatchers.groups.create
        create(topic, group, start, made, is_share=self._client.is_5)

    def lost_topic(self) -> bytes:
        """A topic that the client works on and may not any more; empty if there is none."""
        topics = (member.topic for member in self._members.values())
        return next((topic for topic in topics if not self._may_work(topic)), b"")

    def _may_work(self, topic: bytes) -> bool:
        allows, principal = self._door.admission.allows, self._client.principal
        return allows(principal, Action.WORK, topic) and allows(principal, Action.SUBSCRIBE, topic)

    def _join(self, member: _Member) -> None:
        if self._members.get((member.topic, member.group)) is member:
            self._door.dispatchers.join(member.topic, member.group, member)

    def unsubscribe(self, name: bytes) -> None:
        if name in self._subscriptions:
            self._unfollow(self._subscriptions.pop(name))
            for member in [member for member in self._members.values() if name in member.names]:
                member.names.discard(name)
                if not member.names:
                    self._leave(member)

    def _unfollow(self, subscription: _SharedFilter) -> None:
        if subscription.follower is not None:
            topic_filter = subscription.share.topic_filter
            self._door.feed.unfollow(topic_filter, subscription.follower)

    def leave_all(self) -> None:
        for subscription in self._subscriptions.values():
            self._unfollow(subscription)
        self._subscriptions = {}
        for member in list(self._members.values()):
            self._leave(member)

    def _leave(self, member: _Member) -> None:
        dispatchers, topic, group = self._door.dispatchers, member.topic, member.group
        del self._members[topic, group]
        self._starved.pop(member, None)
        for packet_id in [i for i, (owner, _) in self._in_flight.items() if owner is member]:
            del self._in_flight[packet_id]
        if member.has_worked or dispatchers.is_serving(topic, group, self.consumer):
            dispatchers.leave(topic, group, self.consumer)
        else:
            dispatchers.rest(topic, group, self.consumer)

    # ── messages ──────────────────────────────────────────────────────────────────────────────

    def room(self, member: _Member) -> int:
        """How many more messages a member can take; if none, ``ask_for_more`` will follow."""
        room = min(self._window - len(self._in_flight), self._client.share_room())
        if room <= 0:
            self._starved[member] = None
        return room

    def ask_for_more(self) -> None:
        starved, self._starved = self._starved, {}
        for member in starved:
            self._door.dispatchers.dispatch(member.topic, member.group)

    def send(self, member: _Member, jobs: list[LeasedMessage]) -> None:
        marks = self._marks(member)
        at_most = marks.qos
        deliveries: list[Delivery] = []
        done: list[int] = []
        refused: list[int] = []
        for job in jobs:
            message = job.message
            packet_id = flags = 0
            if min(at_most, message.qos):
                packet_id = self._next_id()
                if not packet_id:
                    refused.append(job.lease)
                    continue
                self._in_flight[packet_id] = member, job.lease
                flags = SHARED_QOS_MAX
                if job.deliveries > 1 and not self._client.is_5:
                    flags |= DELIVER_DUP  # in MQTT 5 it is a new delivery, to another client
            else:
                done.append(job.lease)
            flags |= message.content_type << DELIVER_CONTENT_TYPE_SHIFT
            if message.flags & (FLAG_RETAIN | FLAG_RETAIN_UNKEPT):
                flags |= DELIVER_PUBLISHED_RETAIN
            extras = aged(message.extras, message.time_ms)
            deliveries.append(
                (message.topic, message.payload, flags, packet_id, message.sequence, extras)
            )
        self._client.deliver_shared(deliveries, marks)
        self._door.dispatchers.leases.settle(member.topic, member.group, done)
        self._door.dispatchers.leases.give_back(member.topic, member.group, refused, counts=False)

    def _marks(self, member: _Member) -> Marks:
        """What the subscriptions that made it a member say together."""
        return Marks.of([routed(self._subscriptions[name].options) for name in member.names])

    def marks_of(self, packet_id: int) -> Marks | None:
        """The same for a message in flight."""
        held = self._in_flight.get(packet_id)
        return None if held is None else self._marks(held[0])

    def _next_id(self) -> int:
        if len(self._in_flight) > LAST_ID - FIRST_ID:
            return 0
        packet_id = self._last_id
        for _ in range(FIRST_ID, LAST_ID + 1):
            packet_id = packet_id + 1 if packet_id < LAST_ID else FIRST_ID
            if packet_id not in self._in_flight and not self._client.is_id_taken(packet_id):
                self._last_id = packet_id
                return packet_id
        return 0

    def holds(self, packet_id: int) -> bool:
        return packet_id in self._in_flight

    def settle(self, packet_ids: Iterable[int]) -> None:
        leases_of: dict[_Member, list[int]] = {}
        for packet_id in packet_ids:
            held = self._in_flight.pop(packet_id, None)
            if held is not None:
                leases_of.setdefault(held[0], []).append(held[1])
        for member, leases in leases_of.items():
            self._door.dispatchers.leases.settle(member.topic, member.group, leases)
        self.ask_for_more()

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        self._client.close(reason, detail)


def _now(topic: bytes, group: bytes) -> Start:
    has_waited = is_queue(topic) and group == WORKERS
    return Start(StartAt.EARLIEST if has_waited else StartAt.LATEST)


def topics_matching(store: Store, topic_filter: bytes, count_max: int) -> list[bytes]:
    trie: SubscriptionTrie[bytes] = SubscriptionTrie()
    trie.subscribe(topic_filter, topic_filter, 0)
    prefix = topic_filter.partition(b"+")[0].partition(b"#")[0].rstrip(b"/")
    found: list[bytes] = []
    for info in store.topics(prefix):
        if trie.match(info.name):
            found.append(info.name)
            if len(found) == count_max:
                break
    return found
