"""Publishers and a subscriber that outlive the broker, and an account of what was acknowledged.

They are correct MQTT clients: a publisher keeps what is unfinished and repeats it on the next
connection under the same packet id, in order; the subscriber keeps the ids of QoS 2 messages it
has not seen released. All of it is in memory that no crash of the broker touches, so after any
number of crashes ``Account.check`` can tell what was lost, duplicated or out of order.

A payload is ``publisher/number``; even numbers travel at QoS 1, odd ones at QoS 2, and every eighth
is retained.
"""

import contextlib
import socket
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from tests.conformance.wire_client import (
    PINGREQ,
    connect_packet,
    puback,
    pubcomp,
    publish,
    pubrec,
    pubrel,
    subscribe,
)

__all__ = ["Link", "Load", "Publisher", "Subscriber"]

PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, CONNACK = 3, 4, 5, 6, 7, 9, 2

WINDOW = 40
"""Messages a publisher leaves unacknowledged."""
RETAIN_EVERY = 8
TIMEOUT_S = 30.0


class Link:
    """A connection that is read through a buffer; ``packets`` ends when the broker does."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self.socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def packets(self) -> Iterator[tuple[int, bytes]]:
        """Yield first byte and body of each packet, until the connection ends in any way."""
        try:
            while first := self._file.read(1):
                length = self._length()
                body = self._file.read(length)
                if len(body) < length:
                    return
                yield first[0], body
        except ConnectionError:
            return

    def _length(self) -> int:
        length = shift = 0
        while True:
            digit = self._file.read(1)
            if not digit:
                return 1  # truncated
            length |= (digit[0] & 0x7F) << shift
            shift += 7
            if digit[0] < 0x80:
                return length

    def shut(self) -> None:
        """Wake the reader and close."""
        with contextlib.suppress(OSError):  # the broker may be faster
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._file.close()
        self.socket.close()


class _Client:
    """A persistent session, over any number of connections."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self._is_known = False
        self._link: Link | None = None
        self._thread: threading.Thread | None = None
        self.failure: BaseException | None = None

    def connect(self, port: int) -> None:
        """Connect; from the second time on, resume the session."""
        self._link = Link(port)
        self._link.send(connect_packet(self.client_id, clean=False, keep_alive=0))
        kind, body = next(self._link.packets())
        assert (kind >> 4, body) == (CONNACK, bytes([self._is_known, 0]))
        self._is_known = True

    def begin(self) -> None:
        """Run in a thread until the connection ends."""
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._serve(self._link)
        except ConnectionError:
            pass  # the broker is gone, as these clients expect
        except BaseException as error:  # noqa: BLE001 - told to the test by ``pause``
            self.failure = error

    def _serve(self, link: Any) -> None:
        raise NotImplementedError

    def pause(self, *, shut: bool = False) -> None:
        """Wait for the end of the connection; ``shut``: close it first."""
        assert self._link is not None
        assert self._thread is not None
        if shut:
            self._link.shut()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive(), f"{self.client_id} still has its connection"
        self._link.close()
        if self.failure is not None:
            raise self.failure


