"""Idle clients: one that sends nothing for too long is closed, whatever it receives."""

import pytest

from tests.conformance.wire_client import wait_until
from tests.conformance_binary.looks import disconnects
from tests.conformance_binary.wire_client import ack, frame, ping, publish

SIGNS_OF_LIFE = {
    "ping": ping(),
    "acknowledgement": ack(1),
    "publish": publish(b"x", b"m"),
    "unknown command": frame(0x55),
}


@pytest.fixture
def impatient(own_broker):
    return own_broker(limits={"idle_timeout_s": 10})


def test_the_default_is_longer_than_the_300_seconds_that_clients_count_on(own_broker, dial):
    broker = own_broker()
    client = dial(at=broker)
    client.expect_nothing()
    broker.clock.advance(301)
    client.expect_nothing()
    broker.clock.advance(331)
    client.expect_close()


@pytest.mark.parametrize("name", [None, b"name"])
def test_a_silent_client_is_closed_and_the_reason_counted(impatient, dial, name):
    client = dial(at=impatient)
    client.subscribe(b"t", name)
    impatient.clock.advance(9.9)
    client.expect_nothing()
    impatient.clock.advance(10.1)
    client.expect_close()
    assert disconnects(impatient, "idle_timeout") == 1


@pytest.mark.parametrize("kind", SIGNS_OF_LIFE)
def test_every_frame_starts_the_time_anew(impatient, dial, kind):
    client, witness = dial(at=impatient), dial(at=impatient)
    client.subscribe(b"t", b"name")
    for _ in range(3):
        impatient.clock.advance(7)
        client.send(SIGNS_OF_LIFE[kind])
        witness.expect_nothing()  # one loop serves both: the bytes before have been read
    client.expect_nothing() if kind == "acknowledgement" else client.receive()
    impatient.clock.advance(10.1)
    while client.receive() is not None:
        pass
    assert disconnects(impatient, "idle_timeout") >= 1


def test_what_the_broker_sends_does_not_start_the_time_anew(impatient, dial):
    client, publisher = dial(at=impatient), dial(at=impatient)
    client.subscribe(b"t")
    for _ in range(3):
        impatient.clock.advance(3)
        publisher.publish(b"t", b"tick")
        client.receive_messages(1)
    impatient.clock.advance(3)
    client.expect_close()
    publisher.expect_nothing()


def test_a_client_that_completes_no_frame_is_closed_after_the_connect_time_out(own_broker, dial):
    """Two bytes identify the protocol, but do not justify an open connection for minutes."""
    broker = own_broker(limits={"connect_timeout_s": 10})
    client = dial(at=broker)
    client.send(b"\x01\x00")
    wait_until(lambda: broker.call(lambda: len(broker.server.parts.connections.clients)) == 1)
    broker.clock.advance(9.9)
    assert disconnects(broker, "connect_timeout") == 0
    broker.clock.advance(0.2)
    client.expect_close()
    assert disconnects(broker, "connect_timeout") == 1
