"""Clients that take without settling, ask for too much or never stop: each reaches a limit."""

import socket

import pytest

from penstock.core import group as group_module
from penstock.dispatch import groups as groups_module
from tests.conformance_queue.wire_client import GROUP, request


@pytest.fixture
def _small(monkeypatch):
    monkeypatch.setattr(group_module, "PENDING_MAX", 10)


def poll(client, topic, maximum=10, **settings):
    asked = {"topic": topic, "group": GROUP, "max": maximum, **settings}
    client.send(request(poll=asked))
    return client.receive()


def produced(client, topic, count, **settings):
    payloads = [b"%d" % number for number in range(count)]
    client.send(request(produce_many={"topic": topic, "payloads": payloads, **settings}))
    assert client.receive().HasField("produced_many")


@pytest.mark.usefixtures("_small")
class TestAGroupHasSoMuchInHandAndNoMore:
    """What is handed out stays in memory until it is settled."""

    def test_a_poll_beyond_it_is_told_what_to_do(self, client, topic):
        produced(client, topic, 30)
        assert len(poll(client, topic).polled.items) == 10
        for wait_ms in (0, 1):
            error = poll(client, topic, wait_ms=wait_ms).error
            assert error.code == "limit"
            assert "acknowledge" in error.message

    def test_after_an_acknowledgement_there_is_more(self, client, topic):
        produced(client, topic, 30)
        leases = [item.lease_id for item in poll(client, topic).polled.items]
        client.send(request(ack_many={"topic": topic, "group": GROUP, "lease_ids": leases}))
        assert client.receive().HasField("ok")
        assert [item.offset for item in poll(client, topic).polled.items] == list(range(10, 20))

    def test_what_was_given_back_is_handed_out_again(self, client, topic):
        produced(client, topic, 30)
        leases = [item.lease_id for item in poll(client, topic).polled.items]
        client.send(request(nack_many={"topic": topic, "group": GROUP, "lease_ids": leases}))
        assert client.receive().HasField("ok")
        assert [item.offset for item in poll(client, topic).polled.items] == list(range(10))

    def test_when_leases_are_over_there_is_more(self, broker, client, topic):
        produced(client, topic, 30)
        assert len(poll(client, topic, visibility_timeout_ms=1_000).polled.items) == 10
        assert poll(client, topic).error.code == "limit"
        broker.clock.advance(1.5)
        assert [item.offset for item in poll(client, topic).polled.items] == list(range(10))

    def test_messages_that_wait_for_their_time_count_as_well(self, client, topic):
        produced(client, topic, 10, delay_ms=3_600_000)
        assert poll(client, topic).error.code == "limit"


@pytest.fixture
def crowded(own_broker, dial, monkeypatch):
    """A broker that has three groups and may have no more."""
    monkeypatch.setattr(groups_module, "GROUPS_MAX", 3)
    broker = own_broker()
    client = dial(at=broker)
    for number in range(3):
        client.send(request(create_group={"topic": "t", "group": f"g{number}"}))
        assert client.receive().HasField("ok")
    return broker


def test_a_group_beyond_the_limit_is_refused_and_existing_ones_work(crowded, dial):
    client = dial(at=crowded)
    for kind in ("poll", "create_group", "commit", "subscribe"):
        client.send(request(**{kind: {"topic": "t", "group": "g3"}}))
        error = client.receive().error
        assert (error.code, "delete some" in error.message) == ("limit", True)
    client.send(request(poll={"topic": "t", "group": "g2"}))
    assert client.receive().HasField("polled")


def test_pull_creates_no_group_beyond_the_limit(crowded):
    with socket.create_connection((crowded.host, crowded.port), 5) as redis:
        redis.sendall(b"PULL t GROUP g3\r\n")
        assert redis.recv(200).startswith(b"-ERR There are too many groups")
        redis.sendall(b"PULL t GROUP g2\r\n")
        assert not redis.recv(200).startswith(b"-")


def test_a_shared_subscription_creates_no_group_beyond_the_limit(crowded):
    with socket.create_connection((crowded.host, crowded.port), 5) as mqtt:
        mqtt.sendall(bytes.fromhex("100d 00044d515454 04 02 0000 000161"))
        assert mqtt.recv(4).startswith(b"\x20")
        mqtt.sendall(b"\x82\x10\x00\x01\x00\x0b$share/g3/t\x01")
        assert mqtt.recv(5) == b"\x90\x03\x00\x01\x01"
        crowded.clock.advance(0.1)  # and let all that is in the line be stored
        assert crowded.call(lambda: crowded.server.parts.broker.groups.count) == 3
