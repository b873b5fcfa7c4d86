"""What the journal holds of a topic, sent before the topic goes live: no gap, no duplicates.

The journal is read off the loop, in batches, as fast as the client reads. Meanwhile the
subscription is in the routes already (PUBLISH counts it), but its listener skips live messages of
the topic: all of them reach the journal, and the replay will find them there.

**The seam.** The replay ends when all *settled* messages were sent: those on disk and delivered to
live subscribers (``Pipeline.settled_sequence``). Of the rest, those that live subscribers got
already are still in the pipeline (``unsettled``), and are sent from there; the others will be
delivered live. Looking at the mark, sending those and going live happens in one turn of the loop.

A topic that grows faster than a client reads stays in replay for ever, and loses nothing.
"""

from collections import deque
from collections.abc import Callable
from typing import Literal, Protocol

from penstock.doors.resp.outbox import RespOutbox
from penstock.doors.resp.parts import RespParts
from penstock.errors import StorageError
from penstock.limits import KIB
from penstock.model.message import Message
from penstock.net.origin import Origin
from penstock.obs.reasons import DisconnectReason
from penstock.trust.principal import Principal
from penstock.wire.resp import encode

READ_MESSAGES_MAX = 1_024
READ_BYTES_MAX = 512 * KIB  # read from the journal at a time; waits here if the client is slow
SENT_TOGETHER_MAX = 64  # messages sent between two looks at whether there is room for more
REMAINDER_MESSAGES_MAX = 32  # up to this many are read on the loop: another round would find others


class SubscribedClient(Protocol):
    """A connection as subscriptions and replays see it."""

    door: RespParts
    outbox: RespOutbox
    protocol: Literal[2, 3]
    principal: Principal
    origin: Origin

    def send(self, data: bytes) -> None: ...
    def close(self, reason: DisconnectReason, detail: str = "") -> None: ...


class Replays:
    """The replays of one connection, one after the other."""

    __slots__ = ("_connection", "topics")

    def __init__(self, connection: SubscribedClient) -> None:
        self._connection = connection
        self.topics: dict[bytes, Replay] = {}  # not live yet; the first is being replayed

    def begin(self, topic: bytes) -> None:
        """Replay a topic after those before it, but not in this turn of the loop."""
        replay = self.topics[topic] = Replay(self._connection, topic, self._done)
        if len(self.topics) == 1:
            self._connection.door.loop.call_soon(replay.go_on)

    def stop(self, topic: bytes) -> None:
        replay = self.topics.pop(topic, None)
        if replay is not None:
            replay.is_stopped = True
            self._go_on_later()

    def resume(self) -> None:
        if self.topics:
            next(iter(self.topics.values())).go_on()

    def _done(self, topic: bytes) -> None:
        del self.topics[topic]
        self._go_on_later()

    def _go_on_later(self) -> None:
        if self.topics:
            self._connection.door.loop.call_soon(self.resume)


class Replay:
    """One topic's replay; ``done`` is called in the turn in which it must go live."""

    __slots__ = (
        "_connection",
        "_done",
        "_is_reading",
        "_offset",
        "_topic",
        "_unsent",
        "is_stopped",
    )

    def __init__(
        self, connection: SubscribedClient, topic: bytes, done: Callable[[bytes], None]
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._done = done
        self._offset = 0  # what is read next
        self._unsent: deque[Message] = deque()
        self._is_reading = False
        self.is_stopped = False

    def go_on(self) -> None:
        outbox = self._connection.outbox
        while not (self.is_stopped or self._is_reading or outbox.is_full()):
            if self._unsent:
                if not self._send_settled():
                    self._go_live()
            elif self._remaining():
                self._read()
            else:
                self._go_live()

    def _remaining(self) -> int:
        info = self._connection.door.store.topic(self._topic)
        return info.next_offset - self._offset if info else 0

    def _read(self) -> None:
        if self._offset and self._remaining() <= REMAINDER_MESSAGES_MAX:
            self._take(self._read_batch())
            return
        self._is_reading = True
        self._connection.door.readers.run(self._read_batch, self._found, self._unreadable)

    def _read_batch(self) -> tuple[int, list[Message]]:
        found = self._connection.door.store.read_topic(
            self._topic, self._offset, READ_MESSAGES_MAX, READ_BYTES_MAX
        )
        return max(found.next_offset, found.first_offset), list(found.messages())

    def _found(self, batch: tuple[int, list[Message]]) -> None:
        self._is_reading = False
        self._take(batch)
        self.go_on()

    def _take(self, batch: tuple[int, list[Message]]) -> None:
        self._offset = batch[0]
        self._unsent.extend(batch[1])

    def _unreadable(self, error: StorageError) -> None:
        if not self.is_stopped:
            self._connection.close(DisconnectReason.STORAGE_FAILED, error.message)

    def _send_settled(self) -> bool:
        settled = self._connection.door.pipeline.settled_sequence
        payloads: list[bytes] = []
        unsent = self._unsent
        while unsent and len(payloads) < SENT_TOGETHER_MAX and unsent[0].sequence < settled:
            payloads.append(unsent.popleft().payload)
        self._send(payloads)
        return bool(payloads)

    def _send(self, payloads: list[bytes]) -> None:
        connection = self._connection
        if payloads:
            connection.door.counters.messages_out_total[0] += len(payloads)
            connection.send(encode.messages(self._topic, payloads, connection.protocol))

    def _go_live(self) -> None:
        """The seam; see the module. If too much is unsettled, wait for the disk."""
        connection, pipeline = self._connection, self._connection.door.pipeline
        payloads = pipeline.unsettled(self._topic)
        if sum(map(len, payloads)) > connection.door.limits.outbound_bytes_max // 2:
            self._is_reading = True
            pipeline.when_committed(self._committed)
            return
        self._send(payloads)
        self.is_stopped = True
        self._done(self._topic)

    def _committed(self) -> None:
        self._is_reading = False
        self.go_on()
