"""Subscriptions, and the messages that they bring, each handed out once.

``_read`` of the client puts messages into the inbox and stops while it is full: TCP holds the
broker back. If somebody waits for an answer meanwhile, and nobody takes messages, the client breaks
the connection: on the next one the answers come first.

**Repetitions.** On each connection the broker repeats what it has no acknowledgement of. Sequences
ascend within a topic, so for a topic it is enough to know the last one that arrived and those
before it that are not done. Jobs of a queue come in any order: the last 64 that are done are
remembered, as many as the broker hands out ahead. What is known to be done is acknowledged again
and not handed out. Filters are never repeated.
"""

from struct import pack

from penstock.wire import readable

try:
    from time import ticks_ms

    from micropython import const
except ImportError:
    from penstock._cpython import const, ticks_ms

_SUBSCRIBE = const(0x01)
_UNSUBSCRIBE = const(0x02)
_WITHHELD = const(0x23)

_INBOX = const(8)  # messages read ahead, of half the client's buffer together
_HELD = const(16)  # messages of one subscription in the inbox, in hand, or left undone
_KNOWN = const(64)


class Subscription:
    """See the module."""

    def __init__(self, topic: bytes, options: bytes) -> None:
        self.topic = topic
        self.options = options
        self.is_queue = topic.startswith(b"q:")
        self.last = 0
        self.held = {}  # by sequence: whether it is in hand, or was left undone
        self.known = [] if self.is_queue else ()  # jobs that are done

    def is_new(self, sequence: int) -> bool:
        if sequence in self.held:
            return not self.held[sequence]
        return sequence not in self.known and (self.is_queue or sequence > self.last)


class Message:
    """A message: ``topic``, ``payload``, ``sequence``, and who signed it.

    ``signer`` is "none", "verified", "unknown" (no such key in the keyring) or "bad".
    """

    def __init__(self, intake: object, subscription: object, frames: object) -> None:
        self._intake = intake
        self.subscription = subscription
        self.sequence = frames.sequence
        self.topic = readable(frames.topic)
        self.payload = frames.payload
        self.trailer = frames.trailer
        self.signer = "unknown" if self.trailer else "none"

    def ack(self) -> None:
        """Say that the work is done: it never comes again."""
        self._intake.handled(self)

    def release(self) -> None:
        """Say that the work failed: it comes again with the next connection."""
        subscription = self.subscription
        if subscription and self.sequence in subscription.held:
            subscription.held[self.sequence] = False


