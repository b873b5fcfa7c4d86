"""One client's session: its subscriptions, messages in flight, queued messages.

A message in flight is an entry of ``inflight``: packet id → sequence and state, packed in one
integer. A queued message is an entry of ``queue``: sequence and QoS, packed. Neither holds a
payload; the journal has it. So sixty-five thousand unacknowledged messages take a few megabytes
whatever their size, and a session only costs what it uses.

Everything here follows from the order of commands alone. That is why packet ids need not be stored:
replaying the journal assigns the same ones.

States of a delivery (the sender's half of the two handshakes)::

    QoS 1   AWAIT_PUBACK ──PUBACK──► gone
    QoS 2   AWAIT_PUBREC ──PUBREC──► AWAIT_PUBCOMP ──PUBCOMP──► gone

**Packet ids.** A delivery gets the first free id from ``next_packet_id`` on, wrapping around.
Checking one after the other is fast while few are taken. With nearly all of them taken, a client
that acknowledges one at a time would cause a full scan for each, so after ``_LOOKS_MAX`` failed
checks a table of all ids is used (``_TakenIds``), until few are in flight again. Both choose the
same id.

Only the lower half of all ids is assigned here. Deliveries of shared subscriptions are not part of
the session, so no command tells which of their ids are in flight, and replay could not consider
them. They use the upper half.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Protocol, runtime_checkable

import msgspec

from penstock.core.commands import WillMessage
from penstock.core.completion import Refusable
from penstock.core.delivery_notes import DeliveryNotes
from penstock.core.live import Live, LiveClient
from penstock.core.pending_will import PendingWill
from penstock.core.replay_offers import ReplayOffer
from penstock.core.retained_offers import RetainedOffer
from penstock.core.subscription_options import Marks, is_marked
from penstock.obs.reasons import DisconnectReason

# Kinds of acknowledgement: the packet types of MQTT.
PUBACK, PUBREC, PUBREL, PUBCOMP = 4, 5, 6, 7

PUBREC_REFUSED = PUBREC | 0x80  # PUBREC with a code of 0x80 or above: it ends the delivery

# PUBREL and PUBCOMP for an id that is not known; 3.1.1 cannot tell
PUBREL_UNKNOWN, PUBCOMP_UNKNOWN = PUBREL | 0x80, PUBCOMP | 0x80

# States of a delivery; the first two equal its QoS.
AWAIT_PUBACK, AWAIT_PUBREC, AWAIT_PUBCOMP = 1, 2, 3

_EXPECTED = {
    PUBACK: AWAIT_PUBACK,
    PUBREC: AWAIT_PUBREC,
    PUBCOMP: AWAIT_PUBCOMP,
    PUBREC_REFUSED: AWAIT_PUBREC,
}
_STATE = 0b011
_RETAIN = 0b100
_SHIFT = 3

PACKET_ID_MAX = 32_767  # highest packet id of a session's own deliveries, and so the most in flight

# topics noted between two pages of retained messages; beyond it the next page is void
OVERTAKEN_MAX = 10_000

# all packet ids, created once: a separate int object in each session would take 28 bytes
_IDS = tuple(range(PACKET_ID_MAX + 1))

# longest scan for a free packet id; as many deliveries take as much memory as the table
_LOOKS_MAX = 1_024


@runtime_checkable
class Publisher(Refusable, Protocol):
    """A connection whose publishes are acknowledged by packet id, or sequence."""

    def acknowledge(self, kind: int, packet_ids: list[int]) -> None: ...

    def publish_refused(self, qos: int, packet_ids: list[int], reason: DisconnectReason) -> None:
        """Messages were not stored. Whoever cannot be told is closed, and sends them again."""


class SessionClient(Publisher, LiveClient, Protocol):
    """The connection of an MQTT session, as the broker and its effects see it."""

    def accept(self, session: "Session", *, session_present: bool) -> None: ...

    def subscribed(self, packet_id: int, return_codes: list[int]) -> None: ...

    def unsubscribed(self, packet_id: int, existed: list[bool]) -> None: ...

    def forward_marked(self, live: Live, marks: Marks) -> None:
        """As ``forward``, to a client whose subscriptions are more than a QoS."""

    def offer_more(self, *, is_page_done: bool = False) -> None:
        """Send the next page of retained messages, if there is room."""

    def replay_more(self, *, is_page_done: bool = False) -> None:
        """Send the next page of history, if there is room."""

    def drain_more(self) -> None:
        """Send the next portion of the messages that waited for the client."""


class _SessionRow(msgspec.Struct, array_like=True):
    """A session as a row of the checkpoint."""

    client_id: bytes
    durable: bool
    connected: bool
    connection: int
    away_since_ms: int = 0
    next_packet_id: int = 1
    applied: int = 0
    will: WillMessage | None = None
    subscriptions: dict[bytes, int] = {}
    inflight: list[tuple[int, int]] = []
    queue: list[int] = []
    received: list[int] = []
    offering: int = 0
    overtaken: list[bytes] = []
    offer_floor: int = 0
    everywhere: bool = False
    origin: int = 0
    offers: list[RetainedOffer] = []
    offers_made: int = 0
    user: str = ""
    roles: tuple[str, ...] = ()
    via: str = ""
    shares: dict[bytes, int] = {}
    notes: DeliveryNotes | None = None
    version: int = 4
    expiry_s: int = -1
    receive_maximum: int = 0
    wills: tuple[PendingWill, ...] = ()
    replays: list[ReplayOffer] = []
    births: int | dict[bytes, int] = 0


_decoder = msgspec.msgpack.Decoder(_SessionRow)
_encoder = msgspec.msgpack.Encoder()


class _TakenIds:
    """A byte per packet id, 0 if it is free: finding one is a search for a byte.

    ``count`` is how many are marked. Deliveries may leave ``inflight`` unnoticed; then the numbers
    differ, and the table has to be rebuilt.
    """

    __slots__ = ("_marks", "count")

    def __init__(self, inflight: dict[int, int]) -> None:
        self._marks = bytearray(1 << 16)  # earlier versions have left higher ids in flight
        self._marks[0] = 1  # 0 is no packet id [MQTT-2.3.1-1]
        for packet_id in inflight:
            self._marks[packet_id] = 1
        self.count = len(inflight)

    def first_free(self, start: int) -> int:
        """The first free id from ``start`` on, wrapping around. There must be one."""
        found = self._marks.find(0, start, PACKET_ID_MAX + 1)
        return found if found >= 0 else self._marks.find(0)

    def take(self, first: int, count: int) -> None:
        self._marks[first : first + count] = b"\1" * count
        self.count += count

    def free(self, packet_id: int) -> None:
        self._marks[packet_id] = 0
        self.count -= 1


@lru_cache(maxsize=4)
def _packed(sequence: int, qos: int, count: int) -> tuple[int, ...]:
    """Consecutive deliveries: the same objects for all sessions that get them."""
    return tuple(range(sequence << _SHIFT | qos, sequence + count << _SHIFT, 1 << _SHIFT))


class Session:
    """State of one client id. ``client`` is its connection, or None."""

    __slots__ = (
        "_taken_ids",
        "applied",
        "away_since_ms",
        "births",
        "client",
        "client_id",
        "connected",
        "connection",
        "durable",
        "everywhere",
        "expiry_s",
        "inflight",
        "is_unordered",
        "marked_count",
        "next_packet_id",
        "notes",
        "offer_floor",
        "offers",
        "offers_made",
        "origin",
        "overtaken",
        "queue",
        "receive_maximum",
        "received",
        "replays",
        "roles",
        "shares",
        "subscriptions",
        "user",
        "version",
        "via",
        "will",
        "wills",
        "window",
    )

    def __init__(self, client_id: bytes, *, durable: bool) -> None:
        self.client_id = client_id
        self.durable = durable
        self.client: SessionClient | None = None
        self.connected = False
        self.connection = 0
        self.everywhere = False  # whether all nodes of a cluster know it, though it is not durable
        # the connection that began it, by which commands of other nodes identify it
        self.origin = 0
        self.user = ""  # to whom it belongs; "": nobody (``core.owners``)
        self.roles: tuple[str, ...] = ()
        self.via = ""
        self.version = 4  # protocol level of the last connection
        # how long it outlasts its connection; -1: as long as the configuration says
        self.expiry_s = -1
        self.away_since_ms = 0
        self.will: WillMessage | None = None  # of the connection that it has
        self.wills: tuple[PendingWill, ...] = ()  # of former connections, still to be published
        self.receive_maximum = 0  # deliveries in flight that the client takes; 0: no limit
        self.window = PACKET_ID_MAX  # deliveries in flight at most
        self.next_packet_id = 1
        self.applied = 0  # last journal entry that this state contains; replay skips up to it
        # filter → options and identifier (``core.subscription_options``)
        self.subscriptions: dict[bytes, int] | None = None
        self.marked_count = 0  # subscriptions that are more than a QoS
        # the last sequence before each subscription; one number if it is the same for all
        self.births: int | dict[bytes, int] = 0
        # when its shared subscriptions began, in ms
        self.shares: dict[bytes, int] | None = None
        self.inflight: dict[int, int] | None = None
        self._taken_ids: _TakenIds | None = None
        self.queue: deque[int] | None = None
        self.notes: DeliveryNotes | None = None
        self.received: set[int] | None = None
        # subscriptions whose retained messages are being sent, in order
        self.offers: list[RetainedOffer] | None = None
        self.offers_made = 0
        # subscriptions whose history is being sent
        self.replays: list[ReplayOffer] | None = None
        # whether history was sent: then older messages may be behind newer ones
        self.is_unordered = False
        # topics with another retained message since the last page was applied
        self.overtaken: set[bytes] | None = None
        # no retained message under way has a lower sequence; 0: none is under way
        self.offer_floor = 0

    @property
    def recorded(self) -> bool:
        """Whether this session has a row on disk: it is durable, or has a will.

        In a cluster all have one: a node that starts must know who is connected at other nodes.
        """
        return self.durable or self.will is not None or self.everywhere or bool(self.wills)

    @property
    def is_over(self) -> bool:
        """Whether it has ended, and only waits for a will to be published."""
        return not self.durable and not self.connected

    @property
    def ends_with_connection(self) -> bool:
        return not self.durable or self.expiry_s == 0

    def has_expired(self, now_ms: int) -> bool:
        """Whether the client was away for too long, by the session's own expiry."""
        if self.connected or self.expiry_s < 0 or not now_ms:
            return False
        return self.away_since_ms + self.expiry_s * 1000 <= now_ms

    @property
    def next_will_ms(self) -> int | None:
        return min([pending.at_ms for pending in self.wills], default=None)

    def leave_will(self, at_ms: int) -> None:
        """The will of the connection is to be published, at ``at_ms`` if it has a delay."""
        if self.will is not None:
            at_ms = at_ms if self.will.delay_s else 0  # at once, whose clock ever is behind
            owner = self.user, self.roles, self.via
            left = PendingWill(self.client_id, self.connection, self.will, at_ms, *owner)
            self.wills = (*self.wills, left)

    def clear(self) -> None:
        """The session has ended; its wills are due."""
        self.durable = self.connected = self.everywhere = False
        self.client = self.will = None
        self.subscriptions = self.queue = self.inflight = self.received = None
        self.offers = self.overtaken = self.notes = self.shares = self._taken_ids = None
        self.replays = None
        self.marked_count = 0
        self.wills = tuple([msgspec.structs.replace(one, at_ms=0) for one in self.wills])

    @property
    def inflight_count(self) -> int:
        return len(self.inflight) if self.inflight else 0

    @property
    def queue_count(self) -> int:
        return len(self.queue) if self.queue else 0

    @property
    def has_marks(self) -> bool:
        """Whether ``Route.marked`` may say something about its messages."""
        return self.marked_count > 0

    # ── subscriptions ─────────────────────────────────────────────────────────────────────────

    def subscribe(self, topic_filter: bytes, options: int) -> bool:
        """Add a subscription, or replace options and identifier; return whether it is new."""
        if self.subscriptions is None:
            self.subscriptions = {}
        before = self.subscriptions.get(topic_filter)
        self.subscriptions[topic_filter] = options
        self.marked_count += is_marked(options) - is_marked(before or 0)
        return before is None

    def unsubscribe(self, topic_filter: bytes) -> bool:
        """Remove a subscription; return whether there was one."""
        before = self.subscriptions.pop(topic_filter, None) if self.subscriptions else None
        if before is not None:
            self.marked_count -= is_marked(before)
        if self.shares:
            self.shares.pop(topic_filter, None)
        if isinstance(self.births, dict):
            self.births.pop(topic_filter, None)
        return before is not None

    def note_birth(self, topic_filter: bytes, sequence: int) -> None:
        """Remember after which message a new subscription began, for whoever asks why."""
        if len(self.subscriptions or ()) == 1:
            self.births = sequence
        elif self.births != sequence:
            if isinstance(self.births, int):
                self.births = dict.fromkeys(self.subscriptions or (), self.births)
            self.births[topic_filter] = sequence

    def birth_of(self, topic_filter: bytes) -> int:
        """The last sequence before the subscription began; 0: not known."""
        if isinstance(self.births, int):
            return self.births
        return self.births.get(topic_filter, 0)

    def note_share(self, topic_filter: bytes, now_ms: int) -> None:
        if self.shares is None:
            self.shares = {}
        self.shares[topic_filter] = now_ms

    # ── deliveries ────────────────────────────────────────────────────────────────────────────

    def limit_window(self, *limits: int) -> None:
        """Set the window to the lowest of these limits; 0: no limit."""
        self.window = min(PACKET_ID_MAX, *[limit or PACKET_ID_MAX for limit in limits])

    def has_room(self, count: int = 1) -> bool:
        """Whether messages may be sent now: connected, nothing queued, room in the window."""
        return (
            self.connected
            and not self.queue
            and (len(self.inflight) if self.inflight else 0) + count <= self.window
        )

    def is_window_open(self) -> bool:
        """Whether queued messages may be sent: connected, and room in the window."""
        return self.connected and self.inflight_count < self.window

    def begin(self, sequence: int, qos: int, *, retain: bool = False) -> int:
        """Put a message in flight; return its packet id. The caller has checked for room."""
        inflight = self.inflight
        if inflight is None:
            inflight = self.inflight = {}
        packet_id = self.next_packet_id
        if packet_id in inflight:
            packet_id = self._first_free(inflight, packet_id)
        self.next_packet_id = packet_id + 1 if packet_id < PACKET_ID_MAX else 1
        packet_id = _IDS[packet_id]
        inflight[packet_id] = sequence << _SHIFT | (_RETAIN if retain else 0) | qos
        if self._taken_ids is not None:
            self._taken_ids.take(packet_id, 1)
        return packet_id

    def _first_free(self, inflight: dict[int, int], packet_id: int) -> int:
        """The first id from ``packet_id`` on that is not in flight. There must be one."""
        if self._taken_ids is None:
            for _ in range(_LOOKS_MAX):
                packet_id = packet_id + 1 if packet_id < PACKET_ID_MAX else 1
                if packet_id not in inflight:
                    return packet_id
        if self._taken_ids is None or self._taken_ids.count != len(inflight):
            self._taken_ids = _TakenIds(inflight)
        return self._taken_ids.first_free(packet_id)

    def begin_run(self, sequence: int, qos: int, count: int) -> list[int]:
        """Put ``count`` messages with consecutive sequences in flight; return their packet ids."""
        inflight = self.inflight
        if inflight is None:
            inflight = self.inflight = {}
        first = self.next_packet_id
        after = first + count
        if after > PACKET_ID_MAX or (
            inflight and not inflight.keys().isdisjoint(range(first, after))
        ):
            return [self.begin(sequence + number, qos) for number in range(count)]
        self.next_packet_id = after
        packet_ids = list(_IDS[first:after])
        inflight.update(zip(packet_ids, _packed(sequence, qos, count), strict=True))
        if self._taken_ids is not None:
            self._taken_ids.take(first, count)
        return packet_ids

    def enqueue(
        self, sequence: int, qos: int, *, retain: bool = False, expires_ms: int = 0
    ) -> None:
        if self.queue is None:
            self.queue = deque()
        self.queue.append(sequence << _SHIFT | (_RETAIN if retain else 0) | qos)
        if expires_ms:
            self.noted().expires(sequence, expires_ms)

    def dequeue(self) -> Iterator[tuple[int, int, int, bool]]:
        """Put queued messages in flight while there is room: packet id, sequence, QoS, retain."""
        while self.queue and self.inflight_count < self.window:
            packed = self.queue.popleft()
            sequence, retain, qos = packed >> _SHIFT, bool(packed & _RETAIN), packed & _STATE
            if self.notes is not None:
                self.notes.dequeued(sequence)
            yield self.begin(sequence, qos, retain=retain), sequence, qos, retain

    def drop_oldest(self) -> int:
        """Drop the first message of the queue, which is not empty; return its sequence."""
        assert self.queue
        packed = self.queue.popleft()
        if self.notes is not None:
            self.notes.dropped(packed >> _SHIFT)
        return packed >> _SHIFT

    def drop_expired(self, now_ms: int) -> int:
        """Drop the queued messages that have expired; return how many."""
        expired = self.notes.take_expired(now_ms) if self.notes is not None else None
        if not expired or not self.queue:
            return 0
        before = len(self.queue)
        self.queue = deque([one for one in self.queue if one >> _SHIFT not in expired])
        return before - len(self.queue)

    def noted(self) -> DeliveryNotes:
        if self.notes is None:
            self.notes = DeliveryNotes()
        return self.notes

    def unfinished(self) -> Iterator[tuple[int, int, int, bool]]:
        """Deliveries to repeat on resumption, oldest first: packet id, sequence, state, retain."""
        for packet_id, packed in (self.inflight or {}).items():
            yield packet_id, packed >> _SHIFT, packed & _STATE, bool(packed & _RETAIN)

    def acknowledge(self, kind: int, packet_ids: list[int]) -> list[int]:
        """Advance deliveries. Returns those that were not in the state that ``kind`` answers."""
        inflight, expected = self.inflight, _EXPECTED[kind]
        if inflight is None:
            return packet_ids
        unknown: list[int] = []
        for packet_id in packet_ids:
            packed = inflight.get(packet_id)
            if packed is None or packed & _STATE != expected:
                unknown.append(packet_id)
            elif kind == PUBREC:
                inflight[packet_id] = packed & ~_STATE | AWAIT_PUBCOMP
            else:
                del inflight[packet_id]
                if self._taken_ids is not None:
                    self._free(packet_id, len(inflight))
                if self.notes is not None:
                    retain = bool(packed & _RETAIN)
                    self.notes.finished(packet_id, packed >> _SHIFT, retain=retain)
        return unknown

    def awaits_pubcomp(self, packet_id: int) -> bool:
        packed = self.inflight.get(packet_id, 0) if self.inflight else 0
        return packed & _STATE == AWAIT_PUBCOMP

    def lose(self, packet_id: int) -> int:
        """Give up a delivery; return its sequence, 0 if it was not in flight."""
        packed = self.inflight.pop(packet_id, None) if self.inflight else None
        if packed is not None and self.notes is not None:
            self.notes.finished(packet_id, packed >> _SHIFT, retain=bool(packed & _RETAIN))
        return packed >> _SHIFT if packed is not None else 0

    def _free(self, packet_id: int, left: int) -> None:
        """Mark an id as free in the table, or drop the table if few are in flight."""
        if left < _LOOKS_MAX:
            self._taken_ids = None
        elif self._taken_ids is not None:
            self._taken_ids.free(packet_id)

    def fault_of(self, kind: int, packet_ids: list[int]) -> int:
        """The first packet id for which ``kind`` is a protocol error; 0 if there is none.

        An unknown id is not an error: acknowledgements may come late after a lost connection. Nor
        is a repeated PUBREC. A PUBACK for a QoS 2 delivery is, and so is a PUBCOMP before the
        PUBREL that it answers [MQTT-4.3.3-1].
        """
        inflight = self.inflight
        if not inflight:
            return 0
        kind = PUBREC if kind == PUBREC_REFUSED else kind
        for packet_id in packet_ids:
            packed = inflight.get(packet_id)
            if packed is None:
                continue
            state = packed & _STATE
            is_early = kind == PUBCOMP and state == AWAIT_PUBREC
            if is_early or (state == AWAIT_PUBACK) != (kind == PUBACK):
                return packet_id
        return 0

    def oldest_needed(self) -> int | None:
        """The lowest sequence that may still have to be delivered; None if nothing does.

        Live messages are in order, so the first ones tell; only retained messages can be older than
        those before them, and ``offer_floor`` covers them.
        """
        if self.offer_floor and not self._has_offers():
            self.offer_floor = 0
        needed = [self.offer_floor] if self.offer_floor else []
        if self.is_unordered:
            on_the_way = chain((self.inflight or {}).values(), self.queue or ())
            lowest = min(on_the_way, default=None)
            self.is_unordered = lowest is not None
            return min([*needed, *(() if lowest is None else (lowest >> _SHIFT,))], default=None)
        if self.inflight:
            needed.append(next(iter(self.inflight.values())) >> _SHIFT)
        if self.queue:
            needed.append(self.queue[0] >> _SHIFT)
        return min(needed, default=None)

    def _has_offers(self) -> bool:
        """Whether a retained message is in flight or queued."""
        on_the_way = chain((self.inflight or {}).values(), self.queue or ())
        return any(packed & _RETAIN for packed in on_the_way)

    def note_offer(self, sequence: int) -> None:
        """Note that a retained message goes to the client, or into its queue."""
        self.offer_floor = min(self.offer_floor or sequence, sequence)

    # ── retained messages for a new subscription ──────────────────────────────────────────────

    def begin_offer(self, filters: dict[bytes, int], horizon: int) -> None:
        """Offer the retained messages of these filters; a repeated subscription starts over."""
        self.withdraw_offers(filters)
        if self.offers is None:
            self.offers = []
        self.offers_made += 1
        self.offers.append(RetainedOffer(self.offers_made, filters, -1, horizon))
        if self.durable and self.connected and self.overtaken is None:
            self.overtaken = set()

    def withdraw_offers(self, filters: Iterable[bytes]) -> None:
        for offer in list(self.offers or ()):
            gone = offer.filters.keys() & set(filters)
            if gone == offer.filters.keys():
                self._end_offer(offer)
            elif gone:
                offer.filters = {f: qos for f, qos in offer.filters.items() if f not in gone}
                self._renumber(offer)

    def overtake(self, topic: bytes) -> None:
        """Note that a topic has another retained message, so that no page brings the old one."""
        if self.offers and self.overtaken is not None:
            if len(self.overtaken) >= OVERTAKEN_MAX:
                self.overtaken.clear()
                self._renumber(self.offers[0])
            else:
                self.overtaken.add(topic)

    def turn_page(self, offer: RetainedOffer, after: int, *, is_last: bool) -> None:
        offer.after = after
        if self.overtaken is not None:
            self.overtaken.clear()
        if is_last:
            self._end_offer(offer)

    def resume_offers(self, horizon: int) -> None:
        """Continue the offers for a new connection."""
        for offer in self.offers or ():
            offer.horizon = horizon
            self._renumber(offer)
        self.overtaken = set() if self.offers and self.durable else None

    def _renumber(self, offer: RetainedOffer) -> None:
        """Void the pages of an offer that are under way."""
        self.offers_made += 1
        offer.number = self.offers_made

    def _end_offer(self, offer: RetainedOffer) -> None:
        if self.offers is not None:
            self.offers = [other for other in self.offers if other is not offer]
        if not self.offers:
            self.offers = self.overtaken = None

    # ── QoS 2, the receiver's half ────────────────────────────────────────────────────────────

    def receive(self, packet_ids: list[int]) -> None:
        """Remember the ids of QoS 2 messages until they are released [MQTT-4.3.3-2]."""
        if self.received is None:
            self.received = set()
        self.received.update(packet_ids)

    def has_received(self, packet_id: int) -> bool:
        return self.received is not None and packet_id in self.received

    def release(self, packet_ids: list[int]) -> list[int]:
        """Forget ids: the next message with one of them is new. Return those that are unknown."""
        unknown = [number for number in packet_ids if not self.has_received(number)]
        if self.received:
            self.received.difference_update(packet_ids)
        return unknown

    # ── checkpoint ────────────────────────────────────────────────────────────────────────────

    def to_row(self, applied: int) -> bytes:
        """The row of this session, which contains all entries up to ``applied``."""
        self.applied = applied
        row = _SessionRow(self.client_id, self.durable, self.connected, self.connection)
        row.applied, row.will = applied, self.will
        row.everywhere, row.origin = self.everywhere, self.origin
        row.user, row.roles, row.via = self.user, self.roles, self.via
        row.version, row.expiry_s, row.wills = self.version, self.expiry_s, self.wills
        row.receive_maximum = self.receive_maximum
        if self.durable:  # only its own node knows more of a live session
            row.away_since_ms = self.away_since_ms
            row.next_packet_id = self.next_packet_id
            row.subscriptions = self.subscriptions or {}
            row.shares = self.shares or {}
            row.inflight = list((self.inflight or {}).items())
            row.queue = list(self.queue or ())
            row.received = sorted(self.received or ())
            row.offering = len(self.offers or ())
            row.overtaken = sorted(self.overtaken or ())
            row.offer_floor = self.offer_floor if self._has_offers() else 0
            row.offers, row.offers_made = self.offers or [], self.offers_made
            row.notes = self.notes if self.notes is not None and not self.notes.is_empty else None
            row.replays = self.replays or []
            row.births = self.births
        return _encoder.encode(row)

    @classmethod
    def from_row(cls, row: bytes) -> "Session":
        data = _decoder.decode(row)
        session = cls(data.client_id, durable=data.durable)
        session.connected = data.connected
        session.connection = data.connection
        session.away_since_ms = data.away_since_ms
        session.next_packet_id = (data.next_packet_id - 1) % PACKET_ID_MAX + 1
        session.applied = data.applied
        session.will = data.will
        session.subscriptions = data.subscriptions or None
        session.shares = data.shares or None
        session.marked_count = sum(map(is_marked, data.subscriptions.values()))
        session.inflight = dict(data.inflight) or None
        session.queue = deque(data.queue) or None
        session.notes = data.notes
        session.received = set(data.received) or None
        session.offers, session.offers_made = data.offers or None, data.offers_made
        session.overtaken = set(data.overtaken) if data.offering and data.connected else None
        session.offer_floor = data.offer_floor
        session.replays = data.replays or None
        session.is_unordered = bool(data.inflight)  # perhaps; looking at all is right anyway
        session.everywhere, session.origin = data.everywhere, data.origin
        session.user, session.roles, session.via = data.user, data.roles, data.via
        session.version, session.expiry_s, session.wills = data.version, data.expiry_s, data.wills
        session.receive_maximum = data.receive_maximum
        session.births = data.births
        return session
