"""One direction of a bridge, between two sessions whose brokers are written out as bytes."""

import pytest
from tests.conformance import packets5 as v5

from penstock.bridge.forwarding import WINDOW, Forwarding, Traffic
from penstock.bridge.mapping import Direction, Mapping
from penstock.bridge.path import HOPS_MAX, PROPERTY, Hops
from penstock.client.mqtt.properties import NONE, PublishProperties
from penstock.client.mqtt.session import Delivery, MqttSession
from penstock.obs.reasons import BridgeDropReason

OWN = "b1"


def session(version=5, **connack):
    made = MqttSession(version)
    made.connect("bridge", clean_session=False, keep_alive=0)
    made.data_to_send()
    body = b"\0\0" + (v5.block(**connack) if version == 5 else b"")
    made.receive(bytes([0x20, len(body)]) + body)
    return made


class Copying:
    """A direction with both of its ends."""

    def __init__(self, direction=Direction.OUT, version=5, **connack):
        self.origin, self.target = session(), session(version, **connack)
        self.traffic = Traffic()
        mapping = Mapping(("#",), ("#",))
        self.forwarding = Forwarding(
            direction, mapping, Hops(OWN, "old"), self.origin, self.target, self.traffic
        )

    def take(self, *numbers, qos=1, properties=NONE, payload=b"x", retain=False):
        for number in numbers:
            packet_id = number if qos else 0
            self.forwarding.take(Delivery("a", payload, qos, retain, False, packet_id, properties))

    def answer(self, *packet_ids, code=0):
        for packet_id in packet_ids:
            self.target.receive(b"\x40\x03" + packet_id.to_bytes(2, "big") + bytes([code]))
        self.forwarding.settle()

    @property
    def acknowledged(self):
        return self.origin.data_to_send()


def pubacks(*packet_ids):
    return b"".join(b"\x40\x02" + number.to_bytes(2, "big") for number in packet_ids)


def test_a_message_is_acknowledged_when_the_other_side_has_acknowledged_it():
    it = Copying()
    it.take(7, 8)
    assert it.acknowledged == b""
    it.answer(1)
    assert it.acknowledged == pubacks(7)
    it.answer(2)
    assert it.acknowledged == pubacks(8)
    assert it.traffic.copied == 2


def test_what_the_other_side_refuses_is_counted_and_does_not_come_again():
    it = Copying()
    it.take(7)
    it.answer(1, code=0x87)
    assert it.acknowledged == pubacks(7)
    assert it.traffic.drops[BridgeDropReason.REFUSED] == 1
    assert it.traffic.copied == 0


def test_no_more_is_in_flight_than_the_other_side_takes():
    it = Copying(receive_maximum=2)
    it.take(1, 2, 3, 4)
    sent = it.target.data_to_send()
    it.answer(1)
    assert len(it.target.data_to_send()) == len(sent) // 2
    assert it.forwarding.in_flight == 3


def test_qos_0_does_not_overtake_what_waits():
    it = Copying(receive_maximum=1)
    it.take(1, 2)
    it.take(0, qos=0, payload=b"later")
    assert b"later" not in it.target.data_to_send()
    it.answer(1)
    it.answer(2)
    assert b"later" in it.target.data_to_send()


def test_an_origin_that_does_not_wait_is_not_read_any_further():
    it = Copying(receive_maximum=1)
    it.take(*range(1, WINDOW + 1))
    assert not it.forwarding.is_full
    it.take(WINDOW + 1)
    assert it.forwarding.is_full


def test_what_is_too_large_for_the_other_side_is_dropped_and_counted():
    it = Copying(maximum_packet_size=100)
    it.take(1, payload=b"x" * 100)
    assert it.acknowledged == pubacks(1)
    assert it.traffic.drops[BridgeDropReason.NOT_TAKEN] == 1


def test_a_side_that_retains_nothing_gets_the_message_all_the_same():
    it = Copying(retain_available=0)
    it.take(1, retain=True)
    assert it.target.data_to_send()[0] == 0x32


def test_a_broker_of_3_1_1_gets_the_message_without_properties():
    it = Copying(version=4)
    it.take(1, properties=PublishProperties(content_type="text/plain"))
    assert it.target.data_to_send() == b"\x32\x06\x00\x01a\x00\x01x"


def test_the_path_grows_by_one_hop():
    hops = Hops(OWN, "old")
    before = PublishProperties(user_properties=[(PROPERTY, "b0"), ("unit", "bar")])
    assert hops.extended(before, Direction.OUT).user_properties == (
        ("unit", "bar"),
        (PROPERTY, f"b0,{OWN}"),
    )
    assert hops.extended(NONE, Direction.IN).user_properties == ((PROPERTY, f"{OWN}:old"),)


@pytest.mark.parametrize(
    ("hops", "direction", "is_loop"),
    [
        ([OWN], Direction.OUT, True),
        ([OWN], Direction.IN, True),
        ([f"{OWN}:old"], Direction.IN, True),
        ([f"{OWN}:old"], Direction.OUT, False),  # came in, and goes on to a third broker
        ([f"{OWN}:other"], Direction.IN, False),
        (["b0"] * HOPS_MAX, Direction.OUT, True),
    ],
)
def test_a_message_that_was_here_before_is_dropped(hops, direction, is_loop):
    it = Copying(direction)
    it.take(1, properties=PublishProperties(user_properties=[(PROPERTY, ",".join(hops))]))
    assert bool(it.traffic.drops[BridgeDropReason.LOOP]) is is_loop
    assert bool(it.target.data_to_send()) is not is_loop
