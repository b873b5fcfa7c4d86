"""Replays: history first and in order, then live, without a gap or a double. Not in the standard."""

import itertools
import threading
import uuid

import pytest

from tests.access import SECRET
from tests.conformance.wire_client import (
    TARGET,
    WireClient,
    connack,
    connect_packet,
    puback,
    pubcomp,
    publish,
    pubrec,
    pubrel,
    suback,
    subscribe,
    unsuback,
    unsubscribe,
)

RULES = ("allow subscribe t/#", "deny subscribe,read t/hidden", "allow read t/open")

pytestmark = pytest.mark.skipif(bool(TARGET), reason="only this broker has replays")


def fill(publisher, topic, count, qos=1, first=0):
    for number in range(first, first + count):
        publisher.publish_acknowledged(topic, b"%d" % number, qos=qos)


def received(subscriber):
    """The next PUBLISH, acknowledged; PUBRELs before it are answered."""
    while True:
        packet = subscriber.receive()
        assert packet, "the connection ended"
        if packet[0] != 0x62:
            break
        subscriber.send(pubcomp(int.from_bytes(packet[2:4], "big")))
    assert 0x30 <= packet[0] < 0x40
    body = packet[next(i for i, b in enumerate(packet[1:5], 2) if b < 0x80) :]
    end = 2 + int.from_bytes(body[:2], "big")
    qos = packet[0] >> 1 & 3
    if qos:
        answer = puback if qos == 1 else pubrec
        subscriber.send(answer(int.from_bytes(body[end : end + 2], "big")))
    return packet[0], body[2:end].decode(), int(body[end + (2 if qos else 0) :])


def nothing_more(subscriber, publisher):
    """As ``expect_nothing_from``, but PUBRELs may come."""
    marker = f"marker/{uuid.uuid4().hex}"
    subscriber.send(subscribe(9, (marker, 0)))
    publisher.publish_acknowledged(f"{marker}/none", b"-1")
    while (packet := subscriber.receive()) != suback(9, 0):
        assert packet[0] == 0x62
    publisher.publish_acknowledged(marker, b"-2")
    assert received(subscriber) == (0x30, marker, -2)


def numbers(subscriber, count, qos):
    """The payloads of the next messages, each acknowledged; those of QoS 2 to the end."""
    found = []
    for _ in range(count):
        first_byte, _, number = received(subscriber)
        assert first_byte == 0x30 | qos << 1, "neither DUP nor RETAIN"
        found.append(number)
    return found