class Publisher(_Client):
    """Publishes numbers until it is stopped; remembers what is unfinished."""

    def __init__(self, number: int, on_acknowledged: Callable[[], None]) -> None:
        super().__init__(f"publisher-{number}")
        self.name = str(number)
        self.topic = f"load/{number}"
        self.sent = 0
        self.acknowledged: set[int] = set()
        self.retained_acknowledged = -1
        self.may_begin = True
        """Whether new messages may be sent; if not, only what is unfinished is finished."""
        self.is_idle = threading.Event()
        self._on_acknowledged = on_acknowledged
        self._unfinished: dict[int, tuple[int, bool]] = {}
        """Packet id → number, and whether the broker has it (QoS 2: PUBREC came)."""
        self._packet_id = 0

    def _serve(self, link: Link) -> None:
        link.send(b"".join(self._repeated()))  # [MQTT-4.4.0-1], in the order of [MQTT-4.6.0-1]
        self._go_on(link)
        for first, body in link.packets():
            self._handle(link, first >> 4, int.from_bytes(body[:2], "big"))
            self._go_on(link)

    def _repeated(self) -> Iterator[bytes]:
        for packet_id, (number, is_received) in self._unfinished.items():
            yield pubrel(packet_id) if is_received else self._publish(packet_id, number, dup=True)

    def _publish(self, packet_id: int, number: int, *, dup: bool = False) -> bytes:
        return publish(
            self.topic,
            f"{self.name}/{number}".encode(),
            qos=1 + number % 2,
            packet_id=packet_id,
            retain=number % RETAIN_EVERY == 0,
            dup=dup,
        )

    def _go_on(self, link: Link) -> None:
        """Fill the window, or notice that nothing is left to do."""
        if not self.may_begin:
            if not self._unfinished:
                self.is_idle.set()
            return
        if len(self._unfinished) > WINDOW // 2:
            return
        packets = []
        while len(self._unfinished) < WINDOW:
            packet_id = self._next_packet_id()
            self._unfinished[packet_id] = (self.sent, False)
            packets.append(self._publish(packet_id, self.sent))
            self.sent += 1
        link.send(b"".join(packets))

    def _next_packet_id(self) -> int:
        self._packet_id = self._packet_id % 65_535 + 1
        while self._packet_id in self._unfinished:
            self._packet_id = self._packet_id % 65_535 + 1
        return self._packet_id

    def _handle(self, link: Link, kind: int, packet_id: int) -> None:
        number, _ = self._unfinished[packet_id]
        if kind == PUBREC:
            self._unfinished[packet_id] = (number, True)
            link.send(pubrel(packet_id))
        else:
            assert kind == (PUBCOMP if number % 2 else PUBACK)
            del self._unfinished[packet_id]
        if kind != PUBCOMP:
            self._acknowledge(number)

    def _acknowledge(self, number: int) -> None:
        self.acknowledged.add(number)
        if number % RETAIN_EVERY == 0:
            self.retained_acknowledged = max(self.retained_acknowledged, number)
        self._on_acknowledged()

    def finish(self) -> None:
        """Start nothing new on the next connection."""
        self.may_begin = False


class Subscriber(_Client):
    """Receives everything published, and answers as the standard requires."""

    def __init__(self, topic_filter: str = "load/#") -> None:
        super().__init__("subscriber")
        self.received: list[bytes] = []
        self._filter = topic_filter
        self._unreleased: set[int] = set()
        self._is_subscribed = False
        self.subscribed = threading.Event()

    def _serve(self, link: Link) -> None:
        if not self._is_subscribed:
            link.send(subscribe(1, (self._filter, 2)))
        for first, body in link.packets():
            kind = first >> 4
            if kind == PUBLISH:
                self._take(link, first, body)
            elif kind == PUBREL:
                self._unreleased.discard(int.from_bytes(body[:2], "big"))
                link.send(pubcomp(int.from_bytes(body[:2], "big")))
            else:
                assert kind == SUBACK
                self._is_subscribed = True
                self.subscribed.set()

    def _take(self, link: Link, first: int, body: bytes) -> None:
        end = 2 + int.from_bytes(body[:2], "big")
        packet_id, payload = int.from_bytes(body[end : end + 2], "big"), body[end + 2 :]
        if first & 0x06 == 0x02:
            self.received.append(payload)
            link.send(puback(packet_id))
            return
        if packet_id not in self._unreleased:
            self.received.append(payload)
            self._unreleased.add(packet_id)
        link.send(pubrec(packet_id))


