"""The short way of reads that have nothing but ordinary QoS 0 packets."""

import gc

import pytest
from tests.conformance import packets5 as v5
from tests.conformance.wire_client import WireClient, connect_packet, publish

from penstock.doors.mqtt.connection import MqttConnection
from penstock.obs.reasons import DisconnectReason
from penstock.testing import Broker


@pytest.fixture
def broker():
    with Broker() as own:
        yield own


def connected(broker, name):
    client = WireClient(broker.host, broker.port)
    client.send(connect_packet(name))
    assert client.receive()[:1] == b"\x20"
    return client


def connection_of(broker, name):
    def find():
        made = (one for one in gc.get_objects() if type(one) is MqttConnection)
        return next(one for one in made if one.client_id == name)

    return broker.call(find)


class Faulty:
    """Stands for what publishes to clients of another version, and has a bug."""

    @property
    def forward_frames(self):
        raise RuntimeError("a bug")


def test_a_bug_that_one_client_meets_closes_that_client_only_and_is_counted(broker):
    with connected(broker, "unlucky") as unlucky, connected(broker, "other") as other:
        connection = connection_of(broker, b"unlucky")
        with WireClient(broker.host, broker.port) as of_5:
            of_5.send(v5.connect("of 5"), v5.subscribe(1, ("t", 0)))
            assert [of_5.receive()[0] for _ in range(2)] == [0x20, 0x90]
            unlucky.send(publish("t", b"well"))
            assert of_5.receive() == v5.publish("t", b"well")
            connection._publishing = Faulty()
            unlucky.send(publish("t", b"x"))
            unlucky.expect_close()
        assert connection.reason is DisconnectReason.INTERNAL_ERROR
        other.subscribe(("t", 0))
        other.send(publish("t", b"still here"))
        other.expect_publish("t", b"still here", qos=0)
        assert broker.metrics()['penstock_disconnects_total{reason="internal_error"}'] == 1


def test_what_follows_a_topic_that_is_new_keeps_its_place(broker):
    with connected(broker, "publisher") as publisher, connected(broker, "subscriber") as subscriber:
        subscriber.subscribe(("#", 0))
        names = ["a", "b", "a", "new/1", "a", "new/2", "b"]
        for _ in range(2):
            publisher.send(b"".join(publish(name, name.encode()) for name in names))
            for name in names:
                subscriber.expect_publish(name, name.encode(), qos=0)
