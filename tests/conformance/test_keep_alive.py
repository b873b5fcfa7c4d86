"""Keep-alive: one and a half times the promise, counted from the last complete packet.

Against a broker with a virtual clock, time passes when the test says so; against any other the test
waits for it. "The broker has read the bytes" is shown by a round trip of another client: both
sockets are served by one loop, the earlier bytes first.
"""

import pytest

from tests.conformance.conftest import both_versions
from tests.conformance.wire_client import PINGREQ, PINGRESP, publish

pytestmark = both_versions


def let_pass(broker, seconds, observer):
    """Advance the broker's clock if it is virtual; otherwise wait."""
    if hasattr(broker, "clock"):
        broker.clock.advance(seconds)
    else:
        observer.socket.settimeout(15)  # some brokers check only every few seconds


@pytest.mark.proves("MQTT-3.12.4-1")
def test_each_pingreq_is_answered_by_one_pingresp(connect):
    client = connect()
    client.send(PINGREQ * 3)
    client.expect(PINGRESP, PINGRESP, PINGRESP)
    client.expect_nothing()


@pytest.mark.proves("MQTT-3.1.2-24")
def test_a_silent_client_is_closed(broker, connect, unique):
    client = connect(unique, keep_alive=1)
    let_pass(broker, 2, client)
    client.expect_close()


@pytest.mark.proves("MQTT-3.1.2-24", "MQTT-3.1.2-8")
def test_a_client_closed_for_its_silence_has_its_will_published(broker, connect, unique):
    watcher = connect()
    watcher.subscribe((unique, 0))
    connect(keep_alive=1, will=(unique, b"gone", 0, False))
    let_pass(broker, 2, watcher)
    watcher.expect(publish(unique, b"gone"))


@pytest.mark.proves("MQTT-3.1.2-24")
def test_silence_is_allowed_up_to_one_and_a_half_times_the_promise(own_broker, connect, unique):
    broker = own_broker()
    client = connect(unique, at=broker, keep_alive=10)
    broker.clock.advance(14.9)
    client.ping()
    broker.clock.advance(15.1)
    client.expect_close()
    assert broker.metrics()['penstock_disconnects_total{reason="keep_alive_timeout"}'] == 1


@pytest.mark.proves("MQTT-3.1.2-24")
def test_every_complete_packet_starts_the_time_anew(own_broker, connect, unique):
    broker = own_broker()
    client = connect(unique, at=broker, keep_alive=10)
    for number in range(1, 5):
        broker.clock.advance(14)
        client.publish_acknowledged(unique, b"m", packet_id=number)
    broker.clock.advance(14)
    client.ping()


@pytest.mark.proves("MQTT-3.1.2-24")
def test_part_of_a_packet_does_not_start_the_time_anew(own_broker, connect, unique):
    broker = own_broker()
    client = connect(unique, at=broker, keep_alive=10)
    witness = connect(at=broker, keep_alive=0)
    for byte in publish(unique, b"never finished")[:3]:
        broker.clock.advance(4)
        client.send(bytes([byte]))
        witness.ping()
    broker.clock.advance(4)  # 16 s after CONNECT, 4 s after the last byte
    client.expect_close()


@pytest.mark.proves("MQTT-3.1.2-24")
def test_what_the_broker_sends_does_not_start_the_time_anew(own_broker, connect, unique):
    broker = own_broker()
    client = connect(at=broker, keep_alive=10)
    client.subscribe((unique, 0))
    publisher = connect(at=broker, keep_alive=0)
    for _ in range(3):
        broker.clock.advance(4)
        publisher.send(publish(unique, b"tick"))
        client.expect(publish(unique, b"tick"))
    broker.clock.advance(4)
    client.expect_close()


@pytest.mark.proves("MQTT-3.1.2-24")
def test_keep_alive_0_means_for_ever(own_broker, connect):
    broker = own_broker()
    client = connect(at=broker, keep_alive=0)
    broker.clock.advance(10 * 24 * 3600)
    client.ping()


@pytest.mark.proves("MQTT-3.1.2-24")
def test_a_subscribe_counts_as_a_sign_of_life(own_broker, connect, unique):
    broker = own_broker()
    client = connect(at=broker, keep_alive=10)
    broker.clock.advance(14)
    client.subscribe((unique, 1))
    broker.clock.advance(14)
    client.ping()
