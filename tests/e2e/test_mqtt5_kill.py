"""kill -9 and MQTT 5: sessions, wills and expiry are afterwards what they were."""

from contextlib import ExitStack

import pytest

from tests.conformance import packets5 as v5
from tests.conformance.client5 import Client5
from tests.e2e.mqtt5_account import PROPERTIES, Account


@pytest.fixture
def stack():
    with ExitStack() as opened:
        yield opened


def killed(start, broker):
    broker.kill()
    broker.wait_killed()
    return start()


@pytest.mark.proves5("MQTT-3.1.2-23", "MQTT-4.1.0-1", "MQTT-4.4.0-1", "MQTT-4.3.3-10")
def test_a_session_in_the_middle_of_everything_survives(start, stack):
    account = Account(stack)
    broker = start()
    account.prepare(broker)
    broker = killed(start, broker)
    account.claim(broker).disconnect()
    broker.stop()


@pytest.mark.proves5("MQTT-3.1.2-7", "MQTT-3.1.2-8", "MQTT-3.1.3-10")
def test_a_will_that_came_due_while_the_broker_was_dead_is_published_once(start, stack):
    account = Account(stack, will_delay=1)
    broker = start()
    with Client5(broker.host, broker.port) as watcher:
        watcher.send(v5.connect("watcher", session_expiry=600))
        watcher.expect_connack()
        watcher.subscribe(("will", 1))
        account.prepare(broker)
        broker = killed(start, broker)
    watcher = stack.enter_context(Client5(broker.host, broker.port))
    watcher.send(v5.connect("watcher", clean=False, session_expiry=600))
    watcher.expect_connack(session_present=True)
    watcher.acknowledge(watcher.expect_publish("will", b"gone", qos=1, **PROPERTIES))
    watcher.ping()
    watcher.disconnect()
    broker = killed(start, broker)
    watcher = stack.enter_context(Client5(broker.host, broker.port))
    watcher.send(v5.connect("watcher", clean=False, session_expiry=600))
    watcher.expect_connack(session_present=True)
    watcher.expect_nothing()
    broker.stop()


@pytest.mark.proves5("MQTT-3.1.2-8")
def test_the_will_of_a_client_that_was_connected_when_the_broker_died_is_published(start, stack):
    broker = start()
    client = stack.enter_context(Client5(broker.host, broker.port))
    will = v5.Will("will", b"gone", 1, retain=True, properties=v5.block(**PROPERTIES))
    client.send(v5.connect("who", will=will, session_expiry=600))
    client.expect_connack()
    broker = killed(start, broker)
    watcher = stack.enter_context(Client5(broker.host, broker.port))
    watcher.send(v5.connect("watcher"), v5.subscribe(1, ("will", 1)))
    watcher.expect_connack()
    watcher.expect_suback(1, 1)
    received = watcher.take()
    assert received.payload == b"gone"
    assert received.properties["user"] == PROPERTIES["user"]
    broker.stop()
