"""Topics that only the broker writes are closed to clients, also once the broker has written them."""

import contextlib

import pytest
import redis

from penstock.client.errors import ClientError
from penstock.testing import Broker
from penstock.wire.binary import client as binary
from penstock.wire.binary.events import Failed
from tests.crossing.doors import WAYS_IN, BinaryClient, register_key

TOPIC = b"$SYS/broker/uptime"


@pytest.fixture
def broker():
    with Broker(sys={"interval_s": 1}) as own:
        own.call(own.server._sys_topics.publish)
        register_key(own)
        yield own


@pytest.mark.parametrize("name", [name for name in WAYS_IN if "retained" not in name])
def test_nobody_publishes_to_a_topic_of_the_broker(broker, name):
    """QoS 0 has no answer: that nothing was stored, and the value is another, must do."""
    with contextlib.suppress(ClientError, AssertionError, redis.ResponseError):
        WAYS_IN[name](broker, TOPIC, b"nine")
    assert broker.server.broker.retained.get(TOPIC).payload != b"nine"
    broker.call(broker.server.parts.pipeline.when_committed, lambda: None)
    assert broker.server.store.topic(TOPIC) is None
    assert broker.server.counters.messages_in_total == [0, 0, 0]


def test_a_binary_publisher_is_told_and_may_go_on(broker):
    with BinaryClient(broker) as client:
        client.send(binary.publish(TOPIC, b"9", 1) + binary.ping())
        failed = client.next()
        assert isinstance(failed, Failed)
        assert "SYS" in failed.text
