"""What a subscriber acknowledges: from sequences to places in the journal, and onto the disk.

An ACK of a client names the sequence of a message. What is kept is a place: an offset in a topic.
Whatever was sent on this connection is remembered in stretches (``dispatch.unacked``), so most
places are known at once. The rest, from an earlier connection or so long ago that it is forgotten,
are looked up in the journal, off the loop and a few at a time; meanwhile other requests are held,
for a PONG must not overtake them.

Places in queues are jobs: the worker finishes them. All others are progress of the client and are
journaled (``Progressed``), without what is known already, patiently: an acknowledgement rides with
the next commit, unless a reply waits behind it. This object waits for the commit (``outcome``); if
the disk refuses, the connection ends, and the client finds out by subscribing anew what is kept.

Any number is fine: out of order, twice, or of messages that never were.
"""

from collections import deque
from collections.abc import Callable, Container
from typing import Protocol

from penstock.core.commands import Progressed
from penstock.dispatch.queue_names import is_queue
from penstock.dispatch.unacked import Place, Unacked, ranges_of
from penstock.doors.binary.parts import BinaryParts
from penstock.doors.binary.replies import Replies
from penstock.errors import StorageError
from penstock.model.message import Message
from penstock.obs.reasons import DisconnectReason

UNKNOWN_MAX = 65_536
"""Stretches of acknowledgements that wait to be looked up before nothing more is read."""

LOOK_UP_MAX = 16
"""Messages looked up at a time: whole ones are read, and each may be as large as a frame."""


class Subscriber(Protocol):
    """Whose acknowledgements they are."""

    reason: DisconnectReason | None
    """Why its connection was closed; None while it is open."""

    def block_input(self) -> None:
        """Hold its other requests until ``unblock_input``."""
        ...

    def unblock_input(self) -> None: ...

    def unreadable(self, error: StorageError) -> None:
        """The journal cannot be read."""
        ...

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        """The disk refused, or failed."""
        ...


class Acknowledgements:
    """Those of one connection. ``unacked`` is told by the connection what it sends.

    ``followed`` are the topics that the client subscribes to by name; ``finish`` is given what it
    acknowledges of queues.
    """

    __slots__ = (
        "_door",
        "_finish",
        "_followed",
        "_is_looking_up",
        "_replies",
        "_subscriber",
        "_unknown",
        "client_id",
        "unacked",
    )

    def __init__(
        self,
        door: BinaryParts,
        subscriber: Subscriber,
        replies: Replies,
        followed: Container[bytes],
        finish: Callable[[bytes, list[tuple[int, int]]], None],
    ) -> None:
        self._door = door
        self._subscriber = subscriber
        self._replies = replies
        self._followed = followed
        self._finish = finish
        self.client_id = b""
        """The name under which progress is kept; nothing is to be taken before there is one."""
        self.unacked = Unacked()
        self._unknown: deque[tuple[int, int]] = deque()
        """Stretches of sequences to be looked up."""
        self._is_looking_up = False

    def take(self, sequences: list[int], now_ms: int) -> None:
        """The client has dealt with these messages."""
        places: list[Place] = []
        for first, end in ranges_of(sequences):
            found, unknown = self.unacked.settle(first, end)
            places += found
            for start, stop in unknown:
                self._look_up(start, stop)
        self._door.connections.counters.acknowledged_total += len(sequences)
        self._settle(places, now_ms)

    # ── onto the disk ─────────────────────────────────────────────────────────────────────────

    def _settle(self, places: list[Place], now_ms: int) -> None:
        ranges: dict[bytes, list[tuple[int, int]]] = {}
        for topic, start, end in places:
            ranges.setdefault(topic, []).append((start, end))
        for topic, stretches in ranges.items():
            if is_queue(topic):
                self._finish(topic, stretches)
            elif self._may_progress(topic):
                self._progress(topic, stretches, now_ms)

    def _may_progress(self, topic: bytes) -> bool:
        """Whether acknowledgements of this topic are kept; of `#` there could be any number."""
        topic_count = self._door.broker.subscribers.topic_count
        return (
            topic in self._followed
            or topic_count(self.client_id) < self._door.connections.limits.subscriptions_max
        )

    def begin(self, topic: bytes, now_ms: int) -> None:
        """Let it be known that this client reads a topic, where messages go that nobody needs."""
        dispatchers, progress = self._door.dispatchers, self._door.broker.subscribers.progress
        if dispatchers.limits.is_used_up(topic) and progress(self.client_id, topic) is None:
            begun = Progressed(self.client_id, topic, [(0, dispatchers.earliest(topic))], now_ms)
            self._door.pipeline.submit_patiently(begun, None)

    def _progress(self, topic: bytes, stretches: list[tuple[int, int]], now_ms: int) -> None:
        """Journal acknowledgements, without those that are known: repeating them costs no disk.

        If the end of the topic is in the line, the next messages have these offsets.
        """
        if self._door.pipeline.is_dropping(topic):
            return
        known = self._door.broker.subscribers.progress(self.client_id, topic)
        if known is not None:
            stretches = [new for start, end in stretches for new in known.missing(start, end)]
        if stretches:
            self._replies.await_acknowledgement()
            command = Progressed(self.client_id, topic, stretches, now_ms)
            self._door.pipeline.submit_patiently(command, self)

    def done(self, _value: object) -> None:
        """Progress is stored."""
        self._replies.acknowledged()

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        """The disk refused it."""
        self._subscriber.close(reason, detail)

    # ── looking up ────────────────────────────────────────────────────────────────────────────

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits to be looked up that nothing more should be read."""
        return len(self._unknown) > UNKNOWN_MAX

    def _look_up(self, first: int, end: int) -> None:
        """Ask the journal where messages lie that this connection was not sent."""
        first, end = max(first, 1), min(end, self._door.pipeline.settled_sequence)
        if first < end:
            self._unknown.append((first, end))
        if self._unknown and not self._is_looking_up:
            self._is_looking_up = True
            self._subscriber.block_input()
            self._read_unknown()

    def _read_unknown(self) -> None:
        sequences: list[int] = []
        while self._unknown and len(sequences) < LOOK_UP_MAX:
            first, end = self._unknown.popleft()
            stop = min(end, first + LOOK_UP_MAX - len(sequences))
            sequences += range(first, stop)
            if stop < end:
                self._unknown.appendleft((stop, end))
        self._door.readers.read(sequences, self._found, self._subscriber.unreadable)

    def _found(self, found: dict[int, Message | None]) -> None:
        if self._subscriber.reason is not None:
            return
        messages = [message for message in found.values() if message is not None]
        places = [Place(m.topic, m.offset, m.offset + 1) for m in messages]
        self._settle(places, self._door.connections.wall_ms())
        if self._unknown:
            self._read_unknown()
        else:
            self._is_looking_up = False
            self._subscriber.unblock_input()
