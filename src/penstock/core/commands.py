"""What changes the broker's state: one struct per command, in the order in which they are applied.

A command names its session by client id and carries everything it needs, time included, so that
the same object can be applied at once, after a commit, or from the journal after a restart, with
the same outcome. Those that change something durable are written to the journal as events, in the
compact form that ``to_event`` gives; ``from_event`` is its inverse.

``Published`` is not written as an event: the journal has the message itself. ``Received`` stands
beside it and remembers the packet id of an exactly-once publish.
"""

import msgspec


class WillMessage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What to publish for a client that vanishes."""

    topic: bytes
    payload: bytes
    qos: int
    retain: bool


class SessionOpened(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A client connected. ``connection`` is unique among all connections ever accepted."""

    client_id: bytes
    connection: int
    clean: bool
    will: WillMessage | None
    everywhere: bool = False
    """Whether all nodes of a cluster are to know of the session, whatever it is: a client id is
    unique among them."""
    heir_of: int = 0
    """The connection, at another node, that it takes over and whose will was published by now."""
    is_paced: bool = False
    """Whether what waits is sent in portions; an earlier version put all of it in flight."""


class Closed(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """That connection of the client ended; nothing happens if a newer one has the session."""

    client_id: bytes
    connection: int
    now_ms: int


class Expired(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """The session's time ran out, if ``connection`` is still the last one it had."""

    client_id: bytes
    connection: int


class Subscribed(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """SUBSCRIBE: ``(filter, granted QoS)``, 0x80 for a filter that was refused at the door.

    ``origin``, here and below: the session that is meant, by the connection that began it. In a
    cluster a node may be late, and the client have another session by then; then it is void. 0: not
    asked, as where an earlier version wrote it.
    """

    client_id: bytes
    packet_id: int
    requests: list[tuple[bytes, int]]
    origin: int = 0


class Unsubscribed(msgspec.Struct, frozen=True, array_like=True, tag=5, gc=False):
    """UNSUBSCRIBE."""

    client_id: bytes
    packet_id: int
    filters: list[bytes]
    origin: int = 0


class Offered(msgspec.Struct, frozen=True, array_like=True, tag=6, gc=False):
    """A page of retained messages due to a subscription: ``(topic, sequence, qos)`` each.

    For a durable session a command of its own, a commit after ``Subscribed``: which messages they
    are depends on the retained messages of that moment, and those cannot be asked again when the
    journal is replayed. The first page answers SUBACK: those after it have no ``return_codes``.
    Void if ``connection`` does not have the session any more, or if the offer has another number.
    """

    client_id: bytes
    connection: int
    packet_id: int
    return_codes: list[int]
    offers: list[tuple[bytes, int, int]]
    live: list[tuple[bytes, int, int]] = []
    """Those of QoS 0: sent with the others, but nothing about them is remembered or written."""
    number: int = 0
    """Of the offer (``core/retained_offers``); 0: written before there were pages, and complete."""
    since: int = 0  # position of the offer when the page was made; it is void at any other
    after: int = 0  # position of the offer once these have been sent
    is_last: bool = True


class Drained(msgspec.Struct, frozen=True, array_like=True, tag=45, gc=False):
    """The client reads: send it the next portion of what waits in its session."""

    client_id: bytes
    connection: int


class Acknowledged(msgspec.Struct, frozen=True, array_like=True, tag=7, gc=False):
    """PUBACK, PUBREC or PUBCOMP (``kind``) from a subscriber.

    ``connection``: the one that it came by; 0: not asked, as with ``origin``. In a cluster it may
    be late, and the client be at another node by then, where all that was unfinished is repeated
    to it and acknowledged again. So it is void then: a PUBREL for what is about to be repeated
    would have the client take the repetition for a new message.
    """

    client_id: bytes
    kind: int
    packet_ids: list[int]
    connection: int = 0


class Received(msgspec.Struct, frozen=True, array_like=True, tag=8, gc=False):
    """Packet ids of QoS 2 messages from this client, journaled with them.

    ``connection``: the one that they came by, as with ``Acknowledged``. If the client is at another
    node by then it has repeated them there: a leader does not write them
    (``core.stale_publishes``).
    """

    client_id: bytes
    packet_ids: list[int]
    origin: int = 0
    connection: int = 0


class Released(msgspec.Struct, frozen=True, array_like=True, tag=9, gc=False):
    """PUBREL from a publisher: these packet ids are free to be used for new messages.

    ``connection`` as with ``Acknowledged``: if it is late, the client has repeated it elsewhere,
    and may use the ids again by now.
    """

    client_id: bytes
    packet_ids: list[int]
    connection: int = 0


class DeliveriesLost(msgspec.Struct, frozen=True, array_like=True, tag=10, gc=False):
    """Messages in flight that retention has taken from the journal: their ids are free again.

    Void if ``connection`` is not the one that has the session any more: its ids are others by now.
    """

    client_id: bytes
    connection: int
    packet_ids: list[int]


class Repeated(msgspec.Struct, frozen=True, array_like=True, tag=11, gc=False):
    """QoS 2 messages that came again while their first copy was on its way to the disk.

    They are acknowledged if that copy arrived; if not, the client must send them once more. Nothing
    durable changes, so this is never written.
    """

    client_id: bytes
    packet_ids: list[int]


# ── durable subscribers ───────────────────────────────────────────────────────────────────────


class Progressed(msgspec.Struct, frozen=True, array_like=True, tag=12, gc=False):
    """A durable subscriber acknowledged stretches of a topic: ``(first offset, one past last)``."""

    client_id: bytes
    topic: bytes
    ranges: list[tuple[int, int]]
    now_ms: int


class Identified(msgspec.Struct, frozen=True, array_like=True, tag=38, gc=False):
    """A connection of the binary protocol goes by a client id from now on, in a cluster.

    Whoever has had that id, at whatever node, must let go of it. Nothing durable changes.
    """

    client_id: bytes
    connection: int


class Forgotten(msgspec.Struct, frozen=True, array_like=True, tag=13, gc=False):
    """A durable subscriber's time ran out, if it was last seen when ``seen_ms`` says."""

    client_id: bytes
    seen_ms: int


# ── groups ────────────────────────────────────────────────────────────────────────────────────


class GroupMade(msgspec.Struct, frozen=True, array_like=True, tag=14, gc=False):
    """A group of a topic is to exist; the first message it hands out is that of ``start``."""

    topic: bytes
    group: bytes
    start: int
    reader: bool = False
    """Whether it stands for somebody who reads by itself, and only says how far."""
    since: int = 0  # messages before are left to other groups; 0: none are
    rest: bool = False
    """Whether it begins with what no group has done: what a group that is gone did stays done."""
    backoff_ms: int = 0
    backoff_max_ms: int = 0
    """How it repeats what failed until somebody says otherwise; the first time at once."""


class GroupMoved(msgspec.Struct, frozen=True, array_like=True, tag=15, gc=False):
    """The next new message that the group hands out is to be that of ``start``."""

    topic: bytes
    group: bytes
    start: int
    done: int = -1  # as with ``GroupGone``


class GroupGone(msgspec.Struct, frozen=True, array_like=True, tag=16, gc=False):
    """The group is to exist no more."""

    topic: bytes
    group: bytes
    done: int = -1
    """Messages before were done by some group, or are gone. What this one has done is to be
    remembered if it begins there; -1: nothing is, as the topic is a log."""


class ConsumerMade(msgspec.Struct, frozen=True, array_like=True, tag=17, gc=False):
    """A consumer of a group is to exist."""

    topic: bytes
    group: bytes
    consumer: bytes
    now_ms: int


class ConsumerGone(msgspec.Struct, frozen=True, array_like=True, tag=18, gc=False):
    """A consumer leaves its group for good, with all that it had not acknowledged."""

    topic: bytes
    group: bytes
    consumer: bytes


class Taken(msgspec.Struct, frozen=True, array_like=True, tag=19, gc=False):
    """Consumers take messages: ``(consumer, how many)`` each, one share after the other.

    ``first`` and ``end`` say which offsets the topic had when this was asked for, ``gone`` which
    stretches between were known to be deleted; what exactly is taken is found when it is applied,
    as others may stand in the line before it. With ``settle`` the messages count as done at once.
    """

    topic: bytes
    group: bytes
    shares: list[tuple[bytes, int]]
    first: int
    end: int
    now_ms: int
    settle: bool
    gone: list[tuple[int, int]] = []


class Settled(msgspec.Struct, frozen=True, array_like=True, tag=20, gc=False):
    """Messages that were taken are done with: stretches of offsets."""

    topic: bytes
    group: bytes
    ranges: list[tuple[int, int]]


class Returned(msgspec.Struct, frozen=True, array_like=True, tag=21, gc=False):
    """A worker is gone: what it had taken and not settled goes to others."""

    topic: bytes
    group: bytes
    consumer: bytes


class Claimed(msgspec.Struct, frozen=True, array_like=True, tag=22, gc=False):
    """A consumer takes over what others had taken, if that was long enough ago."""

    topic: bytes
    group: bytes
    consumer: bytes
    offsets: list[int]
    min_idle_ms: int
    now_ms: int
    taken_ms: int  # when they are to count as taken: now, unless the client asks for another time
    deliveries: int | None
    """How often they are to count as delivered; None: once more than before (or as before)."""
    counts: bool  # whether this is a delivery of its own
    forces: bool  # whether messages that nobody has taken are claimed, too
    renews: bool = False
    """Whether only what the consumer has already is meant: it looks at its own again."""


# ── leases ────────────────────────────────────────────────────────────────────────────────────


Run = tuple[int, int, int]
"""Messages of one priority in a row: priority, first offset, one past the last."""

Scheduled = tuple[int, int, int]
"""A message that is not to be handed out yet: offset, not before this time, priority."""


class Leased(msgspec.Struct, frozen=True, array_like=True, tag=24, gc=False):
    """A group hands out messages. Whoever proposes this has chosen them (``core/selection``).

    ``version`` is that of the group when they were chosen. If it was moved since, nothing happens.
    Nor does anything if others were given messages since (``generation``): they chose from the same
    ones.
    """

    topic: bytes
    group: bytes
    version: int
    first: int  # offsets below are no longer there
    heads: list[int]
    """Where the group stands afterwards, per priority; one number: the same for all."""
    ahead: int  # how many messages were handed out, afterwards, that lie beyond the lowest head
    first_lease: int  # the number of the first lease; the others follow, in the order of ``shares``
    now_ms: int
    shares: list[tuple[bytes, int, list[Run]]]
    """Who gets them (empty: whoever has the lease), until when (0: until it leaves), and which."""
    delayed: list[Scheduled] = []  # messages that were passed over as their time has not come
    expired: list[int] = []  # messages that were passed over as their time is over
    generation: int = -1
    """``Group.generation`` when they were chosen; -1 (written by earlier versions): any."""


class LeasesSettled(msgspec.Struct, frozen=True, array_like=True, tag=25, gc=False):
    """Messages under these leases are done with: stretches of lease numbers."""

    topic: bytes
    group: bytes
    leases: list[tuple[int, int]]


class LeasesReturned(msgspec.Struct, frozen=True, array_like=True, tag=26, gc=False):
    """Messages under these leases are to be handed out again, not before ``delay_ms`` from now.

    What ``counts`` not never reached a client: it is as if it had not been handed out.
    """

    topic: bytes
    group: bytes
    leases: list[tuple[int, int]]
    now_ms: int
    delay_ms: int = 0
    reason: bytes = b""
    counts: bool = True
    is_failure: bool = True
    """Whether the pause is due that a failure calls for. Who vanished may not have failed."""


class LeasesExtended(msgspec.Struct, frozen=True, array_like=True, tag=27, gc=False):
    """These leases run until ``deadline_ms``."""

    topic: bytes
    group: bytes
    leases: list[tuple[int, int]]
    deadline_ms: int


class Swept(msgspec.Struct, frozen=True, array_like=True, tag=28, gc=False):
    """Time has passed: leases that ran out are void, messages whose time has come are due."""

    topic: bytes
    group: bytes
    now_ms: int


class Resumed(msgspec.Struct, frozen=True, array_like=True, tag=43, gc=False):
    """The broker was away, or had no leader: the leases of all groups are given more time."""

    now_ms: int


class GroupCommitted(msgspec.Struct, frozen=True, array_like=True, tag=29, gc=False):
    """Everything below ``offset`` is done with. Never moves a group back."""

    topic: bytes
    group: bytes
    offset: int
    ahead: int


class GroupConfigured(msgspec.Struct, frozen=True, array_like=True, tag=30, gc=False):
    """How a group repeats what failed; None: as before."""

    topic: bytes
    group: bytes
    max_deliveries: int | None
    backoff_ms: int | None
    backoff_max_ms: int | None


class DeadLettered(msgspec.Struct, frozen=True, array_like=True, tag=31, gc=False):
    """Messages that failed too often were put with the dead letters, by the same commit."""

    topic: bytes
    group: bytes
    offsets: list[int]


# ── topics ────────────────────────────────────────────────────────────────────────────────────


class TopicConfigured(msgspec.Struct, frozen=True, array_like=True, tag=32, gc=False):
    """A topic is to exist, with these settings; None: as before."""

    topic: bytes
    rate_milli: int | None = None
    burst: int | None = None
    max_messages: int | None = None
    max_age_ms: int | None = None
    max_bytes: int | None = None
    keep: bool | None = None


class TopicGone(msgspec.Struct, frozen=True, array_like=True, tag=33, gc=False):
    """A topic is to exist no more, nor anything that belongs to it."""

    topic: bytes


class Trimmed(msgspec.Struct, frozen=True, array_like=True, tag=39, gc=False):
    """Messages of a topic below an offset are to go.

    ``topic_id`` is that of the topic that was meant: another of its name begins anew, with the same
    offsets. It is the store that forgets them, on every node; doing so twice does no harm.
    """

    topic: bytes
    topic_id: int
    below: int


class Erased(msgspec.Struct, frozen=True, array_like=True, tag=40, gc=False):
    """Single messages of a topic are to go: stretches of offsets. See ``Trimmed``."""

    topic: bytes
    topic_id: int
    ranges: list[tuple[int, int]]


# ── sinks ─────────────────────────────────────────────────────────────────────────────────────


class SinkBegan(msgspec.Struct, frozen=True, array_like=True, tag=34, gc=False):
    """It is decided: what was staged in these parts is published, in their order.

    ``parts`` are names and numbers of blocks. From here on nothing but the end can follow.
    """

    sink: bytes
    epoch: int
    parts: list[tuple[bytes, int]]
    note: bytes


class SinkAdvanced(msgspec.Struct, frozen=True, array_like=True, tag=35, gc=False):
    """The entry that has this has messages of the epoch, too: so many, and here they go on."""

    sink: bytes
    epoch: int
    count: int
    place: tuple[int, int, int]
    """Number of the part, of the block within it, of the message within that."""


class SinkEnded(msgspec.Struct, frozen=True, array_like=True, tag=36, gc=False):
    """The entry that has this has the last messages of the epoch: so many."""

    sink: bytes
    epoch: int
    count: int
    now_ms: int


class SinkForgotten(msgspec.Struct, frozen=True, array_like=True, tag=37, gc=False):
    """A sink is to be as if it had never been, unless it is about to publish."""

    sink: bytes


# ── keys ──────────────────────────────────────────────────────────────────────────────────────


class KeyStored(msgspec.Struct, frozen=True, array_like=True, tag=23, gc=False):
    """A signing key is to be known as this row of the key ring says."""

    key_id: int
    row: bytes


class Published(msgspec.Struct, frozen=True, gc=False):
    """Messages of the batch from ``position`` on, to be routed, retained or both.

    Several at once if they came back to back with the same topic, QoS and RETAIN, which is what
    busy publishers send. ``packet_ids`` are to be acknowledged; none if nobody waits for that.
    """

    topic: bytes
    payloads: list[bytes]
    qos: int
    retain: bool
    position: int
    time_ms: int
    packet_ids: list[int]
    keep: bool = False  # if the disk refuses it, try again: nobody else will


Event = (
    SessionOpened
    | Closed
    | Expired
    | Subscribed
    | Unsubscribed
    | Offered
    | Drained
    | Acknowledged
    | Received
    | Released
    | DeliveriesLost
    | Repeated
    | Progressed
    | Forgotten
    | GroupMade
    | GroupMoved
    | GroupGone
    | ConsumerMade
    | ConsumerGone
    | Taken
    | Settled
    | Returned
    | Claimed
    | KeyStored
    | Leased
    | LeasesSettled
    | LeasesReturned
    | LeasesExtended
    | Swept
    | Resumed
    | GroupCommitted
    | GroupConfigured
    | DeadLettered
    | TopicConfigured
    | TopicGone
    | SinkBegan
    | SinkAdvanced
    | SinkEnded
    | SinkForgotten
    | Identified
    | Trimmed
    | Erased
)
Command = Event | Published


def to_event(command: Event) -> tuple[object, ...]:
    """The journal's form of a command."""
    if isinstance(command, Offered) and command.live:
        command = msgspec.structs.replace(command, live=[])
    plain: tuple[object, ...] = msgspec.to_builtins(command, builtin_types=(bytes,))
    return plain


def from_event(event: tuple[object, ...]) -> Event:
    """The command that an event of the journal stands for."""
    command: Event = msgspec.convert(event, Event)
    return command
