"""Shared subscriptions of MQTT 5: how long a share lasts, and what its members get."""

import pytest

from tests.conformance import packets5 as v5
from tests.conformance.wire_client import wait_until


def group_of(broker, topic, group="g"):
    return broker.server.parts.broker.groups.get(topic.encode(), group.encode())


@pytest.mark.parametrize(
    ("name", "group"), [("$share/g/plant/a", "g"), ("$share/g/plant/+", "g/plant/+")]
)
def test_a_share_ends_with_its_last_member(own_broker, connect, name, group):
    broker = own_broker()
    publisher = connect(at=broker)
    publisher.publish_acknowledged("plant/a", b"before")
    members = [connect(at=broker), connect(at=broker)]
    for member in members:
        member.subscribe((name, 1))
    members[0].disconnect()
    members[1].ping()
    assert group_of(broker, "plant/a", group) is not None
    members[1].unsubscribe(name)
    wait_until(lambda: group_of(broker, "plant/a", group) is None)
    publisher.publish_acknowledged("plant/a", b"for nobody")
    again = connect(at=broker)
    again.subscribe((name, 1))
    publisher.publish_acknowledged("plant/a", b"after")
    again.expect_publish("plant/a", b"after", qos=1)


def test_a_share_lasts_while_a_session_has_it(own_broker, connect):
    broker = own_broker()
    member = connect("worker", at=broker, clean=False, session_expiry=60)
    member.subscribe(("$share/g/jobs", 1))
    member.disconnect()
    connect(at=broker).publish_acknowledged("jobs", b"waits")
    again = connect("worker", at=broker, clean=False, session_expiry=60, session_present=True)
    again.expect_publish("jobs", b"waits", qos=1)
    assert group_of(broker, "jobs") is not None


def test_a_group_that_another_version_uses_stays(own_broker, connect, dial):
    broker = own_broker()
    member = connect(at=broker)
    member.subscribe(("$share/g/jobs", 1))
    older = dial(at=broker)
    older.send(bytes.fromhex("10 0d 00044d515454 04 02 003c 000133"))
    assert older.receive() == bytes.fromhex("20 02 00 00")
    older.send(v5.packet(0x82, b"\x00\x01", v5.string("$share/g/jobs"), b"\x01"))
    assert older.receive() == bytes.fromhex("90 03 00 01 01")
    member.disconnect()
    connect(at=broker).publish_acknowledged("jobs", b"1")
    assert older.receive()
    older.abort()
    connect(at=broker).ping()
    assert group_of(broker, "jobs") is not None


def test_what_a_member_leaves_is_a_new_delivery_for_another(own_broker, connect):
    broker = own_broker()
    first = connect(at=broker)
    first.subscribe(("$share/g/jobs", 1))
    connect(at=broker).publish_acknowledged("jobs", b"job")
    first.expect_publish("jobs", b"job", qos=1)
    second = connect(at=broker)
    second.subscribe(("$share/g/jobs", 1))
    first.abort()
    second.expect_publish("jobs", b"job", qos=1, dup=False)