@pytest.mark.parametrize("clean", [True, False], ids=["live", "persistent"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_history_comes_first_and_then_what_is_published(connect, unique, qos, clean):
    publisher, subscriber = connect(), connect(f"{unique}-s", clean=clean)
    fill(publisher, unique, 9, qos)
    subscriber.subscribe((f"$replay/offset=0/{unique}", qos))
    assert numbers(subscriber, 9, qos) == list(range(9))
    fill(publisher, unique, 3, qos, first=9)
    assert numbers(subscriber, 3, qos) == [9, 10, 11]
    nothing_more(subscriber, publisher)


@pytest.mark.parametrize(
    ("published", "granted", "expected"), [(2, 1, 1), (1, 2, 1), (0, 2, 0), (2, 0, 0)]
)
def test_history_has_the_lower_qos(connect, unique, published, granted, expected):
    publisher, subscriber = connect(), connect()
    publisher.publish_acknowledged(unique, b"1", qos=published)
    subscriber.subscribe((f"$replay/last=5/{unique}", granted))
    assert numbers(subscriber, 1, expected) == [1]
    publisher.publish_acknowledged(unique, b"2", qos=published)
    assert numbers(subscriber, 1, expected) == [2]


def test_the_last_messages_are_those_of_each_topic_in_order_of_arrival(connect, unique):
    publisher, subscriber = connect(), connect()
    for number, topic in enumerate("ababbbaac"):
        publisher.publish_acknowledged(f"{unique}/{topic}", b"%d" % number)
    subscriber.subscribe((f"$replay/last=2/{unique}/#", 1))
    assert numbers(subscriber, 5, 1) == [4, 5, 6, 7, 8]
    subscriber.expect_nothing_from(publisher)


def test_history_begins_at_a_time_or_at_an_offset(own_broker, connect):
    broker = own_broker()
    publisher, subscriber = connect(at=broker, keep_alive=0), connect(at=broker, keep_alive=0)
    for number in range(4):
        publisher.publish_acknowledged("t", b"%d" % number)
        broker.clock.advance(60)
    subscriber.subscribe(("$replay/since=-150s/t", 1))
    assert numbers(subscriber, 2, 1) == [2, 3]
    subscriber.subscribe(("$replay/offset=1/t", 1))
    assert numbers(subscriber, 3, 1) == [1, 2, 3]
    subscriber.expect_nothing_from(publisher)


def test_history_has_no_retained_copy_and_no_retain_flag(connect, unique):
    publisher, subscriber = connect(), connect()
    publisher.publish_acknowledged(unique, b"1", retain=True)
    subscriber.subscribe((f"$replay/last=1/{unique}", 1))
    assert numbers(subscriber, 1, 1) == [1]
    subscriber.expect_nothing_from(publisher)


def test_subscribing_again_restarts_the_history(connect, unique):
    publisher, subscriber = connect(), connect()
    fill(publisher, unique, 3)
    for _ in range(2):
        subscriber.subscribe((f"$replay/last=2/{unique}", 1))
        assert numbers(subscriber, 2, 1) == [1, 2]
    subscriber.subscribe((unique, 1))
    fill(publisher, unique, 1, first=3)
    assert numbers(subscriber, 1, 1) == [3]
    subscriber.expect_nothing_from(publisher)


@pytest.mark.parametrize("text", ["{}", "$replay/last=2/{}", "$replay/offset=7/{}"])
def test_unsubscribe_takes_the_filter_in_either_form(connect, unique, text):
    publisher, subscriber = connect(), connect()
    fill(publisher, unique, 2)
    subscriber.subscribe((f"$replay/last=2/{unique}", 1))
    assert numbers(subscriber, 2, 1) == [0, 1]
    subscriber.send(unsubscribe(3, text.format(unique)))
    subscriber.expect(unsuback(3))
    fill(publisher, unique, 1)
    subscriber.expect_nothing_from(publisher)


@pytest.mark.parametrize(
    "name",
    [
        "$replay/last=0/{}", "$replay/last=-1/{}", "$replay/first=5/{}", "$replay/{}", "$replay/",
        "$replay/since=yesterday/{}", "$replay/since=2026-11-15T12:00:00/{}", "$replay/since=-5y/{}",
        "$replay/offset=x/{}", "$replay/last=5", "$replay/last=5/$share/g/{}",
        "$share/g/$replay/last=5/{}",
    ],
)  # fmt: skip
def test_a_request_that_makes_no_sense_is_refused(connect, unique, name):
    publisher, subscriber = connect(), connect()
    fill(publisher, unique, 1)
    subscriber.send(subscribe(1, (name.format(unique), 1), (f"{unique}/other", 1)))
    subscriber.expect(suback(1, 0x80, 1))
    subscriber.expect_nothing_from(publisher)


@pytest.mark.parametrize("zone", ["Z", "+02:00"])
def test_a_time_may_have_any_zone(connect, unique, zone):
    publisher, subscriber = connect(), connect()
    fill(publisher, unique, 1)
    subscriber.subscribe((f"$replay/since=2020-01-01T00:00:00{zone}/{unique}", 1))
    assert numbers(subscriber, 1, 1) == [0]


def test_a_session_has_a_bounded_number_of_replays_under_way(connect, unique):
    subscriber = connect()
    names = [f"$replay/last=1/{unique}/{number}" for number in range(20)]
    subscriber.send(subscribe(1, *((name, 1) for name in names)))
    subscriber.expect(suback(1, *[1] * 16, *[0x80] * 4))
    subscriber.ping()
    publisher = connect()
    publisher.publish_acknowledged(f"{unique}/3", b"5")
    assert numbers(subscriber, 1, 1) == [5]


def test_a_client_that_does_not_acknowledge_holds_up_its_history_alone(own_broker, connect):
    broker = own_broker(limits={"inflight_max": 4, "queue_messages_max": 5})
    publisher, subscriber = connect(at=broker), connect(at=broker)
    fill(publisher, "t", 40)
    subscriber.subscribe(("$replay/offset=0/t", 1))
    first = [subscriber.receive_publish() for _ in range(4)]
    fill(publisher, "t", 40, first=40)  # far more than window and queue hold
    subscriber.ping()
    for _, packet_id, _, _ in first:
        subscriber.send(puback(packet_id))
    assert numbers(subscriber, 76, 1) == list(range(4, 80))
    subscriber.expect_nothing_from(publisher)


def test_unacknowledged_history_is_sent_again_and_goes_on_where_it_was(own_broker, connect):
    broker = own_broker(limits={"inflight_max": 8})
    publisher, subscriber = connect(at=broker), connect("s", at=broker, clean=False)
    fill(publisher, "t", 50)
    subscriber.subscribe(("$replay/offset=0/t", 1))
    assert numbers(subscriber, 20, 1) == list(range(20))
    unanswered = [subscriber.receive_publish() for _ in range(8)]
    subscriber.ping()  # the acknowledgements were taken
    subscriber.abort()
    fill(publisher, "t", 30, first=50)
    again = connect("s", at=broker, clean=False, session_present=True)
    for _, packet_id, topic, payload in unanswered:
        assert again.receive_publish() == (0x3A, packet_id, topic, payload)
        again.send(puback(packet_id))
    assert numbers(again, 52, 1) == list(range(28, 80))
    again.expect_nothing_from(publisher)


def test_an_ordinary_subscription_to_the_same_topics_has_a_copy_of_its_own(connect, unique):
    publisher, subscriber = connect(), connect()
    fill(publisher, unique, 2)
    subscriber.subscribe((f"{unique}/#", 1))
    subscriber.subscribe((f"$replay/last=9/{unique}", 1))
    assert numbers(subscriber, 2, 1) == [0, 1]
    subscriber.ping()
    fill(publisher, unique, 1, first=2)
    assert numbers(subscriber, 1, 1) == [2]
    subscriber.expect_nothing_from(publisher)


class Publishing:
    """A publisher that goes on until it is told to stop."""

    def __init__(self, broker, topic, qos):
        self._client = WireClient(broker.host, broker.port)
        self._client.send(connect_packet(""))
        self._client.expect(connack())
        self._topic, self._qos = topic, qos
        self.count = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._is_over.is_set():
            for _ in range(50):
                identifier = self.count % 60_000 + 1 if self._qos else None
                payload = b"%d" % self.count
                self._client.send(
                    publish(self._topic, payload, qos=self._qos, packet_id=identifier)
                )
                self.count += 1
            self._finish()

    def _finish(self):
        if self._qos == 0:
            self._client.ping()
        sent = [n % 60_000 + 1 for n in range(self.count - 50, self.count)] if self._qos else []
        self._client.expect(*map(puback if self._qos == 1 else pubrec, sent))
        if self._qos == 2:
            self._client.send(*map(pubrel, sent))
            self._client.expect(*map(pubcomp, sent))

    def stop(self):
        self._is_over.set()
        self._thread.join()
        self._client.abort()
        return self.count


@pytest.mark.parametrize("durability", ["sync", "interval"])
@pytest.mark.parametrize("clean", [True, False], ids=["live", "persistent"])
@pytest.mark.parametrize("granted", [0, 2])
def test_publishers_that_do_not_stop_leave_no_gap_and_no_double(
    own_broker, connect, clean, granted, durability
):
    """Each QoS has its own topic: order is promised for each."""
    broker = own_broker(durability=durability)
    publishers = {qos: Publishing(broker, f"t/{qos}", qos) for qos in (0, 1, 2)}
    for attempt in range(3):
        subscriber = connect(f"s{attempt}", at=broker, clean=clean)
        subscriber.subscribe(("$replay/offset=0/t/#", granted))
        found = {f"t/{qos}": [] for qos in publishers}
        for number in itertools.count():
            _, topic, payload = received(subscriber)
            found[topic].append(payload)
            if number > 2_000 and all(found.values()):
                break
        if attempt < 2:
            subscriber.abort()
    counts = {f"t/{qos}": publisher.stop() for qos, publisher in publishers.items()}
    while any(len(found[topic]) < count for topic, count in counts.items()):
        _, topic, payload = received(subscriber)
        found[topic].append(payload)
    assert {topic: list(range(count)) for topic, count in counts.items()} == found


def test_history_has_what_its_user_may_read_and_live_what_it_may_receive(own_broker, connect):
    broker = own_broker()
    broker.add_user("root", SECRET, roles=("admin",))
    broker.add_user("bob", SECRET, rules=RULES)
    login = {"at": broker, "password": SECRET.encode()}
    publisher = connect("p", username="root", **login)
    for number, topic in enumerate(("t/open", "t/live", "t/hidden")):
        publisher.publish_acknowledged(topic, b"%d" % number)
    subscriber = connect("s", username="bob", **login)
    subscriber.subscribe(("$replay/offset=0/t/#", 1))
    assert numbers(subscriber, 1, 1) == [0]
    for number, topic in enumerate(("t/open", "t/live", "t/hidden"), 3):
        publisher.publish_acknowledged(topic, b"%d" % number)
    assert numbers(subscriber, 2, 1) == [3, 4]
    subscriber.ping()
    subscriber.send(subscribe(2, ("$replay/offset=0/t/live", 1), ("t/live", 1)))
    subscriber.expect(suback(2, 0x80, 1))


def test_what_is_removed_before_its_turn_is_passed_over(own_broker, connect):
    broker = own_broker(limits={"inflight_max": 2})
    publisher, subscriber = connect(at=broker), connect(at=broker)
    fill(publisher, "t", 400)
    subscriber.subscribe(("$replay/offset=0/t", 1))
    first = [subscriber.receive_publish() for _ in range(2)]
    store = broker.server.parts.store
    broker.call(lambda: store.trim(b"t", 398))
    for _, packet_id, _, _ in first:
        subscriber.send(puback(packet_id))
    fill(publisher, "t", 2, first=400)
    found = numbers(subscriber, 1, 1)
    while found[-1] != 401:
        found += numbers(subscriber, 1, 1)
    assert found == sorted(set(found))
    assert found[-4:] == [398, 399, 400, 401]


def test_a_replay_that_forgets_what_it_has_read_reads_it_again(own_broker, connect):
    """As if very many replays were under way."""
    broker = own_broker(limits={"inflight_max": 8})
    broker.call(lambda: setattr(broker.server.parts.mqtt_door.replay_memory, "_bytes_max", 100))
    publisher = connect(at=broker)
    fill(publisher, "t", 300)
    subscribers = [connect(at=broker) for _ in range(3)]
    for subscriber in subscribers:
        subscriber.subscribe(("$replay/offset=0/t", 1))
    found = {subscriber: [] for subscriber in subscribers}
    while any(len(numbers_) < 300 for numbers_ in found.values()):
        for subscriber, so_far in found.items():
            so_far.extend(numbers(subscriber, min(10, 300 - len(so_far)), 1))
    assert all(so_far == list(range(300)) for so_far in found.values())
