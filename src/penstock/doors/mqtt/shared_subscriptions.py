"""Shared subscriptions of MQTT: ``$share/<group>/<filter>``, each message to one member.

A client that subscribes so becomes a **member** of the group of every topic that the filter
matches. The group is a group like any other (``core/group``), so its members may as well come by
other doors, and a message that one of them did not finish goes to another. A member is a worker of
the group's dispatcher (``dispatch/dispatcher``): what it was given is its own until it acknowledges
it (PUBACK) or leaves. Nothing of this passes through the session: no queue, no retained messages,
no live routes.

**Which topics.** One by its name, whether it exists or not. With wildcards: those that exist, found
by one look through the journal's topics; then those that appear, seen when they are committed. A
group that is made so begins *now*, as a subscription does; one that is there goes on where it is.
The workers of a queue by name (``dispatch/queue_names``) begin with the jobs that have waited for
them.

**Which QoS.** 1 at most, as a handshake that outlives its connection would bind a message to a
client that may never come back. A message of QoS 0, or a subscription of QoS 0: sent, and done.

**Packet ids** are from the upper half, which the session leaves alone (``core/session``). A
connection begins with none in flight: what the last one left has gone to others.

**How much.** All memberships of a client share one window. Dispatchers ask for room one by one, and
two may give at once what was free once; what is too much for the ids goes back.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple, Protocol

from penstock.commit.completion import Callback
from penstock.commit.feed import Part
from penstock.core.delivery import DELIVER_DUP, Delivery
from penstock.core.session import PACKET_ID_MAX
from penstock.core.subscriptions import SubscriptionTrie
from penstock.dispatch.dispatcher import Job
from penstock.dispatch.dispatchers import Start, StartAt
from penstock.dispatch.queue_names import WORKERS, is_queue
from penstock.doors.mqtt.parts import MqttParts
from penstock.limits import GROUP_BYTES_MAX
from penstock.model.topic import has_wildcard
from penstock.obs.log import printable
from penstock.obs.reasons import DisconnectReason
from penstock.store.store import Store

PREFIX = b"$share/"

SHARED_QOS_MAX = 1

WINDOW = 256
"""Messages that one client has at most, beside what ``limits.inflight_max`` allows: the rest of the
work is to be there for others."""

MEMBERSHIPS_MAX = 10_000
"""Topics that one client shares; each costs a dispatcher."""

TAKEN_UP_AT_ONCE = 256
"""Of those, so many are taken up before others have a turn."""

FIRST_ID, LAST_ID = PACKET_ID_MAX + 1, 65_535


class Share(NamedTuple):
    """What a shared subscription names."""

    group: bytes
    topic_filter: bytes


def is_shared(topic_filter: bytes) -> bool:
    """Whether a filter means a shared subscription, well-formed or not."""
    return topic_filter.startswith(PREFIX)


def parse_share(topic_filter: bytes) -> Share | None:
    """The parts of a shared subscription; None if it has not both, or no group can have the name.

    Where wildcards may stand was checked with the filter as a whole.
    """
    group, _, inner = topic_filter[len(PREFIX) :].partition(b"/")
    if not group or has_wildcard(group) or len(group) > GROUP_BYTES_MAX or not inner:
        return None
    return Share(group, inner)


class Recipient(Protocol):
    """The connection that messages go to."""

    def deliver(self, deliveries: list[Delivery]) -> None:
        """Send messages."""
        ...

    def may_take(self) -> bool:
        """Whether it reads fast enough to be given more; ``Sharing.ask`` when that has changed."""
        ...

    def is_id_taken(self, packet_id: int) -> bool:
        """Whether the session uses a packet id of ours: an earlier version gave it out."""
        ...

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        """The disk refused, or failed."""
        ...


class _Member:
    """A client in one group of one topic: a ``Worker`` of its dispatcher."""

    takes_turns = False
    settles = False
    visibility_ms = 0

    __slots__ = ("_sharing", "consumer", "group", "has_worked", "names", "topic")

    def __init__(self, sharing: "Sharing", topic: bytes, group: bytes) -> None:
        self._sharing = sharing
        self.topic = topic
        self.group = group
        self.consumer = sharing.consumer
        self.names: set[bytes] = set()
        """The subscriptions that made it a member."""
        self.has_worked = False

    def room(self) -> int:
        """How many more messages it can take now."""
        return self._sharing.room(self)

    def work(self, jobs: list[Job]) -> None:
        """Take messages."""
        self.has_worked = True
        self._sharing.send(self, jobs)

    def idle(self) -> None:
        """There is nothing: wait."""

    def limited(self, _retry_ms: int) -> None:
        """There will be something, in time."""

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        """The disk refused what it was to be given, or failed."""
        self._sharing.close(reason, detail)


class _Subscription:
    """One shared subscription; ``qos`` is that of the last time that it was asked for."""

    __slots__ = ("follower", "qos", "share")

    def __init__(self, share: Share, qos: int) -> None:
        self.share = share
        self.qos = qos
        self.follower: Callable[[Part], None] | None = None
        """Who is told of commits, if there are wildcards."""


class Sharing:
    """All shared subscriptions of one connection, and what it has of them."""

    def __init__(self, door: MqttParts, recipient: Recipient, number: int) -> None:
        self._door = door
        self._recipient = recipient
        self.consumer = b"mqtt#%d" % number
        self._subscriptions: dict[bytes, _Subscription] = {}
        self._members: dict[tuple[bytes, bytes], _Member] = {}
        """By topic and group."""
        self._hungry: dict[_Member, None] = {}
        """Members who had no room when they were asked."""
        self._in_flight: dict[int, tuple[_Member, int]] = {}
        """Leases by packet id."""
        self._last_id = LAST_ID
        self._window = min(door.connections.limits.inflight_max, WINDOW)

    # ── coming and going ──────────────────────────────────────────────────────────────────────

    def subscribe(self, name: bytes, share: Share, qos: int) -> None:
        """Become a member wherever the filter matches; subscribed again, the last QoS counts."""
        known = self._subscriptions.get(name)
        if known is not None:
            known.qos = qos
            return
        self._subscriptions[name] = _Subscription(share, qos)
        if has_wildcard(share.topic_filter):
            self._follow(name, share)
        else:
            self._take_up(name, share.topic_filter, _now(share.topic_filter, share.group))

    def _follow(self, name: bytes, share: Share) -> None:
        """Learn of topics that appear, then of those that are there: none comes between."""
        follower = self._subscriptions[name].follower = partial(self._grown, name)
        self._door.feed.follow(share.topic_filter, follower)
        store = self._door.readers.store
        self._door.readers.run(
            lambda: _topics_matching(store, share.topic_filter, MEMBERSHIPS_MAX),
            lambda topics: self._found(name, iter(topics)),
            lambda error: self.close(DisconnectReason.STORAGE_FAILED, error.message),
        )

    def _found(self, name: bytes, topics: Iterator[bytes]) -> None:
        """These exist, unless the client has changed its mind meanwhile; some at a time."""
        some = list(islice(topics, TAKEN_UP_AT_ONCE))
        if some and name in self._subscriptions:
            for topic in some:
                group = self._subscriptions[name].share.group
                self._take_up(name, topic, _now(topic, group))
            self._door.connections.loop.call_soon(self._found, name, topics)

    def _grown(self, name: bytes, part: Part) -> None:
        """A topic has grown that may be a new one: its group begins with what has come."""
        self._take_up(name, part.topic, Start(StartAt.OFFSET, part.first_offset))

    def _take_up(self, name: bytes, topic: bytes, start: Start) -> None:
        """Become a member of one group, made if it is not there."""
        group = self._subscriptions[name].share.group
        member = self._members.get((topic, group))
        if member is not None:
            member.names.add(name)
            return
        if len(self._members) >= MEMBERSHIPS_MAX:
            self._door.connections.complaints.warning("shares_limited", topics_max=MEMBERSHIPS_MAX)
            return
        if not self._door.dispatchers.may_have(topic, group):
            self._door.connections.complaints.warning("groups_limited", topic=printable(topic))
            return
        if self._door.admission.gate.admit_group(topic, group) is not None:
            return
        member = self._members[topic, group] = _Member(self, topic, group)
        member.names.add(name)
        made = Callback(lambda _value: self._join(member), self.close)
        self._door.dispatchers.make_group(topic, group, start, made)

    def _join(self, member: _Member) -> None:
        if self._members.get((member.topic, member.group)) is member:
            self._door.dispatchers.join(member.topic, member.group, member)

    def unsubscribe(self, name: bytes) -> None:
        """Be no member any longer on account of this subscription."""
        if name in self._subscriptions:
            self._unfollow(self._subscriptions.pop(name))
            for member in [member for member in self._members.values() if name in member.names]:
                member.names.discard(name)
                if not member.names:
                    self._leave(member)

    def _unfollow(self, subscription: _Subscription) -> None:
        if subscription.follower is not None:
            topic_filter = subscription.share.topic_filter
            self._door.feed.unfollow(topic_filter, subscription.follower)

    def leave_all(self) -> None:
        """The connection ends: what was not acknowledged goes to others."""
        for subscription in self._subscriptions.values():
            self._unfollow(subscription)
        self._subscriptions = {}
        for member in list(self._members.values()):
            self._leave(member)

    def _leave(self, member: _Member) -> None:
        dispatchers, topic, group = self._door.dispatchers, member.topic, member.group
        del self._members[topic, group]
        self._hungry.pop(member, None)
        for packet_id in [i for i, (owner, _) in self._in_flight.items() if owner is member]:
            del self._in_flight[packet_id]
        if member.has_worked or dispatchers.is_serving(topic, group, self.consumer):
            dispatchers.leave(topic, group, self.consumer)
        else:
            dispatchers.rest(topic, group, self.consumer)

    # ── messages ──────────────────────────────────────────────────────────────────────────────

    def room(self, member: _Member) -> int:
        """How many more messages a member can take; if none, it is asked for later."""
        room = self._window - len(self._in_flight) if self._recipient.may_take() else 0
        if room <= 0:
            self._hungry[member] = None
        return room

    def ask(self) -> None:
        """There may be room again."""
        hungry, self._hungry = self._hungry, {}
        for member in hungry:
            self._door.dispatchers.deal(member.topic, member.group)

    def send(self, member: _Member, jobs: list[Job]) -> None:
        """Send messages: those of QoS 0 are done with that."""
        at_most = max(self._subscriptions[name].qos for name in member.names)
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
                flags = SHARED_QOS_MAX | (DELIVER_DUP if job.deliveries > 1 else 0)
            else:
                done.append(job.lease)
            deliveries.append((message.topic, message.payload, flags, packet_id, message.sequence))
        self._recipient.deliver(deliveries)
        self._door.dispatchers.settle_leases(member.topic, member.group, done)
        self._door.dispatchers.return_leases(member.topic, member.group, refused, counts=False)

    def _next_id(self) -> int:
        """A packet id that is free; 0 if there is none."""
        if len(self._in_flight) > LAST_ID - FIRST_ID:
            return 0
        packet_id = self._last_id
        for _ in range(FIRST_ID, LAST_ID + 1):
            packet_id = packet_id + 1 if packet_id < LAST_ID else FIRST_ID
            if packet_id not in self._in_flight and not self._recipient.is_id_taken(packet_id):
                self._last_id = packet_id
                return packet_id
        return 0

    def holds(self, packet_id: int) -> bool:
        """Whether a packet id is that of a message on its way."""
        return packet_id in self._in_flight

    def settle(self, packet_ids: Iterable[int]) -> None:
        """The client has these messages, or nobody can have them any more: they are done."""
        leases_of: dict[_Member, list[int]] = {}
        for packet_id in packet_ids:
            held = self._in_flight.pop(packet_id, None)
            if held is not None:
                leases_of.setdefault(held[0], []).append(held[1])
        for member, leases in leases_of.items():
            self._door.dispatchers.settle_leases(member.topic, member.group, leases)
        self.ask()

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        """The disk refused, or failed: the client should come again."""
        self._recipient.close(reason, detail)


def _now(topic: bytes, group: bytes) -> Start:
    """Where a group begins that a subscription makes of a topic that is there."""
    has_waited = is_queue(topic) and group == WORKERS
    return Start(StartAt.EARLIEST if has_waited else StartAt.LATEST)


def _topics_matching(store: Store, topic_filter: bytes, count_max: int) -> list[bytes]:
    """Topics that exist and match, in the order of their names, so many at most."""
    trie: SubscriptionTrie[bytes] = SubscriptionTrie()
    trie.subscribe(topic_filter, topic_filter, 0)
    beginning = topic_filter.partition(b"+")[0].partition(b"#")[0].rstrip(b"/")
    found: list[bytes] = []
    for info in store.topics(beginning):
        if trie.match(info.name):
            found.append(info.name)
            if len(found) == count_max:
                break
    return found