class Load:
    """Some publishers, one subscriber, and the moment at which something happens to the broker."""

    def __init__(self, publishers: int) -> None:
        self.publishers = [Publisher(number, self._count) for number in range(publishers)]
        self.subscriber = Subscriber()
        self._lock = threading.Lock()
        self._running: list[_Client] = []
        self._left = 0
        self._then: Callable[[], None] = lambda: None

    def after(self, acknowledgements: int, then: Callable[[], None]) -> None:
        """Call ``then`` under load: at the n-th acknowledgement from now."""
        self._left, self._then = acknowledgements, then

    def _count(self) -> None:
        with self._lock:
            self._left -= 1
            is_time = self._left == 0
        if is_time:
            self._then()

    def run(self, port: int, *, subscribed: bool = True) -> None:
        """Connect all, or all but the subscriber; they work until the broker ends."""
        self._running = [*self.publishers, self.subscriber] if subscribed else [*self.publishers]
        for client in self._running:
            client.connect(port)
        for client in self._running:
            client.begin()

    def pause(self) -> None:
        """Wait until all have seen the end of their connections."""
        for client in self._running:
            client.pause()

    def subscribe(self, port: int) -> None:
        """Create the subscription, and disconnect."""
        self.subscriber.connect(port)
        self.subscriber.begin()
        assert self.subscriber.subscribed.wait(TIMEOUT_S)
        self.subscriber.pause(shut=True)

    def finish(self, port: int) -> None:
        """Finish everything unfinished, with a broker that keeps running."""
        for publisher in self.publishers:
            publisher.finish()
        self.run(port)
        for publisher in self.publishers:
            assert publisher.is_idle.wait(TIMEOUT_S)
            publisher.pause(shut=True)
        self._await_deliveries(port)
        self.subscriber.pause(shut=True)

    def _await_deliveries(self, port: int) -> None:
        """Publish a last message: when it has arrived, all others have."""
        last = Publisher(len(self.publishers), lambda: None)
        last.finish()
        last._unfinished[1] = (0, False)
        last.sent = 1
        last.connect(port)
        last.begin()
        assert last.is_idle.wait(TIMEOUT_S)
        last.pause(shut=True)
        deadline = threading.Event()
        for _ in range(int(TIMEOUT_S * 100)):
            if f"{last.name}/0".encode() in self.subscriber.received[-WINDOW:]:
                return
            deadline.wait(0.01)
        raise AssertionError("the subscriber did not receive the last message")

    # ── the account ───────────────────────────────────────────────────────────────────────────

    def check(self) -> None:
        """Everything arrived, QoS 2 once, and each publisher's messages in order."""
        received = defaultdict(list)
        for payload in self.subscriber.received:
            name, _, number = payload.partition(b"/")
            received[name.decode()].append(int(number))
        for publisher in self.publishers:
            self._check_one(publisher, received[publisher.name])

    def _check_one(self, publisher: Publisher, numbers: list[int]) -> None:
        lost = publisher.acknowledged - set(numbers)
        assert not lost, f"{publisher.client_id}: acknowledged and lost: {sorted(lost)[:10]}"
        assert set(numbers) == set(range(publisher.sent)), "repeated and still not there"
        twice = [n for n, times in Counter(numbers).items() if n % 2 and times > 1]
        assert not twice, f"{publisher.client_id}: QoS 2, but more than once: {sorted(twice)[:10]}"
        for qos in (1, 2):
            firsts = list(dict.fromkeys(n for n in numbers if 1 + n % 2 == qos))
            assert firsts == sorted(firsts), f"{publisher.client_id}: QoS {qos} out of order"

    def check_retained(self, port: int) -> None:
        """Each publisher's retained message is the last acknowledged one, or a later one sent."""
        for publisher in self.publishers:
            if publisher.retained_acknowledged >= 0:
                number = int(_retained(port, publisher.topic).partition(b"/")[2])
                assert publisher.retained_acknowledged <= number < publisher.sent


def _retained(port: int, topic: str) -> bytes:
    """Return the payload of a topic's retained message, which must exist."""
    link = Link(port)
    try:
        link.send(connect_packet("") + subscribe(1, (topic, 0)))
        for first, body in link.packets():
            if first >> 4 == SUBACK:
                link.send(PINGREQ)  # messages of the subscription come before the answer to this
            elif first >> 4 == PUBLISH:
                return body[2 + len(topic) :]
            else:
                assert first >> 4 == CONNACK, f"{topic} has no retained message"
        raise AssertionError("the connection ended")
    finally:
        link.close()
