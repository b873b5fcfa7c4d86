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


def connected(stack, broker, client_id, *, is_there=False, **options):
    client = stack.enter_context(Client5(broker.host, broker.port))
    client.send(v5.connect(client_id, **options))
    client.expect_connack(session_present=is_there)
    return client


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
def test_wills_that_wait_and_wills_of_those_who_were_connected_are_published(start, stack):
    """That none is published twice is shown after each step in ``test_v5_crash.py``."""
    broker = start()
    watcher = connected(stack, broker, "watcher", session_expiry=600)
    watcher.subscribe(("will", 1), ("last/will", 1))
    Account(stack, will_delay=1).prepare(broker)
    own = v5.block(**PROPERTIES)
    connected(stack, broker, "here", will=v5.Will("last/will", b"gone", 1, properties=own))
    broker = killed(start, broker)
    watcher = connected(stack, broker, "watcher", clean=False, is_there=True, session_expiry=600)
    topics = set()
    for _ in range(2):
        received = watcher.take()
        assert (received.payload, received.properties["user"]) == (b"gone", PROPERTIES["user"])
        topics.add(received.topic)
        watcher.acknowledge(received)
    assert topics == {"will", "last/will"}
    watcher.expect_nothing()
    broker.stop()
