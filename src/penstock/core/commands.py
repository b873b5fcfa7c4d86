"""What changes the broker's state: one struct per command, in the order in which they are applied.

A command names its session by client id and carries everything it needs, time included, so that the
same object can be applied at once, after a commit, or from the journal after a restart, with the
same result. Those that change something durable are written to the journal as events, in the
compact form of ``to_event``; ``from_event`` is its inverse.

``Published`` is not written as an event: the journal has the message itself. ``Received`` is
written beside it and records the packet id of an exactly-once publish.
"""

from collections.abc import Iterator
from heapq import merge

import msgspec

from penstock.model.message import Extras, Message
from penstock.model.schedule import ScheduledMessage, Timing
from penstock.obs.reasons import DropReason


class _Event(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A command that is journaled as an array; its tag and the order of fields are durable."""


class _SessionEvent(_Event, frozen=True):
    client_id: bytes


class _GroupEvent(_Event, frozen=True):
    topic: bytes
    group: bytes


class _SinkEvent(_Event, frozen=True):
    sink: bytes


class WillMessage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What to publish when a client disconnects unexpectedly."""

    topic: bytes
    payload: bytes
    qos: int
    retain: bool
    headers: tuple[tuple[bytes, bytes], ...] = ()  # its properties (``model.mqtt_headers``)
    expiry_s: int = -1  # message expiry, counted from its publication; -1: none
    delay_s: int = 0  # how long it waits for the client to come back


class SessionOpened(_SessionEvent, frozen=True, tag=1):
    """A client connected. ``connection`` is unique among all connections ever accepted."""

    connection: int
    clean: bool  # Clean Start: forget the session that was there
    will: WillMessage | None
    # whether all nodes of a cluster must know the session: client ids are unique among them
    everywhere: bool = False
    heir_of: int = 0  # the connection at another node that it takes over, whose will was published
    # whether queued messages are sent in portions; former versions sent all at once
    is_paced: bool = False
    user: str = ""  # "": nobody, or there were no users
    # what nobody may do (``local``, ``anonymous``), and what limits a user: roles of a token
    roles: tuple[str, ...] = ()
    via: str = ""  # the kind of credentials, where rights depend on it: jwt, key
    version: int = 4  # protocol level: 4 is MQTT 3.1.1, 5 is MQTT 5.0
    # session expiry; -1: none if ``clean``, else the configured limit, as for MQTT 3.1.1
    expiry_s: int = -1
    receive_maximum: int = 0  # deliveries in flight that the client takes; 0: it names no limit
    now_ms: int = 0  # a session that expired by then is gone; 0: written by former versions


class Closed(_SessionEvent, frozen=True, tag=2):
    """A connection of the client ended; void if a newer one has the session.

    With ``will_at_ms`` the will of the connection is to be published then, or when the session
    ends, if that is earlier. Former versions have published it before.
    """

    connection: int
    now_ms: int
    expiry_s: int = -1  # another session expiry, from DISCONNECT; -1: unchanged
    will_at_ms: int = 0  # when the will is due; 0: never


class WillSent(_SessionEvent, frozen=True, tag=47):
    """The will that a connection left was published by the same commit, or may not be published."""

    connection: int


class Expired(_SessionEvent, frozen=True, tag=3):
    """The session expired; void if ``connection`` is not its last one."""

    connection: int


class Subscribed(_SessionEvent, frozen=True, tag=4):
    """SUBSCRIBE: ``(filter, options)``.

    Options are those of the packet with the granted QoS, and a subscription identifier in the bits
    above (``core.subscription_options``). With bit 7 set they are the code of a refused filter.

    ``origin``, here and below, is the connection that began the session. In a cluster a command may
    arrive when the client has another session already; then it is void. 0 (as former versions
    wrote) means any.
    """

    packet_id: int
    requests: list[tuple[bytes, int]]
    origin: int = 0
    # when shared subscriptions among them begin, and retained messages must not have expired
    now_ms: int = 0  # 0: not known


class Unsubscribed(_SessionEvent, frozen=True, tag=5):
    """UNSUBSCRIBE."""

    packet_id: int
    filters: list[bytes]
    origin: int = 0


class Offered(_SessionEvent, frozen=True, tag=6):
    """A page of retained messages for a subscription: ``(topic, sequence, qos)`` each.

    For a durable session it is a separate command, a commit after ``Subscribed``, because it
    depends on what is retained at that moment, which a replay cannot know. The first page answers
    with SUBACK; later ones have no ``return_codes``. Void if ``connection`` no longer has the
    session, or if the offer has another number.
    """

    connection: int
    packet_id: int
    return_codes: list[int]
    offers: list[tuple[bytes, int, int]]
    # those of QoS 0: sent with the others, but neither remembered nor written
    live: list[tuple[bytes, int, int]] = []
    # of the offer (``core.retained_offers``); 0: written before there were pages, and complete
    number: int = 0
    since: int = 0  # position of the offer when the page was made; void at any other
    after: int = 0  # position of the offer after these messages
    is_last: bool = True


class Replayed(_SessionEvent, frozen=True, tag=60):
    """A page of the history of a subscription (``core.replay_offers``).

    ``runs`` are messages of QoS 1 and 2: first sequence, count, QoS. ``found`` are all messages of
    the page, as the client's node has read them; it is not written. Void if ``connection`` no
    longer has the session, or if the offer has another number or position.
    """

    connection: int
    number: int  # of the offer
    since: int  # position of the offer when the page was made
    after: int  # position of the offer after these messages
    runs: list[tuple[int, int, int]]
    step: int = 0  # what else it does (``core.replay_delivery``)
    found: list[Message] = []
    live: list[int] = []  # sequences of those of ``found`` that are sent with QoS 0; not written

    def each(self) -> Iterator[tuple[int, int]]:
        """Sequence and QoS of the messages, in order."""
        kept = ((first + n, qos) for first, count, qos in self.runs for n in range(count))
        return merge(kept, ((sequence, 0) for sequence in self.live))


class Drained(_SessionEvent, frozen=True, tag=45):
    """The client has read enough: send the next portion of its queue."""

    connection: int


class Acknowledged(_SessionEvent, frozen=True, tag=7):
    """PUBACK, PUBREC or PUBCOMP (``kind``) from a subscriber.

    ``connection`` is where it came from; 0: any. In a cluster the client may be at another node by
    now, where everything unfinished is sent and acknowledged again. Then it is void: a PUBREL for
    what is about to be repeated would make the client take the repetition for a new message.
    """

    kind: int
    packet_ids: list[int]
    connection: int = 0


class Received(_SessionEvent, frozen=True, tag=8):
    """Packet ids of QoS 2 messages from this client, journaled with them.

    ``connection`` as with ``Acknowledged``. If the client is at another node by now it has repeated
    them there, and a leader refuses them (``core.stale_publishes``).
    """

    packet_ids: list[int]
    origin: int = 0
    connection: int = 0


class Released(_SessionEvent, frozen=True, tag=9):
    """PUBREL from a publisher: these packet ids may be used for new messages.

    ``connection`` as with ``Acknowledged``: a client at another node has repeated it there, and may
    use the ids again already.
    """

    packet_ids: list[int]
    connection: int = 0


class DeliveriesLost(_SessionEvent, frozen=True, tag=10):
    """Messages in flight that retention has removed: their packet ids are free again.

    So are those of messages that the client may no longer be sent (``is_denied``). Void if
    ``connection`` no longer has the session, as its packet ids are others.
    """

    connection: int
    packet_ids: list[int]
    is_denied: bool = False
    is_expired: bool = False  # expired before they were sent for the first time
    is_too_large: bool = False  # for the client, which counts as delivered

    @classmethod
    def because(
        cls, reason: DropReason, client_id: bytes, connection: int, packet_ids: list[int]
    ) -> "DeliveriesLost":
        return cls(
            client_id,
            connection,
            packet_ids,
            is_denied=reason is DropReason.NOT_AUTHORIZED,
            is_expired=reason is DropReason.EXPIRED,
            is_too_large=reason is DropReason.TOO_LARGE,
        )


class Repeated(_SessionEvent, frozen=True, tag=11):
    """QoS 2 messages that came again while their first copy was being committed.

    They are acknowledged if that copy was stored; if not, the client must send them again. Nothing
    durable changes, so this is never written.
    """

    packet_ids: list[int]


# ── durable subscribers ───────────────────────────────────────────────────────────────────────


class Progressed(_SessionEvent, frozen=True, tag=12):
    """A durable subscriber acknowledged offsets of a topic: ``(first, end)`` ranges."""

    topic: bytes
    ranges: list[tuple[int, int]]
    now_ms: int
    user: str = ""  # void if the subscriber belongs to another user


class Identified(_SessionEvent, frozen=True, tag=38):
    """A connection of the binary protocol has a client id from now on.

    Any other connection with that id, at whatever node, is closed. The durable subscriber belongs
    to ``user``; void if it belongs to another. Without users only a cluster needs this command,
    and nothing durable changes.
    """

    connection: int
    user: str = ""
    now_ms: int = 0


class Forgotten(_SessionEvent, frozen=True, tag=13):
    """A durable subscriber expired; void if it was seen after ``seen_ms``."""

    seen_ms: int


# ── groups ────────────────────────────────────────────────────────────────────────────────────


class GroupMade(_GroupEvent, frozen=True, tag=14):
    """Create a group of a topic that starts with the message of ``start``."""

    start: int
    reader: bool = False  # whether it only records how far a client has read
    since: int = 0  # messages before are left to other groups; 0: none
    rest: bool = False  # whether it starts with what no group has done, deleted ones included
    backoff_ms: int = 0
    # default pause between deliveries after the second; the first retry is immediate
    backoff_max_ms: int = 0
    # whether it ends with the shared subscription that it was made for (``core.shares``)
    is_share: bool = False


class GroupMoved(_GroupEvent, frozen=True, tag=15):
    """The group continues with the message of ``start``."""

    start: int
    done: int = -1  # as with ``GroupGone``


class GroupGone(_GroupEvent, frozen=True, tag=16):
    """Delete a group."""

    done: int = -1
    """Messages before were done by some group, or are gone. What this group has done is remembered
    if it starts there; -1: nothing is, because the topic is a log.
    """


class ConsumerMade(_GroupEvent, frozen=True, tag=17):
    """Create a consumer of a group."""

    consumer: bytes
    now_ms: int


class ConsumerGone(_GroupEvent, frozen=True, tag=18):
    """Delete a consumer with its pending messages."""

    consumer: bytes


class Taken(_GroupEvent, frozen=True, tag=19):
    """Consumers take messages: ``(consumer, count)`` each, one after the other.

    ``first`` and ``end`` are the offsets of the topic when this was requested, ``gone`` the ranges
    known to be deleted. What exactly is taken is determined when it is applied, because other
    commands may come before it. With ``settle`` the messages count as done at once.
    """

    shares: list[tuple[bytes, int]]
    first: int
    end: int
    now_ms: int
    settle: bool
    gone: list[tuple[int, int]] = []


class Settled(_GroupEvent, frozen=True, tag=20):
    """Pending messages are done: ranges of offsets."""

    ranges: list[tuple[int, int]]


class Returned(_GroupEvent, frozen=True, tag=21):
    """A worker left: its pending messages go to others."""

    consumer: bytes


class Claimed(_GroupEvent, frozen=True, tag=22):
    """A consumer takes over messages of others, if they are idle for long enough."""

    consumer: bytes
    offsets: list[int]
    min_idle_ms: int
    now_ms: int
    taken_ms: int  # when they count as taken; a client may choose another time than now
    deliveries: int | None  # their new delivery count; None: one more than before (or as before)
    counts: bool  # whether this counts as a delivery
    forces: bool  # whether messages that are not pending are claimed as well
    renews: bool = False  # whether only the consumer's own messages are meant


# ── leases ────────────────────────────────────────────────────────────────────────────────────


Run = tuple[int, int, int]  # consecutive messages of one priority: priority, first offset, end

Scheduled = tuple[int, int, int]  # a message that is not due yet: offset, time due, priority


class Leased(_GroupEvent, frozen=True, tag=24):
    """A group delivers messages, which the proposer has chosen (``core.selection``).

    ``version`` and ``generation`` are those of the group at that time. If the group was moved or
    has delivered anything since, nothing happens, because others may have chosen the same messages.
    """

    version: int
    first: int  # offsets below no longer exist
    heads: list[int]  # heads of the group afterwards, per priority; one number: the same for all
    ahead: int  # messages beyond the lowest head that were delivered, afterwards
    first_lease: int  # number of the first lease; the others follow in the order of ``shares``
    now_ms: int
    # consumer (empty: the lease identifies it), deadline (0: none), and messages
    shares: list[tuple[bytes, int, list[Run]]]
    delayed: list[Scheduled] = []  # messages passed over because they are not due
    expired: list[int] = []  # messages passed over because they have expired
    generation: int = -1  # -1 (written by former versions): any

    @property
    def workers(self) -> tuple[bytes, ...]:
        """Named workers that are given messages until they leave."""
        return tuple(name for name, _, _ in self.shares if name)


class LeasesSettled(_GroupEvent, frozen=True, tag=25):
    """Messages of these leases are done: ranges of lease numbers."""

    leases: list[tuple[int, int]]


class LeasesReturned(_GroupEvent, frozen=True, tag=26):
    """Deliver the messages of these leases again, ``delay_ms`` from now at the earliest.

    Without ``counts`` they never reached a client, and do not count as delivered.
    """

    leases: list[tuple[int, int]]
    now_ms: int
    delay_ms: int = 0
    reason: bytes = b""
    counts: bool = True
    # whether the group's backoff applies; a client that vanished has not failed
    is_failure: bool = True
    is_final: bool = False  # do not deliver them again: they become dead letters


class LeasesExtended(_GroupEvent, frozen=True, tag=27):
    """These leases end at ``deadline_ms``."""

    leases: list[tuple[int, int]]
    deadline_ms: int


class Swept(_GroupEvent, frozen=True, tag=28):
    """Time has passed: end leases that ran out, return messages that are due."""

    now_ms: int


class Resumed(_Event, frozen=True, tag=43):
    """The broker was unavailable, or had no leader: extend the leases of all groups."""

    now_ms: int


class GroupCommitted(_GroupEvent, frozen=True, tag=29):
    """Everything below ``offset`` is done. Never moves a group back."""

    offset: int
    ahead: int


class GroupConfigured(_GroupEvent, frozen=True, tag=30):
    """How a group redelivers failed messages; None: unchanged."""

    max_deliveries: int | None
    backoff_ms: int | None
    backoff_max_ms: int | None


class DeadLettered(_GroupEvent, frozen=True, tag=31):
    """Exhausted messages were published as dead letters by the same commit."""

    offsets: list[int]


# ── topics ────────────────────────────────────────────────────────────────────────────────────


class TopicConfigured(_Event, frozen=True, tag=32):
    """Create a topic or change its settings; None: unchanged."""

    topic: bytes
    rate_milli: int | None = None
    burst: int | None = None
    max_messages: int | None = None
    max_age_ms: int | None = None
    max_bytes: int | None = None
    keep: bool | None = None


class TopicGone(_Event, frozen=True, tag=33):
    """Delete a topic and everything that belongs to it."""

    topic: bytes


class Trimmed(_Event, frozen=True, tag=39):
    """Delete messages of a topic below an offset.

    ``topic_id`` identifies the topic: a later one of the same name has the same offsets. The store
    deletes them, on every node; doing so twice is harmless.
    """

    topic: bytes
    topic_id: int
    below: int


class Erased(_Event, frozen=True, tag=40):
    """Delete single messages of a topic: ranges of offsets. See ``Trimmed``."""

    topic: bytes
    topic_id: int
    ranges: list[tuple[int, int]]


# ── sinks ─────────────────────────────────────────────────────────────────────────────────────


class SinkBegan(_SinkEvent, frozen=True, tag=34):
    """An epoch is decided: what was staged in these parts will be published, in their order.

    ``parts`` are names and numbers of blocks. Nothing can cancel it.
    """

    epoch: int
    parts: list[tuple[bytes, int]]
    note: bytes
    user: str = ""  # void if the sink belongs to another user


class SinkClaimed(_SinkEvent, frozen=True, tag=46):
    """A user stages rows for a sink, which belongs to that user if it was nobody's."""

    user: str


class SinkAdvanced(_SinkEvent, frozen=True, tag=35):
    """Its entry contains ``count`` messages of the epoch, which continue at ``place``."""

    epoch: int
    count: int
    place: tuple[int, int, int]  # numbers of the part, of the block in it, of the message in that


class SinkEnded(_SinkEvent, frozen=True, tag=36):
    """Its entry contains the last ``count`` messages of the epoch."""

    epoch: int
    count: int
    now_ms: int


class SinkForgotten(_SinkEvent, frozen=True, tag=37):
    """Forget a sink, unless it is publishing."""


# ── keys ──────────────────────────────────────────────────────────────────────────────────────


class KeyStored(_Event, frozen=True, tag=23):
    """Register or change a signing key."""

    key_id: int
    row: bytes


class KeysStored(_Event, frozen=True, tag=42):
    """Register or change several signing keys at once: a key and its successor."""

    rows: list[bytes]


class AccessChanged(_Event, frozen=True, tag=41):
    """Change users, roles, tokens or bans: all of these rows, or none.

    ``changes`` are ``trust.book.Change``: kind, name, row (None removes it). Void if ``expected``
    is neither -1 nor the version of the book.
    """

    changes: list[tuple[str, str, bytes | None]]
    by: str  # who did it: a user name, or how the broker was reached
    via: str  # the door
    peer: str  # the address
    now_ms: int
    expected: int = -1


class Authored(_Event, frozen=True, tag=44):
    """The message just retained for a topic was published by this user.

    Journaled behind the message, and only where there are users.
    """

    topic: bytes
    user: str


class RetainedExpired(_Event, frozen=True, tag=49):
    """Retained messages whose expiry is over: topics and sequences. Others stay."""

    messages: list[tuple[bytes, int]]


class PublishedBy(_SessionEvent, frozen=True, tag=48):
    """The next ``count`` messages of QoS 1 and 2 in the batch were published by this client.

    Journaled right before them, and only for clients with a subscription that wants no messages of
    their own: the journal does not know who published a message.
    """

    count: int


class _ScheduleEvent(_Event, frozen=True):
    name: bytes


class ScheduleMade(_ScheduleEvent, frozen=True, tag=61):
    """Create a scheduled publish; void if one of its name is active."""

    timing: Timing
    message: ScheduledMessage
    missed: str
    # by whose rights it publishes: as with ``SessionOpened``
    user: str
    roles: tuple[str, ...]
    via: str
    now_ms: int
    next_ms: int  # its first firing


class ScheduleFired(_ScheduleEvent, frozen=True, tag=62):
    """What was due at ``due_ms``, and maybe later, was published by the same commit, or was not.

    Void if the schedule is another by now, or has made this firing.
    """

    revision: int
    due_ms: int
    last_due_ms: int
    now_ms: int
    next_ms: int  # 0: it fires no more
    published: int
    refused: int
    skipped: int
    reason: str = ""
    detail: str = ""


class ScheduleCancelled(_ScheduleEvent, frozen=True, tag=63):
    """Forget a scheduled publish."""


class Published(msgspec.Struct, frozen=True, gc=False):
    """Messages of the batch from ``position`` on, to be routed, retained or both.

    Consecutive messages with the same topic, QoS and RETAIN share one command. ``packet_ids`` are
    to be acknowledged, if any.
    """

    topic: bytes
    payloads: list[bytes]
    qos: int
    retain: bool
    position: int
    time_ms: int
    packet_ids: list[int]
    keep: bool = False  # retry if the disk refuses it, because nobody else will
    extras: list[Extras | None] | None = None  # of each message, if any has some
    # further flags of the journal: content type, ``FLAG_RETAIN_UNKEPT``
    marks: int = 0


Event = (
    SessionOpened | Closed | Expired | Subscribed | Unsubscribed | Offered | Drained
    | Acknowledged | Received | Released | DeliveriesLost | Repeated | Progressed | Forgotten
    | GroupMade | GroupMoved | GroupGone | ConsumerMade | ConsumerGone | Taken | Settled
    | Returned | Claimed | KeyStored | Leased | LeasesSettled | LeasesReturned | LeasesExtended
    | Swept | Resumed | GroupCommitted | GroupConfigured | DeadLettered | TopicConfigured
    | TopicGone | SinkBegan | SinkAdvanced | SinkEnded | SinkForgotten | Identified | Trimmed
    | Erased | AccessChanged | KeysStored | Authored | SinkClaimed | WillSent | PublishedBy
    | RetainedExpired | Replayed | ScheduleMade | ScheduleFired | ScheduleCancelled
)  # fmt: skip
Command = Event | Published


def to_event(command: Event) -> tuple[object, ...]:
    """The command as it is journaled."""
    if isinstance(command, Offered) and command.live:
        command = msgspec.structs.replace(command, live=[])
    elif isinstance(command, Replayed) and command.found:
        command = msgspec.structs.replace(command, found=[], live=[])
    plain: tuple[object, ...] = msgspec.to_builtins(command, builtin_types=(bytes,))
    return plain


def from_event(event: tuple[object, ...]) -> Event:
    command: Event = msgspec.convert(event, Event)
    return command
