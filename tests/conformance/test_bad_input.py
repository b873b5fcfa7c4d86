"""The ten root causes behind nearly all public reports against MQTT brokers, a section each.

The claim is always the same: the sender loses its connection, or is served within bounds; other
clients are not affected. ``unharmed`` is such a client.
"""

import socket

import pytest

from tests.conformance.wire_client import (
    BY_WEBSOCKET,
    DISCONNECT,
    PINGREQ,
    connack,
    connect_packet,
    packet,
    puback,
    publish,
    pubrec,
    pubrel,
    string,
    suback,
    subscribe,
    unsuback,
    unsubscribe,
)


@pytest.fixture
def unharmed(connect, unique):
    """A bystander that subscribes and publishes, and checks at the end that both still work."""
    bystander = connect(f"{unique}-bystander")
    bystander.subscribe((f"{unique}/bystander", 1))
    yield bystander
    bystander.send(publish(f"{unique}/bystander", b"all is well"))
    bystander.expect(publish(f"{unique}/bystander", b"all is well"))


# ── 1. A length trusted before it is checked ──────────────────────────────────────────────────

LYING_LENGTHS = {
    "topic-longer-than-packet": packet(0x30, b"\xff\xff", b"short"),
    "topic-one-longer-than-packet": packet(0x30, b"\x00\x06", b"short"),
    "publish-of-half-a-length": packet(0x30, b"\x00"),
    "id-cut-off": packet(0x32, string("a"), b"\x01"),
    "filter-longer-than-packet": packet(0x82, b"\0\1", b"\x00\x09", b"a", b"\0"),
    "second-filter-cut-off": packet(0x82, b"\0\1", string("a"), b"\0", b"\x00"),
    "unsubscribe-longer-than-packet": packet(0xA2, b"\0\1", b"\x7f\xff", b"a"),
    "subscribe-of-one-byte": packet(0x82, b"\0"),
    "length-never-ends": b"\x30\xff\xff\xff\xff\xff",
}


@pytest.mark.proves("MQTT-4.8.0-1", "MQTT-3.3.2-1", "MQTT-3.8.3-3", "MQTT-3.10.3-2")
@pytest.mark.parametrize("bad", LYING_LENGTHS.values(), ids=LYING_LENGTHS.keys())
def test_a_length_that_lies_closes(connect, unharmed, bad):
    client = connect()
    client.send(bad)
    client.expect_close()


def cut_short(whole):
    """A packet of every shorter length, each with the remaining length it really has."""
    body = whole[2:]
    return [packet(whole[0], body[:kept]) for kept in range(len(body))]


@pytest.mark.proves("MQTT-3.1.4-1")
def test_a_full_connect_cut_short_anywhere_closes_without_connack(dial, unharmed):
    whole = connect_packet("who", will=("t", b"m", 1, True), username="u", password=b"p")
    for bad in cut_short(whole):
        client = dial()
        client.send(bad)
        client.expect_close()


@pytest.mark.proves("MQTT-3.8.3-3", "MQTT-3.10.3-2", "MQTT-4.8.0-1")
@pytest.mark.parametrize("whole", [subscribe(1, ("a/b", 1)), unsubscribe(1, "a/b"), pubrel(1)])
def test_a_packet_cut_short_anywhere_closes(connect, unharmed, whole):
    for bad in cut_short(whole):
        client = connect()
        client.send(bad)
        client.expect_close()


# ── 2. Memory reserved from an announced size ─────────────────────────────────────────────────


@pytest.mark.proves("MQTT-4.8.0-2")
def test_a_stranger_who_announces_much_is_closed_at_once(own_broker, dial, connect):
    broker = own_broker()
    client = dial(at=broker)
    client.send(b"\x10\xff\xff\xff\x7f")  # 256 MiB of CONNECT, and not a byte of it
    client.expect_close()
    assert broker.metrics()['penstock_disconnects_total{reason="packet_too_large"}'] == 1


