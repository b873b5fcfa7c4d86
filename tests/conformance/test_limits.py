"""Limits on clients and windows: one below passes, one above does not, and the reason is counted.

The limits on topics, packets, queues, subscriptions and sessions are tested with the statements
they belong to (``test_topics``, ``test_errors``, ``test_bad_input``, ``test_subscribe``,
``test_session``).
"""

import pytest

from tests.conformance.wire_client import (
    BY_WEBSOCKET,
    DISCONNECT,
    connack,
    connect_packet,
    packet,
    puback,
    publish,
    subscribe,
    wait_until,
)


@pytest.mark.skipif(BY_WEBSOCKET, reason="refused by HTTP: tests/websocket/test_handshake.py")
def test_clients_above_the_limit_are_refused_until_one_leaves(own_broker, connect, dial):
    broker = own_broker(limits={"clients_max": 2})
    first, second = connect(at=broker), connect(at=broker)
    refused = dial(at=broker)
    refused.send(connect_packet(""))
    assert refused.receive() in {connack(code=3), b""}
    refused.expect_close()
    first.disconnect()

    def accepted():
        newcomer = dial(at=broker)
        newcomer.send(connect_packet(""))
        return newcomer.receive() == connack()

    wait_until(accepted)
    second.ping()


@pytest.mark.parametrize("qos", [1, 2])
def test_no_more_than_the_window_is_in_flight(own_broker, connect, unique, qos):
    broker = own_broker(limits={"inflight_max": 3})
    subscriber, publisher = connect(at=broker), connect(at=broker)
    subscriber.subscribe((unique, 2))
    for number in range(4):
        publisher.publish_acknowledged(unique, b"%d" % number, qos=qos)
    ids = [subscriber.expect_publish(unique, b"%d" % number, qos=qos) for number in range(3)]
    subscriber.expect_nothing()
    if qos == 1:
        subscriber.send(puback(ids[1]))
        subscriber.expect_publish(unique, b"3", qos=1)


def test_client_ids_are_taken_up_to_the_configured_length(own_broker, connect, dial):
    broker = own_broker(limits={"client_id_bytes_max": 30})
    connect("a" * 30, at=broker)
    client = dial(at=broker)
    client.send(connect_packet("a" * 31))
    client.expect(connack(code=2))
    client.expect_close()


def reason_of(samples, reason):
    return samples[f'penstock_disconnects_total{{reason="{reason}"}}']


CAUSES = {
    "client_disconnect": DISCONNECT,
    "malformed_packet": packet(0xC1),
    "protocol_violation": packet(0xD0),
    "topic_invalid": publish("a/+", b"m"),
    "topic_reserved": publish("$SYS/a", b"m"),
}


@pytest.mark.parametrize(("reason", "cause"), CAUSES.items(), ids=CAUSES.keys())
def test_the_reason_of_a_disconnect_is_counted_once(own_broker, connect, reason, cause):
    broker = own_broker()
    client = connect(at=broker)
    client.send(cause)
    client.expect_close()
    samples = broker.metrics()
    ends = {name: value for name, value in samples.items() if "disconnects_total" in name}
    assert sum(ends.values()) == reason_of(samples, reason) == 1


def test_a_lost_connection_and_a_take_over_have_reasons_of_their_own(own_broker, connect):
    broker = own_broker()
    connect("lost", at=broker).abort()
    wait_until(lambda: reason_of(broker.metrics(), "connection_lost") == 1)
    older = connect("same", at=broker)
    connect("same", at=broker)
    older.expect_close()
    assert reason_of(broker.metrics(), "session_taken_over") == 1


@pytest.mark.parametrize(
    ("reason", "first", "answer"),
    [
        ("unacceptable_protocol", connect_packet("", level=3), connack(code=1)),
        ("identifier_rejected", connect_packet("", clean=False), connack(code=2)),
        ("malformed_packet", connect_packet("", flags=0x03), b""),
        ("protocol_violation", subscribe(1, ("a", 0)), b""),
    ],
)
def test_the_reason_of_a_refusal_is_counted(own_broker, dial, reason, first, answer):
    broker = own_broker()
    client = dial(at=broker)
    client.send(first)
    if answer:
        client.expect(answer)
    client.expect_close()
    wanted = {reason, "unknown_protocol"} if reason == "protocol_violation" else {reason}
    assert sum(reason_of(broker.metrics(), name) for name in wanted) == 1


def test_the_limit_on_filters_holds_for_those_that_stand_in_the_line_too(own_broker, connect):
    broker = own_broker(limits={"subscriptions_max": 10})
    client = connect("many", at=broker, clean=False)
    client.send(b"".join(subscribe(number + 1, (f"t/{number}", 1)) for number in range(50)))
    granted = [client.receive()[-1] for _ in range(50)]
    assert granted.count(1) == 10
    assert granted.count(0x80) == 40


def test_a_new_persistent_session_beyond_the_limit_is_refused_and_others_go_on(
    own_broker, connect, dial
):
    broker = own_broker(limits={"sessions_max": 2})
    for name in ("one", "two"):
        connect(name, at=broker, clean=False).disconnect()
    client = dial(at=broker)
    client.send(connect_packet("three", clean=False))
    client.expect(connack(code=3))
    client.expect_close()
    connect("three", at=broker, clean=True).ping()
    connect("one", at=broker, clean=False, session_present=True).ping()
    assert reason_of(broker.metrics(), "too_many_sessions") == 1


def test_what_is_put_off_for_a_reader_is_read_when_it_has_caught_up_and_comes_in_order(
    own_broker, connect
):
    broker = own_broker(limits={"outbound_bytes_max": 65_536, "packet_bytes_max": 65_536})
    reader, publisher = connect("slow", at=broker), connect(at=broker)
    reader.subscribe(("t", 1))
    reads = []
    read = broker.server.store.read
    broker.server.store.read = lambda numbers: (reads.append(numbers), read(numbers))[1]
    payloads = [b"%05d" % number + b"x" * 30_000 for number in range(1_000)]
    publisher.send(b"".join(publish("t", p, qos=1, packet_id=int(p[:5]) + 1) for p in payloads))
    for _ in payloads:
        publisher.receive()
    publisher.ping()
    assert not reads
    assert [reader.receive_publish()[3] for _ in payloads] == payloads
    assert reads


@pytest.mark.slow
@pytest.mark.proves("MQTT-2.3.1-4", "MQTT-4.3.2-1")
def test_an_id_in_flight_is_passed_over_when_the_ids_come_round(connect, unique):
    subscriber, publisher = connect(), connect()
    subscriber.subscribe((unique, 1))
    publisher.publish_acknowledged(unique, b"held")
    held = subscriber.expect_publish(unique, b"held", qos=1)
    for _ in range(0, 66_000, 500):
        burst = (publish(unique, b"m", qos=1, packet_id=1 + number) for number in range(500))
        publisher.send(*burst)
        ids = [subscriber.receive_publish()[1] for _ in range(500)]
        assert held not in ids
        subscriber.send(*map(puback, ids))
        publisher.expect(*(puback(1 + number) for number in range(500)))
