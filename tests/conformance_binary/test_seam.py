"""The switch from history to live: no gap, no repetition, whatever the timing."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

from tests.conformance_binary.looks import disconnects, drops
from tests.conformance_binary.wire_client import (
    MESSAGE,
    BinaryClient,
    ack,
    ping,
    publish,
    subscribe,
    wait_until,
)


def numbers(frames):
    return [int(received.payload[:8]) for received in frames if received.command == MESSAGE]


class Flood:
    """A publisher that keeps some messages in flight until it is stopped."""

    def __init__(self, broker, topic, payload_bytes, in_flight=50):
        self._client = BinaryClient(broker.host, broker.port)
        self._topic = topic
        self._filler = b"x" * (payload_bytes - 8)
        self._in_flight = in_flight
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent = self.acknowledged = 0

    def _run(self):
        with self._client:
            while not self._is_ending.is_set():
                self._step()
            while self.acknowledged < self.sent:
                self._take_ack()

    def _step(self):
        payload = b"%08d" % self.sent + self._filler
        self._client.send(publish(self._topic, payload, self.sent))
        self.sent += 1
        if self.sent - self.acknowledged >= self._in_flight:
            self._take_ack()

    def _take_ack(self):
        self._client.expect(ack(self.acknowledged))
        self.acknowledged += 1

    def start(self):
        self._thread.start()

    def end(self):
        self._is_ending.set()
        self._thread.join()


@contextmanager
def flooding(broker, topic, payload_bytes=100) -> Iterator[Flood]:
    flood = Flood(broker, topic, payload_bytes)
    flood.start()
    try:
        wait_until(lambda: flood.acknowledged > 200)
        yield flood
    finally:
        flood.end()


def read_up_to(client, last):
    """Return frames until the message of that number arrives."""
    frames = []
    while not frames or frames[-1].command != MESSAGE or numbers(frames[-1:])[0] < last:
        received = client.receive()
        assert received is not None, "the connection ended"
        frames.append(received)
    return frames


@pytest.mark.parametrize("name", [None, b"name"])
def test_under_load_no_message_is_left_out_and_none_comes_twice(broker, dial, unique, name):
    with flooding(broker, unique) as flood:
        for _ in range(8):
            client = dial()
            client.send(subscribe(unique, name, 1))
            seen = numbers(read_up_to(client, flood.sent + 200))
            assert seen == list(range(seen[-1] + 1))
            client.close()


def test_a_named_client_that_comes_and_goes_under_load_gets_each_message_once(broker, dial, unique):
    seen = []
    with flooding(broker, unique) as flood:
        for _ in range(8):
            client = dial()
            client.send(subscribe(unique, b"name-" + unique, 1))
            frames = read_up_to(client, flood.sent + 100)
            messages = [received for received in frames if received.command == MESSAGE]
            client.send(*(ack(received.sequence) for received in messages), ping())
            seen += numbers(messages)
            last = messages[-1].sequence
            while received := client.receive():
                if received.command == MESSAGE:
                    last = max(last, received.sequence)  # seen, not acknowledged: delivered again
                elif received.sequence == 0:
                    break
            client.close()
    assert seen == list(range(seen[-1] + 1))


def test_a_subscription_repeated_under_load_starts_over_without_a_gap(broker, dial, unique):
    client = dial()
    with flooding(broker, unique) as flood:
        client.send(*(subscribe(unique, None, number) for number in range(4)))
        frames = [received for number in range(4) for received in client.receive_until(ack(number))]
        frames += read_up_to(client, flood.sent + 100)
    seen = numbers(frames)
    starts = [place for place, number in enumerate(seen) if number == 0]
    assert len(starts) == 4
    for start, end in pairwise([*starts, len(seen)]):
        assert seen[start:end] == list(range(end - start))


@pytest.mark.parametrize("topics", [1, 3])
def test_who_stops_reading_for_a_while_misses_nothing(own_broker, dial, topics):
    broker = own_broker(limits={"outbound_bytes_max": 1 << 20, "packet_bytes_max": 1 << 20})
    publisher = dial(at=broker)
    slow = dial(at=broker, receive_buffer_bytes=4096)
    names = [b"t/%d" % number for number in range(topics)]
    for name in names:
        slow.subscribe(name, b"slow")
    for start in range(0, 3_000, 100):
        for name in names:
            publisher.publish(
                name, *(b"%08d" % n + b"x" * 4_000 for n in range(start, start + 100))
            )
    received = slow.receive_messages(3_000 * topics)
    for name in names:
        assert numbers(r for r in received if r.topic == name) == list(range(3_000))
    assert disconnects(broker, "slow_reader") == drops(broker, "slow_reader") == 0


def test_messages_larger_than_may_wait_reach_a_slow_reader(own_broker, dial):
    broker = own_broker(limits={"outbound_bytes_max": 1 << 20, "packet_bytes_max": 1 << 20})
    publisher = dial(at=broker)
    slow = dial(at=broker, receive_buffer_bytes=4096)
    slow.subscribe(b"t")
    for number in range(8):
        publisher.publish(b"t", b"%08d" % number + b"x" * 3_000_000)
    slow.socket.settimeout(20)
    assert numbers(slow.receive_messages(8)) == list(range(8))


def test_who_does_not_read_holds_up_nobody(own_broker, dial):
    broker = own_broker(limits={"outbound_bytes_max": 1 << 20, "packet_bytes_max": 1 << 20})
    publisher, quick = dial(at=broker), dial(at=broker)
    for topic in (b"t", b"#", b"q:t"):
        dial(at=broker, receive_buffer_bytes=4096).subscribe(topic, b"stuck-" + topic[:1])
    quick.subscribe(b"t")
    for start in range(0, 2_000, 50):
        publisher.publish(b"q:t", *[b"x" * 10_000] * 50)
        publisher.publish(b"t", *(b"%08d" % n + b"x" * 10_000 for n in range(start, start + 50)))
        assert numbers(quick.receive_messages(50)) == list(range(start, start + 50))
    dial(at=broker).expect_nothing()


def test_what_a_filter_brings_too_fast_is_dropped_and_counted(own_broker, dial):
    broker = own_broker(limits={"outbound_bytes_max": 1 << 20, "packet_bytes_max": 1 << 20})
    publisher = dial(at=broker)
    slow = dial(at=broker, receive_buffer_bytes=4096)
    slow.subscribe(b"#")
    for start in range(0, 2_000, 50):
        publisher.publish(b"t", *(b"%08d" % n + b"x" * 10_000 for n in range(start, start + 50)))
    dropped = drops(broker, "slow_reader")
    assert dropped > 0
    received = numbers(slow.receive_messages(2_000 - dropped))
    assert received == sorted(set(received))
    slow.expect_nothing()