@pytest.mark.proves("MQTT-4.8.0-2")
def test_a_client_who_announces_more_than_the_limit_is_closed_at_once(own_broker, connect):
    client = connect(at=own_broker(limits={"packet_bytes_max": 4_096}))
    client.send(b"\x30\x81\x20")  # 4,097 bytes, none of them sent
    client.expect_close()


def test_a_connect_has_a_limit_of_its_own(own_broker, dial, unique):
    broker = own_broker(limits={"connect_bytes_max": 1_024})
    will = (unique, b"x" * 900, 0, False)
    fitting = dial(at=broker)
    fitting.send(connect_packet(unique, will=will))
    fitting.expect(connack())
    oversized = dial(at=broker)
    oversized.send(connect_packet(unique, will=(unique, b"x" * 1_024, 0, False)))
    oversized.expect_close()


# ── 3. No state machine ───────────────────────────────────────────────────────────────────────


@pytest.mark.proves("MQTT-3.1.0-1", "MQTT-3.1.0-2", "MQTT-4.8.0-1")
@pytest.mark.parametrize("kind", [0x00, 0x20, 0x90, 0xB0, 0xD0, 0xF0])
def test_packets_in_the_wrong_direction_or_time_close(connect, dial, unharmed, kind):
    bad = packet(kind, b"\0\1" if kind in {0x20, 0x90, 0xB0} else b"")
    client = connect()
    client.send(bad)
    client.expect_close()


# ── 4. An exception while writing to another client ────────────────────────────────────────────


@pytest.mark.proves("MQTT-1.5.3-1", "MQTT-3.3.2-2", "MQTT-4.8.0-1")
@pytest.mark.parametrize("end", [b"\xff", b"\xed\xa0\x80", b"\0", b"+", b"#"])
@pytest.mark.parametrize("retain", [False, True])
def test_a_bad_topic_harms_its_publisher_and_no_subscriber(connect, unique, end, retain):
    victim = connect()
    victim.subscribe((f"{unique}/#", 1))
    attacker = connect()
    attacker.send(publish(f"{unique}/".encode() + end, b"m", retain=retain))
    attacker.expect_close()
    honest = connect()
    honest.publish_acknowledged(f"{unique}/good", b"m")
    victim.expect_publish(f"{unique}/good", b"m", qos=1)
    late = connect()
    late.subscribe((f"{unique}/#", 1))
    late.expect_nothing()  # nor was it retained


@pytest.mark.proves("MQTT-1.5.3-1", "MQTT-3.1.3-10")
@pytest.mark.parametrize("end", [b"\xff", b"\0", b"+"])
def test_a_bad_will_topic_never_becomes_a_will(connect, dial, unique, end):
    victim = connect()
    victim.subscribe((f"{unique}/#", 0))
    attacker = dial()
    attacker.send(connect_packet("", will=(f"{unique}/".encode() + end, b"m", 0, False)))
    attacker.expect_close()
    victim.expect_nothing_from(connect())


# ── 5. Recursion or back-tracking per topic level ─────────────────────────────────────────────


@pytest.mark.proves("MQTT-4.7.3-3")
@pytest.mark.parametrize("deep", ["/" * 65_535, "a/" * 32_767, "+/" * 32_767 + "#"])
def test_a_topic_of_very_many_levels_is_refused_or_served(connect, unharmed, deep):
    client = connect()
    client.send(subscribe(1, (deep, 0)))
    assert client.receive() in {suback(1, 0), suback(1, 0x80), b""}
    if "+" not in deep:
        client = connect()
        client.send(publish(deep, b"m"), PINGREQ)
        client.receive()  # PINGRESP, or the end


