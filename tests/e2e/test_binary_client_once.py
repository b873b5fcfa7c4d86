"""Python clients between brokers old and new: published once, and with version 1 as before."""

import contextlib
import socket
import threading

import pytest

from penstock.client import Backoff, Publisher, RefusedError, Subscriber
from penstock.testing import Broker
from penstock.wire.binary import encode
from penstock.wire.binary.frame import ACCEPTS_2, HEADER, TRAILER_BYTES, BinaryCommand

FAST = Backoff(first_s=0.01, longest_s=0.05, give_up_s=20)
NEWER = {BinaryCommand.HELLO, BinaryCommand.PUBLISH_2}


class Relay:
    """A port before a broker, whose connections take the bytes up and ``down``.

    ``as_version_1``: what a broker of version 1 does not know is answered as it would.
    ``cut_answers``: so many connections end when the broker sends an ACK, which is lost.
    """

    def __init__(self, port, *, as_version_1=False, cut_answers=0):
        self._port = port
        self._as_version_1 = as_version_1
        self._cuts = cut_answers
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                broker = socket.create_connection(("127.0.0.1", self._port))
                for carry in (self._up, self._down):
                    thread = threading.Thread(target=carry, args=(client, broker))
                    self._threads.append(thread)
                    thread.start()

    def _up(self, client, broker):
        with contextlib.suppress(OSError):
            for frame in frames(client):
                if self._as_version_1 and frame[1] in NEWER:
                    broker.sendall(HEADER.pack(1, 0x55, 0, 0, 0))  # unknown there, too
                else:
                    broker.sendall(plain(frame) if self._as_version_1 else frame)
        hang_up(client, broker)

    def _down(self, client, broker):
        with contextlib.suppress(OSError):
            for frame in frames(broker):
                if frame[1] == BinaryCommand.ACK and self._cuts:
                    self._cuts -= 1
                    break
                client.sendall(frame)
        hang_up(client, broker)


def plain(frame):
    """A SUBSCRIBE as a broker of version 1 reads it: nothing behind the first byte."""
    _, command, sequence, topic_bytes, _ = HEADER.unpack_from(frame)
    if command != BinaryCommand.SUBSCRIBE:
        return frame
    topic = frame[HEADER.size : HEADER.size + topic_bytes]
    return encode.frame(BinaryCommand.SUBSCRIBE, sequence, topic, ACCEPTS_2)


def frames(connection):
    with connection.makefile("rb") as reader:
        while len(header := reader.read(HEADER.size)) == HEADER.size:
            _, command, _, topic_bytes, payload_bytes = HEADER.unpack(header)
            yield header + reader.read(topic_bytes + payload_bytes + TRAILER_BYTES.get(command, 0))


def hang_up(*connections):
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()


@pytest.fixture
def broker():
    with Broker() as own:
        yield own


def stored(broker, topic):
    with Subscriber("reader", topic, port=broker.port) as subscriber:
        return [message.payload for message in subscriber.messages(0.5)]


def publish_all(publisher, count):
    assert publisher.publish_many("t", [b"%d" % n for n in range(count)]) == [None] * count
    for number in range(count, count + 5):
        publisher.publish("t", b"%d" % number)


def test_what_is_sent_again_because_its_answer_was_lost_is_stored_once(broker):
    with (
        Relay(broker.port, cut_answers=10) as relay,
        Publisher(port=relay.port, backoff=FAST) as publisher,
    ):
        publish_all(publisher, 500)
    assert stored(broker, "t") == [b"%d" % n for n in range(505)]
    assert broker.metrics()["penstock_repeated_publishes_total"] > 0


def test_with_a_broker_of_version_1_it_may_be_stored_twice_and_nothing_is_lost(broker):
    with (
        Relay(broker.port, as_version_1=True, cut_answers=5) as relay,
        Publisher(port=relay.port, backoff=FAST) as publisher,
    ):
        publish_all(publisher, 100)
    found = stored(broker, "t")
    assert list(dict.fromkeys(found)) == [b"%d" % n for n in range(105)]
    assert len(found) > 105


def test_a_subscriber_of_a_broker_of_version_1_gets_what_it_always_did(broker):
    with Publisher(port=broker.port) as publisher:
        publisher.publish_many("t", [b"a", b"b"])
    with Relay(broker.port, as_version_1=True) as relay:
        with Subscriber("c", "t", port=relay.port, start="latest", prefetch=1) as subscriber:
            assert [found.payload for found in subscriber.messages(0.5)] == [b"a", b"b"]
        with Publisher(port=relay.port) as publisher, pytest.raises(RefusedError) as refused:
            publisher.publish("t", b"kept", retain=True)
    assert "Unknown command" in str(refused.value)
    assert stored(broker, "t") == [b"a", b"b"]


def test_a_retained_publish_reaches_who_asks_for_it(broker):
    with Publisher(port=broker.port) as publisher:
        publisher.publish("state/pump", b"on", retain=True)
        publisher.publish("state/pump", b"other")
        options = {"port": broker.port, "retained_first": True}
        with Subscriber("c", "state/#", **options) as subscriber:
            assert subscriber.receive(20).payload == b"on"
        publisher.publish("state/pump", b"", retain=True)
        with Subscriber("c", "state/#", **options) as subscriber:
            assert subscriber.receive(0.5) is None


def test_a_subscriber_begins_where_it_says_and_topics_may_be_long(broker):
    topic = "long/" + "x" * 1_000
    with Publisher(port=broker.port) as publisher:
        publisher.publish_many(topic, [b"1", b"2", b"3"])
        with Subscriber("c", topic, port=broker.port, start="last=1") as subscriber:
            assert subscriber.receive(20).payload == b"3"
        publisher.publish(topic, b"4")
        with Subscriber("c", topic, port=broker.port, start="last=1") as subscriber:
            assert subscriber.receive(20).payload == b"4"


def test_a_refusal_has_the_code_of_the_broker(broker):
    with Publisher(port=broker.port) as publisher, pytest.raises(RefusedError) as refused:
        publisher.publish("a/#", b"")
    assert refused.value.code == "topic_invalid"


def test_the_next_node_is_tried_when_one_is_away(broker):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        away = f"127.0.0.1:{unused.getsockname()[1]}"
    nodes = [away, f"127.0.0.1:{broker.port}"]
    with Publisher(nodes=nodes, backoff=FAST) as publisher:
        publisher.publish("t", b"m")
    assert stored(broker, "t") == [b"m"]
