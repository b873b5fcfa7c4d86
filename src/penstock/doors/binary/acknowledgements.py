"""What a subscriber acknowledges: from sequences to offsets, and onto the disk.

An ACK names the sequence of a message; the journal keeps offsets in topics. What was sent on this
connection is remembered in ranges (``dispatch.unacked``). The rest is looked up in the journal, off
the loop and a few at a time; meanwhile other requests are held, for a PONG must not overtake them.

Offsets in queues are jobs: the worker settles them. All others are progress of the client and are
journaled (``Progressed``), without what is known already. An acknowledgement waits for the next
commit, unless a reply waits behind it. If the commit fails, the connection ends.
"""

from collections import deque
from collections.abc import Callable, Container
from typing import Protocol

from penstock.core.commands import Progressed
from penstock.dispatch.unacked import AckedRange, Unacked, ranges_of
from penstock.doors.binary.parts import BinaryParts
from penstock.doors.binary.replies import OrderedReplies
from penstock.errors import StorageError
from penstock.model.message import Message
from penstock.model.queue_names import is_queue
from penstock.obs.reasons import DisconnectReason
from penstock.trust.principal import Principal
from penstock.trust.rules import Action

UNKNOWN_MAX = 65_536  # ranges that wait to be looked up before reading pauses
LOOK_UP_MAX = 16  # messages read at a time; each may be as large as a frame


class AcknowledgingClient(Protocol):
    """The connection of the subscriber."""

    client_id: bytes
    principal: Principal
    reason: DisconnectReason | None  # None while it is open

    def block_input(self) -> None: ...
    def unblock_input(self) -> None: ...
    def close(self, reason: DisconnectReason, detail: str = "") -> None: ...


class Acknowledgements:
    """``followed``: topics subscribed to by name; ``finish`` settles offsets of queues.

    ``settled`` is told of how many messages of followed topics were acknowledged.
    """

    __slots__ = (
        "_client",
        "_door",
        "_finish",
        "_followed",
        "_is_looking_up",
        "_replies",
        "_settled",
        "_unknown",
        "unacked",
    )

    def __init__(
        self,
        door: BinaryParts,
        client: AcknowledgingClient,
        replies: OrderedReplies,
        followed: Container[bytes],
        finish: Callable[[bytes, list[tuple[int, int]]], None],
        settled: Callable[[int], None],
    ) -> None:
        self._door = door
        self._client = client
        self._replies = replies
        self._followed = followed
        self._finish = finish
        self._settled = settled
        self.unacked = Unacked()
        self._unknown: deque[tuple[int, int]] = deque()  # ranges of sequences to look up
        self._is_looking_up = False

    def take(self, sequences: list[int], now_ms: int) -> None:
        places: list[AckedRange] = []
        for first, end in ranges_of(sequences):
            found, unknown = self.unacked.settle(first, end)
            places += found
            for start, stop in unknown:
                self._look_up(start, stop)
        self._door.connections.counters.acknowledged_total += len(sequences)
        self._settle(places, now_ms)
        self._settled(sum([end - start for topic, start, end in places if topic in self._followed]))

    def _settle(self, places: list[AckedRange], now_ms: int) -> None:
        ranges: dict[bytes, list[tuple[int, int]]] = {}
        for topic, start, end in places:
            ranges.setdefault(topic, []).append((start, end))
        for topic, stretches in ranges.items():
            if is_queue(topic):
                self._finish(topic, stretches)
            elif self._may_progress(topic):
                self._progress(topic, stretches, now_ms)

    def _may_progress(self, topic: bytes) -> bool:
        """Whether progress is kept for this topic; a filter can match any number of them.

        Any sequence can be acknowledged, sent or not, and progress keeps messages from removal.
        """
        door, client = self._door, self._client
        if topic in self._followed:
            return True
        if not door.admission.allows(client.principal, Action.SUBSCRIBE, topic):
            return False
        known = door.broker.subscribers.topic_count(client.client_id)
        return known < door.connections.limits.subscriptions_max

    def begin(self, topic: bytes, start: int | None, now_ms: int) -> None:
        """Register as a reader who has no progress yet.

        Of a topic whose messages are removed once all have read them; and of any where the client
        has said where it starts, so that it goes on from there when it comes back.
        """
        topics = self._door.dispatchers.topics
        if start is None and not topics.limits.is_used_up(topic):
            return
        mark = topics.earliest(topic) if start is None else start
        user = self._client.principal.user
        begun = Progressed(self._client.client_id, topic, [(0, mark)], now_ms, user)
        self._replies.await_acknowledgement()
        self._door.pipeline.submit_patiently(begun, self)

    def _progress(self, topic: bytes, stretches: list[tuple[int, int]], now_ms: int) -> None:
        """Journal what is new; void while the deletion of the topic is in the pipeline."""
        if self._door.pipeline.is_dropping(topic):
            return
        known = self._door.broker.subscribers.progress(self._client.client_id, topic)
        if known is not None:
            stretches = [new for start, end in stretches for new in known.missing(start, end)]
        if stretches:
            self._replies.await_acknowledgement()
            user = self._client.principal.user
            command = Progressed(self._client.client_id, topic, stretches, now_ms, user)
            self._door.pipeline.submit_patiently(command, self)

    def done(self, _value: object) -> None:
        self._replies.acknowledged()

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        self._client.close(reason, detail)

    @property
    def is_crowded(self) -> bool:
        return len(self._unknown) > UNKNOWN_MAX

    def _look_up(self, first: int, end: int) -> None:
        first, end = max(first, 1), min(end, self._door.pipeline.settled_sequence)
        if first < end:
            self._unknown.append((first, end))
        if self._unknown and not self._is_looking_up:
            self._is_looking_up = True
            self._client.block_input()
            self._read_unknown()

    def _read_unknown(self) -> None:
        sequences: list[int] = []
        while self._unknown and len(sequences) < LOOK_UP_MAX:
            first, end = self._unknown.popleft()
            stop = min(end, first + LOOK_UP_MAX - len(sequences))
            sequences += range(first, stop)
            if stop < end:
                self._unknown.appendleft((stop, end))
        self._door.readers.read(sequences, self._found, self._unreadable)

    def _found(self, found: dict[int, Message | None]) -> None:
        if self._client.reason is not None:
            return
        messages = [message for message in found.values() if message is not None]
        places = [AckedRange(m.topic, m.offset, m.offset + 1) for m in messages]
        self._settle(places, self._door.connections.wall_ms())
        if self._unknown:
            self._read_unknown()
        else:
            self._is_looking_up = False
            self._client.unblock_input()

    def _unreadable(self, error: StorageError) -> None:
        self._client.close(DisconnectReason.STORAGE_FAILED, error.message)