@pytest.mark.proves("MQTT-4.7.1-3")
def test_many_wildcards_over_many_topics_are_matched_without_back_tracking(connect, unique):
    """Every subset of levels as wildcards: a naive matcher visits 2 to the power of 16 paths."""
    subscriber = connect()
    for mask in range(64):
        levels = ["+" if mask >> (level % 6) & 1 else "a" for level in range(16)]
        subscriber.subscribe((f"{unique}/" + "/".join(levels) + "/end", 0))
    connect().publish_acknowledged(f"{unique}/" + "a/" * 16 + "other", b"no match")
    connect().publish_acknowledged(f"{unique}/" + "a/" * 16 + "end", b"match")
    first = subscriber.receive_publish()
    assert first[3] == b"match"


# ── 6. State kept per unacknowledged id without a bound ───────────────────────────────────────


@pytest.mark.proves("MQTT-4.3.3-2")
def test_unreleased_ids_are_received_or_refused_but_bounded(connect, unique, unharmed):
    client = connect()
    ids = range(1, 2_001)
    for start in range(0, 2_000, 100):
        chunk = ids[start : start + 100]
        client.send(*(publish(unique, b"m", qos=2, packet_id=i) for i in chunk))
        client.expect(*map(pubrec, chunk))
    client.send(publish(unique, b"m", qos=2, packet_id=1, dup=True))
    client.expect(pubrec(1))


@pytest.mark.parametrize(
    ("which", "kept"), [("oldest", range(5, 15)), ("newest", range(10))], ids=["oldest", "newest"]
)
def test_a_queue_is_bounded_and_what_it_drops_is_counted(own_broker, connect, unique, which, kept):
    broker = own_broker(limits={"queue_messages_max": 10, "queue_full": f"drop_{which}"})
    subscriber = connect(unique, at=broker, clean=False)
    subscriber.subscribe((f"{unique}/t", 1))
    subscriber.disconnect()
    publisher = connect(at=broker)
    for number in range(15):
        publisher.publish_acknowledged(f"{unique}/t", b"%d" % number)
    subscriber = connect(unique, at=broker, clean=False, session_present=True)
    for number in kept:
        subscriber.expect_publish(f"{unique}/t", b"%d" % number, qos=1)
    subscriber.expect_nothing()
    assert broker.metrics()[f'penstock_dropped_total{{reason="queue_full_{which}"}}'] == 5


def test_a_full_queue_drops_nothing_yet(own_broker, connect, unique):
    broker = own_broker(limits={"queue_messages_max": 10})
    subscriber = connect(unique, at=broker, clean=False)
    subscriber.subscribe((f"{unique}/t", 1))
    subscriber.disconnect()
    publisher = connect(at=broker)
    for number in range(10):
        publisher.publish_acknowledged(f"{unique}/t", b"%d" % number)
    subscriber = connect(unique, at=broker, clean=False, session_present=True)
    for number in range(10):
        subscriber.expect_publish(f"{unique}/t", b"%d" % number, qos=1)


# ── 7. Super-linear work per packet ───────────────────────────────────────────────────────────


@pytest.mark.proves("MQTT-3.8.4-5", "MQTT-3.10.4-6")
def test_thousands_of_filters_in_one_packet_are_served(connect, unique, unharmed):
    filters = [f"{unique}/{number}/+" for number in range(5_000)]
    client = connect()
    client.send(subscribe(1, *((topic_filter, 1) for topic_filter in filters)))
    client.expect(suback(1, *([1] * len(filters))))
    client.send(unsubscribe(2, *filters))
    client.expect(unsuback(2))


@pytest.mark.proves("MQTT-3.8.4-3")
def test_the_same_filter_thousands_of_times_is_one_subscription(connect, unique, unharmed):
    client = connect()
    client.send(subscribe(1, *[(unique, 0)] * 5_000))
    client.expect(suback(1, *[0] * 5_000))
    client.send(publish(unique, b"once"))
    client.expect(publish(unique, b"once"))
    client.expect_nothing()


def test_thousands_of_tiny_packets_in_one_segment_are_served(connect, unharmed):
    client = connect()
    client.send(PINGREQ * 5_000)
    for _ in range(5_000):
        assert client.receive() == b"\xd0\x00"