class Intake:
    """See the module. It is a part of the client, and uses its lists."""

    def __init__(self, client: object) -> None:
        self._client = client
        self._subscriptions = {}
        self._inbox = []
        self._bytes = 0
        self._given = None
        self.paused = None  # since when there is no room

    # ── Subscriptions ─────────────────────────────────────────────────────────────────────────

    async def subscribe(self, topic: str, start: object, prefetch: int, deadline: tuple) -> None:
        client = self._client
        name = topic.encode()
        options = b"" if start is None else _start(start)
        if prefetch:
            options += pack(">BHH", 2, 2, prefetch)
        self._subscriptions[name] = subscription = Subscription(name, options)
        if not client.up.is_set():
            return
        request = self._send(subscription)
        try:
            while not request.is_done and not self._inbox:  # the answer is behind the history
                await client._change(deadline)
        finally:
            request.is_awaited = False
        if request.error:
            self._subscriptions.pop(name, None)
            raise request.error

    async def unsubscribe(self, topic: str, deadline: tuple) -> None:
        client = self._client
        name = topic.encode()
        self._subscriptions.pop(name, None)
        if client.up.is_set():
            request = client._ask(_UNSUBSCRIBE, name)
            while not request.is_done:
                await client._change(deadline)

    def _send(self, subscription: Subscription) -> object:
        client = self._client
        name = subscription.topic
        if client._id and not client.features:
            name = client._id + b"\0" + name
        options = subscription.options
        return client._ask(_SUBSCRIBE, name, b"\2" + options if options or client.keyring else b"")

    def resume(self) -> None:
        """Subscribe again, on a new connection."""
        for subscription in self._subscriptions.values():
            self._send(subscription).is_awaited = False

    def disconnected(self) -> None:
        """Drop the jobs that were not handed out: other workers get them."""
        self.paused = None
        for message in self._inbox[:]:
            subscription = message.subscription
            if subscription and subscription.is_queue:
                subscription.held.pop(message.sequence, None)
                self._inbox.remove(message)
                self._bytes -= len(message.payload)

    def is_stalled(self, flight: list) -> bool:
        """Whether nothing will ever make room but a new connection."""
        for request in flight:
            if request.is_awaited:
                return True
        for subscription in self._subscriptions.values():
            if True in subscription.held.values():  # it is in hand, not left undone
                return False
        return not self._inbox

    # ── From the broker ───────────────────────────────────────────────────────────────────────

    async def on_message(self, got: object) -> None:
        client = self._client
        sequence, topic = got.sequence, got.topic
        subscription = self._subscriptions.get(topic)
        if subscription and sequence and not subscription.is_new(sequence):
            if sequence not in subscription.held:
                self._acknowledge(sequence)
            return
        if got.command == _WITHHELD or not got.is_whole:
            size = got.size if got.is_whole is False else int.from_bytes(got.payload, "big")
            client._tell(f"{readable(topic)} has a message of {size} bytes, too large")
            self._acknowledge(sequence)
            return
        while self._is_full(subscription, got.size):
            if self.paused is None:
                self.paused = ticks_ms()
            client._changed.clear()
            await client._changed.wait()
        self.paused = None
        if subscription and sequence:
            subscription.held[sequence] = True
            subscription.last = max(subscription.last, sequence)
        self._inbox.append(Message(self, subscription, got))
        self._bytes += got.size
        client._changed.set()

    def _is_full(self, subscription: object, size: int) -> bool:
        if subscription and len(subscription.held) >= _HELD:
            return True
        inbox = len(self._inbox)
        return inbox >= _INBOX or (inbox > 0 and self._bytes + size > self._client._rx // 2)

    def _acknowledge(self, sequence: int) -> None:
        client = self._client
        if sequence and client._id:
            client._acks.append(sequence)
            client._wake.set()

    # ── To the application ────────────────────────────────────────────────────────────────────

    async def receive(self, deadline: tuple | None) -> Message:
        client = self._client
        if self._given and client.auto_ack:
            self.handled(self._given)
        self._given = None
        while True:
            while not self._inbox:
                await client._change(deadline)
            message = self._inbox.pop(0)
            self._bytes -= len(message.payload)
            client._changed.set()  # there is room
            if client.keyring and message.trailer:
                from penstock.verify import verdict  # noqa: PLC0415 - large, and rarely needed

                message.signer = await verdict(client.keyring, message)
            if not client.require_signature or message.signer == "verified":
                self._given = message
                return message
            client._tell(message.topic + " has a message without a valid signature")
            self.handled(message)

    def leave(self) -> None:
        """Take what was handed out last as not done."""
        given, self._given = self._given, None
        if given and self._client.auto_ack:
            given.release()

    def handled(self, message: Message) -> None:
        if message is self._given:
            self._given = None
        subscription = message.subscription
        if subscription:
            if subscription.held.pop(message.sequence, None) is None:
                return  # it was acknowledged before
            if subscription.is_queue:
                subscription.known.append(message.sequence)
                del subscription.known[:-_KNOWN]
            self._client._changed.set()  # there is room
        self._acknowledge(message.sequence)


def _start(start: object) -> bytes:
    """Return the option that says where a subscriber without a position begins."""
    if isinstance(start, int):
        value = pack(">BI", 2, start)
    elif isinstance(start, str):
        value = bytes((("earliest", "latest").index(start),))
    else:
        value = pack(">BQ", 3, start[1])
    return pack(">BH", 1, len(value)) + value
