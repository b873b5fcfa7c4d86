"""One client's input must not delay others for more than a moment, nor mix with theirs."""

import threading
from itertools import count

import pytest

from penstock.doors.mqtt.connection import MqttConnection
from tests.conformance.conftest import both_versions
from tests.conformance.wire_client import WireClient, connack, connect_packet, publish, subscribe

pytestmark = both_versions


def test_of_two_connects_in_the_line_the_first_ones_packets_reach_nobody_elses_session(
    own_broker, connect, unique
):
    broker = own_broker()
    watcher = connect(at=broker)
    watcher.subscribe((unique, 0))
    other = connect(at=broker)
    gate = threading.Semaphore(0)
    commit = broker.server.store.whole.commit
    broker.server.store.whole.commit = lambda batch: (gate.acquire(timeout=20), commit(batch))[1]
    try:
        other.send(publish("z", b"", qos=1, packet_id=1))
        first, second = (WireClient(broker.host, broker.port) for _ in range(2))
        first.send(connect_packet("same", clean=False), subscribe(9, ("first/s", 1)))
        first.send(publish(unique, b"first's"))
        other.ping()
        second.send(connect_packet("same", clean=True), publish(unique, b"second's"))
        other.ping()
    finally:
        for _ in range(50):
            gate.release()
    second.expect(connack())
    assert watcher.receive_publish()[3] == b"second's"
    assert not broker.call(lambda: broker.server.broker.sessions[b"same"].subscriptions)
    first.socket.close()
    second.socket.close()


def test_a_packet_that_repeats_a_filter_gets_each_retained_message_once(own_broker, connect):
    broker = own_broker()
    publisher = connect(at=broker)
    for number in range(20):
        publisher.publish_acknowledged(f"r/{number}", b"x", retain=True)
    client = connect(at=broker)
    client.send(subscribe(1, *[("r/#", 0)] * 200))
    client.receive()
    got = sorted(client.receive_publish()[2].decode() for _ in range(20))
    assert got == sorted(f"r/{number}" for number in range(20))
    client.expect_nothing()


def test_a_stop_under_load_does_not_wait_for_publishers_to_end(own_broker, connect):
    broker = own_broker(shutdown={"timeout_s": 20})
    clients = [connect(at=broker) for _ in range(3)]
    running = threading.Event()
    running.set()

    def flood(client):
        number = 0
        while running.is_set():
            number = number % 65_000 + 1
            try:
                client.send(publish("load", b"x" * 50, qos=1, packet_id=number))
            except OSError:
                return

    threads = [threading.Thread(target=flood, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    try:
        broker.restart()
    finally:
        running.clear()
        for client in clients:
            client.socket.close()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("qos", [0, 1])
def test_many_new_topics_in_one_piece_are_taken_turn_by_turn(own_broker, connect, monkeypatch, qos):
    broker = own_broker()
    client, watcher = connect(at=broker), connect(at=broker)
    watcher.subscribe(("t/#", 0))
    put_off, put_events_off = [], MqttConnection._put_off
    connections, steps = broker.server.parts.connections, count()
    now = connections.monotonic()

    def spy(connection, events):
        put_off.append(len(events))
        put_events_off(connection, events)

    monkeypatch.setattr(MqttConnection, "_put_off", spy)
    monkeypatch.setattr(connections, "monotonic", lambda: now + next(steps) / 1000)
    topics = [f"t/{number}" for number in range(200)]
    packets = [
        publish(topic, b"x", qos=qos, packet_id=number if qos else None)
        for number, topic in enumerate(topics, 1)
    ]
    client.send(b"".join(packets))
    assert [watcher.receive_publish()[2].decode() for _ in topics] == topics
    assert len(put_off) > 10
    assert sorted(put_off, reverse=True) == put_off