# ── 8. Take-over and teardown races ───────────────────────────────────────────────────────────


@pytest.mark.proves("MQTT-3.1.4-2")
@pytest.mark.parametrize("clean", [True, False])
def test_of_many_connections_with_one_id_the_last_one_stands(
    connect, dial, unique, unharmed, clean
):
    crowd = [dial() for _ in range(30)]
    for client in crowd:
        client.send(connect_packet(unique, clean=clean), subscribe(1, (f"{unique}/t", 0)))
    crowd[-1].receive()  # CONNACK of the last, whichever session present it has
    survivors = [client for client in crowd if ends_open(client)]
    assert len(survivors) == 1


def ends_open(client):
    """Whether a connection answers a ping, or has been closed."""
    try:
        client.send(PINGREQ)
    except OSError:
        return False
    while received := client.receive():
        if received == b"\xd0\x00":
            return True
    return False


@pytest.mark.proves("MQTT-3.10.4-2", "MQTT-3.14.4-3")
def test_subscribers_may_come_and_go_while_messages_flow(connect, unique, unharmed):
    publisher, steady = connect(), connect()
    steady.subscribe((f"{unique}/t", 1))
    for round_number in range(20):
        fickle = connect()
        fickle.subscribe((f"{unique}/#", 1))
        publisher.send(*(publish(f"{unique}/t", b"m", qos=1, packet_id=i) for i in range(1, 11)))
        if round_number % 2:
            fickle.send(unsubscribe(2, f"{unique}/#"), DISCONNECT)
        else:
            fickle.abort()
        publisher.expect(*(puback(i) for i in range(1, 11)))
        for _ in range(10):
            steady.send(puback(steady.expect_publish(f"{unique}/t", b"m", qos=1)))


@pytest.mark.proves("MQTT-3.1.4-2", "MQTT-4.4.0-1")
def test_taking_over_while_messages_flow_loses_none(connect, unique):
    publisher = connect()
    subscriber = connect(unique, clean=False)
    subscriber.subscribe((f"{unique}/t", 1))
    numbers = range(1, 101)
    publisher.send(*(publish(f"{unique}/t", b"%d" % n, qos=1, packet_id=n) for n in numbers))
    for _ in range(5):
        subscriber = connect(unique, clean=False, session_present=True)
    publisher.expect(*map(puback, numbers))
    received = [subscriber.receive_publish()[3] for _ in numbers]
    assert received == [b"%d" % n for n in numbers]


# ── 9. Client-supplied text used as something else ────────────────────────────────────────────

ODD_TEXTS = [
    "../../../etc/passwd", "/dev/null", "a'; DROP TABLE x; --", '"} 1 up{x="', "%s%n{0}{x.y}",
    "(a+)+$", "[", "*", "client#+/", "$SYS", "\u202e\u200d", "-rf", "x" * 200,
]  # fmt: skip


@pytest.mark.proves("MQTT-3.1.3-2", "MQTT-3.1.3-4")
@pytest.mark.parametrize("text", ODD_TEXTS, ids=range(len(ODD_TEXTS)))
def test_odd_text_is_only_text(connect, unique, unharmed, text):
    client_id = f"{unique}{text}"
    client = connect(client_id, clean=False, username=text)
    client.subscribe((f"{unique}/t", 1))
    client.disconnect()
    connect().publish_acknowledged(f"{unique}/t", text.encode())
    client = connect(client_id, clean=False, session_present=True)
    client.expect_publish(f"{unique}/t", text.encode(), qos=1)


def test_odd_text_does_not_reach_the_metrics(own_broker, connect):
    broker = own_broker()
    before = set(broker.metrics())
    for text in [*ODD_TEXTS, '"} 1\nup{x="']:
        client = connect(text, at=broker, clean=False)
        client.publish_acknowledged("odd", b"m", retain=True)
        client.abort()
    assert set(broker.metrics()) == before


@pytest.mark.proves("MQTT-3.3.5-2")
def test_the_topics_of_the_broker_are_not_written_by_clients(own_broker, connect, dial, unique):
    broker = own_broker()
    watcher = connect(at=broker)
    watcher.subscribe(("$SYS/#", 0))
    for bad in (publish("$SYS/x", b"m"), publish("$SYS/x", b"m", qos=1, packet_id=1)):
        client = connect(at=broker)
        client.send(bad)
        client.expect_close()
    with_will = dial(at=broker)
    with_will.send(connect_packet(unique, will=("$SYS/x", b"m", 0, True)))
    with_will.expect_close()
    watcher.expect_nothing_from(connect(at=broker))
    assert broker.metrics()['penstock_disconnects_total{reason="topic_reserved"}'] == 3


# ── 10. Slow or silent peers ──────────────────────────────────────────────────────────────────


perhaps_http = pytest.param(
    b"G", marks=pytest.mark.skipif(BY_WEBSOCKET, reason="in a frame it can only be MQTT")
)


@pytest.mark.parametrize("start", [b"", b"\x10", connect_packet("slow")[:-1], perhaps_http])
def test_who_does_not_finish_a_first_packet_in_10_s_is_closed(own_broker, dial, connect, start):
    broker = own_broker()
    witness = connect(at=broker, keep_alive=0)
    client = dial(at=broker)
    client.send(start)
    witness.ping()
    broker.clock.advance(10.3)
    client.expect_close()
    assert broker.metrics()['penstock_disconnects_total{reason="connect_timeout"}'] == 1


def test_who_does_not_finish_an_http_request_in_time_is_closed(own_broker, dial):
    """HTTP keeps its own, real time: uvicorn's timers are the loop's."""
    broker = own_broker(limits={"connect_timeout_s": 0.2})
    client = dial(at=broker)
    client.send(b"GET /health HTTP/1.1\r\nHost: ")
    client.expect_close()


def test_a_first_packet_that_drips_in_gets_no_more_time(own_broker, dial, connect):
    broker = own_broker()
    witness = connect(at=broker, keep_alive=0)
    client = dial(at=broker)
    for byte in connect_packet("drip")[:4]:
        client.send(bytes([byte]))
        witness.ping()
        broker.clock.advance(2.4)
    broker.clock.advance(0.7)
    client.expect_close()


def test_a_client_in_time_is_not_bothered_by_the_connect_timeout(own_broker, connect):
    broker = own_broker()
    client = connect(at=broker, keep_alive=0)
    broker.clock.advance(11)
    client.ping()


@pytest.mark.proves("MQTT-3.2.2-5")
def test_a_refused_client_that_stays_is_closed_by_the_broker(dial, unharmed):
    client = dial()
    client.send(connect_packet("", clean=False))
    client.expect(connack(code=2))
    client.expect_close()


def test_a_subscriber_that_stops_reading_does_not_stall_the_others(connect, unique):
    sleeper, reader, publisher = connect(), connect(), connect()
    sleeper.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    for client in (sleeper, reader):
        client.subscribe((unique, 0))
    message = publish(unique, b"x" * 50_000)
    for _ in range(300):  # 15 MB, more than any buffer on the way holds
        publisher.send(message)
        reader.expect(message)
    publisher.ping()


def test_what_a_slow_reader_is_not_sent_is_counted(own_broker, connect, unique):
    broker = own_broker(limits={"outbound_bytes_max": 64 * 1024})
    sleeper, publisher = connect(at=broker), connect(at=broker)
    sleeper.subscribe((unique, 0))
    message = publish(unique, b"x" * 50_000)
    dropped = 'penstock_dropped_total{reason="slow_reader"}'
    for _ in range(400):
        publisher.send(message)
    publisher.ping()
    assert 0 < broker.metrics()[dropped] < 400
