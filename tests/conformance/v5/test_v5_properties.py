"""Every property in every packet that a client sends: lawful, twice, misplaced, out of range, cut.

The tables come from the standard (``packets5.PROPERTIES``), so that no pair of property and packet
is left out. A pair that is refused must be refused with the right code: 0x81 where the format is
broken, 0x82 where the value or the number of them is.
"""

import pytest

from tests.conformance import packets5 as v5
from tests.conformance.packets5 import PROPERTIES, Will

VALID = {
    "payload_format": 1, "message_expiry": 60, "content_type": "text/plain",
    "response_topic": "answer/here", "correlation_data": b"\0\xff", "subscription_id": 268_435_455,
    "session_expiry": 10, "assigned_client_id": "me", "server_keep_alive": 10,
    "auth_method": "SCRAM-SHA-256", "auth_data": b"n,,", "request_problem_information": 0,
    "will_delay": 4_294_967_295, "request_response_information": 1, "response_information": "x",
    "server_reference": "elsewhere", "reason_string": "because", "receive_maximum": 65_535,
    "topic_alias_maximum": 65_535, "topic_alias": 1, "maximum_qos": 1, "retain_available": 1,
    "user": ("name", "value"), "maximum_packet_size": 4_294_967_295, "wildcard_available": 1,
    "subscription_ids_available": 1, "shared_available": 1,
}  # fmt: skip

OUT_OF_RANGE = [
    (v5.CONNECT, "receive_maximum", 0),
    (v5.CONNECT, "maximum_packet_size", 0),
    (v5.CONNECT, "request_problem_information", 2),
    (v5.CONNECT, "request_response_information", 2),
    (v5.WILL, "payload_format", 2),
    (v5.PUBLISH, "payload_format", 2),
    (v5.PUBLISH, "payload_format", 255),
    (v5.SUBSCRIBE, "subscription_id", 0),
    (v5.WILL, "response_topic", "with/+/wildcard"),
    (v5.PUBLISH, "response_topic", "with/#"),
    (v5.PUBLISH, "response_topic", ""),
]

FROM_CLIENTS = {
    "CONNECT": v5.CONNECT, "will": v5.WILL, "PUBLISH": v5.PUBLISH, "PUBACK": v5.PUBACK,
    "PUBREC": v5.PUBREC, "PUBREL": v5.PUBREL, "PUBCOMP": v5.PUBCOMP, "SUBSCRIBE": v5.SUBSCRIBE,
    "UNSUBSCRIBE": v5.UNSUBSCRIBE, "DISCONNECT": v5.DISCONNECTED,
}  # fmt: skip

IN_CONNECT = {v5.CONNECT, v5.WILL}
FIRST_BYTES = {v5.PUBACK: 0x40, v5.PUBREC: 0x50, v5.PUBREL: 0x62, v5.PUBCOMP: 0x70}

each_packet = pytest.mark.parametrize("kind", FROM_CLIENTS.values(), ids=FROM_CLIENTS)


def carrying(kind: int, own: bytes, topic: str = "t") -> bytes:
    """A packet of this kind, lawful but for its property block."""
    if kind == v5.CONNECT:
        return v5.connect("", raw_properties=own)
    if kind == v5.WILL:
        return v5.connect("", will=Will(topic, b"m", properties=own))
    if kind == v5.PUBLISH:
        return v5.publish(topic, b"m", qos=1, packet_id=1, raw_properties=own)
    if kind == v5.SUBSCRIBE:
        return v5.subscribe(1, (topic, 0), raw_properties=own)
    if kind == v5.UNSUBSCRIBE:
        return v5.unsubscribe(1, topic, raw_properties=own)
    if kind == v5.DISCONNECTED:
        return v5.packet(0xE0, b"\0", own)
    return v5.packet(FIRST_BYTES[kind], b"\0\1\0", own)


@pytest.fixture
def expect_refused(dial, connect):
    """Send a packet, and see it refused with a code: in CONNACK or in DISCONNECT."""

    def refused(kind: int, bad: bytes, code: int) -> None:
        if kind in IN_CONNECT:
            client = dial()
            client.send(bad)
            client.expect_refusal(code)
        else:
            client = connect()
            client.send(bad)
            client.expect_disconnect(code)

    return refused


def named(kind: int, *, is_allowed: bool) -> list[str]:
    """The properties that this packet may carry, or may not; a PUBLISH is a client's here."""
    return [
        name
        for name, entry in PROPERTIES.items()
        if (kind in entry.packets) == is_allowed and (kind, name) != (v5.PUBLISH, "subscription_id")
    ]


@pytest.mark.proves5("MQTT-1.5.5-1", "MQTT-2.2.2-1")
@pytest.mark.parametrize("kind", [v5.CONNECT, v5.WILL])
def test_every_property_of_connect_is_accepted(dial, kind):
    for name in set(named(kind, is_allowed=True)) - {"auth_method", "auth_data"}:
        client = dial()
        client.send(carrying(kind, v5.block(**{name: VALID[name]})))
        assert client.expect_connack(), name


@pytest.mark.proves5("MQTT-3.3.4-1")
def test_every_property_of_publish_is_accepted(connect, unique):
    client = connect()
    for name in named(v5.PUBLISH, is_allowed=True):
        client.send(carrying(v5.PUBLISH, v5.block(**{name: VALID[name]}), unique))
        client.expect_accepted(v5.PUBACK, 1)


@pytest.mark.proves5("MQTT-3.8.4-1", "MQTT-3.10.4-4")
def test_every_property_of_subscribe_and_unsubscribe_is_accepted(connect, unique):
    client = connect()
    for name in named(v5.SUBSCRIBE, is_allowed=True):
        client.send(carrying(v5.SUBSCRIBE, v5.block(**{name: VALID[name]}), unique))
        client.expect_suback(1, 0)
        client.send(carrying(v5.UNSUBSCRIBE, v5.block(user=[("a", "b")]), unique))
        client.expect_unsuback(1, 0)


@pytest.mark.proves5("MQTT-3.14.4-3")
@pytest.mark.parametrize("name", ["session_expiry", "reason_string", "user"])
def test_every_property_of_disconnect_is_accepted(connect, unique, name):
    watcher = connect()
    watcher.subscribe((unique, 0))
    client = connect(will=Will(unique, b"m"), session_expiry=5)
    client.send(carrying(v5.DISCONNECTED, v5.block(**{name: VALID[name]})))
    client.expect_close()
    watcher.expect_nothing_from(connect())  # a good DISCONNECT spares the will


@pytest.mark.proves5("MQTT-2.2.1-5", "MQTT-4.3.2-3", "MQTT-4.3.3-4")
@pytest.mark.parametrize("own", [{"reason_string": "so"}, {"user": [("a", "b"), ("a", "b")]}])
def test_acknowledgements_of_a_client_may_carry_properties(connect, unique, own):
    client = connect(receive_maximum=1)
    client.subscribe((unique, 2))
    sender = connect()
    for qos in (1, 2, 1):
        sender.publish_acknowledged(unique, b"m", qos=qos)
    client.send(v5.puback(client.expect_publish(unique, b"m", qos=1).packet_id, 0, **own))
    second = client.expect_publish(unique, b"m", qos=2).packet_id
    client.send(v5.pubrec(second, 0, **own))
    client.expect_ack(v5.PUBREL, second)
    client.send(v5.pubcomp(second, 0, **own))
    client.expect_publish(unique, b"m", qos=1)  # one at a time: each made room for the next
    sender.send(v5.publish(unique, b"m", qos=2, packet_id=9))
    sender.expect_accepted(v5.PUBREC, 9)
    sender.send(v5.pubrel(9, 0, **own))
    sender.expect_ack(v5.PUBCOMP, 9)


@pytest.mark.proves5("MQTT-4.13.1-1")
@each_packet
def test_a_property_of_another_packet_is_malformed(expect_refused, kind):
    for name in named(kind, is_allowed=False):
        expect_refused(kind, carrying(kind, v5.block(**{name: VALID[name]})), 0x81)


@pytest.mark.proves5("MQTT-4.13.1-1")
@each_packet
@pytest.mark.parametrize("number", [0x00, 0x04, 0x0A, 0x14, 0x20, 0x2B, 0x7F, 0x80, 0x3FFF])
def test_an_unknown_property_is_malformed(expect_refused, kind, number):
    own = v5.varint(number) + b"\0\0\0\0"
    expect_refused(kind, carrying(kind, v5.block(own)), 0x81)


@pytest.mark.proves5("MQTT-4.13.1-1")
@each_packet
def test_a_property_twice_is_a_protocol_error(expect_refused, kind):
    for name in set(named(kind, is_allowed=True)) - {"user"}:
        twice = v5.block(**{name: [VALID[name], VALID[name]]})
        expect_refused(kind, carrying(kind, twice), 0x82)


@pytest.mark.proves5("MQTT-4.13.1-1", "MQTT-3.3.2-14")
@pytest.mark.parametrize(("kind", "name", "value"), OUT_OF_RANGE)
def test_a_value_out_of_range_is_a_protocol_error(expect_refused, kind, name, value):
    expect_refused(kind, carrying(kind, v5.block(**{name: value})), 0x82)


@pytest.mark.proves5("MQTT-4.13.1-1", "MQTT-3.1.4-1")
@each_packet
def test_a_property_cut_off_is_malformed(expect_refused, kind):
    """The block ends inside a value, though the packet goes on where it has more fields."""
    for name in named(kind, is_allowed=True):
        whole = v5.prop(name, VALID[name])
        for kept in {1, len(whole) - 1}:
            cut = v5.varint(kept) + whole[:kept]
            expect_refused(kind, carrying(kind, cut), 0x81)


@pytest.mark.proves5("MQTT-1.5.4-1", "MQTT-1.5.4-2", "MQTT-1.5.7-1")
@each_packet
@pytest.mark.parametrize("bad", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"a\0b"])
def test_text_that_is_none_is_malformed_in_either_half_of_a_pair(expect_refused, kind, bad):
    for pair in [(bad, b"v"), (b"n", bad)]:
        expect_refused(kind, carrying(kind, v5.block(user=[pair])), 0x81)


@pytest.mark.proves5("MQTT-1.5.4-1", "MQTT-1.5.4-2", "MQTT-3.3.2-13", "MQTT-3.3.2-19")
@pytest.mark.parametrize("bad", [b"\xff", b"\xed\xa0\x80", b"a\0b"])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for kind in FROM_CLIENTS.values()
        for name, entry in PROPERTIES.items()
        if entry.kind == "text" and kind in entry.packets
    ],
)
def test_a_text_property_that_is_no_text_is_malformed(expect_refused, kind, name, bad):
    expect_refused(kind, carrying(kind, v5.block(**{name: bad})), 0x81)


@pytest.mark.proves5("MQTT-1.5.5-1")
@each_packet
@pytest.mark.parametrize("width", [2, 3, 4])
def test_a_property_length_that_is_not_minimal_is_malformed(expect_refused, kind, width):
    own = v5.prop("user", ("a", "b"))
    expect_refused(kind, carrying(kind, v5.varint(len(own), width) + own), 0x81)


@pytest.mark.proves5("MQTT-1.5.5-1")
@each_packet
def test_a_property_id_that_is_not_minimal_is_malformed(expect_refused, kind):
    own = v5.varint(0x26, 2) + v5.string("a") + v5.string("b")
    expect_refused(kind, carrying(kind, v5.block(own)), 0x81)


@pytest.mark.proves5("MQTT-1.5.5-1", "MQTT-3.8.3-2")
@pytest.mark.parametrize("own", [b"\x0b\x81\x00", b"\x0b\xff\xff\xff\xff\x01", b"\x0b\x80"])
def test_a_subscription_id_that_is_no_varint_is_malformed(expect_refused, own):
    expect_refused(v5.SUBSCRIBE, carrying(v5.SUBSCRIBE, v5.block(own)), 0x81)


@pytest.mark.proves5("MQTT-2.2.2-1")
@pytest.mark.parametrize("kind", [v5.SUBSCRIBE, v5.UNSUBSCRIBE, v5.PUBLISH])
def test_a_packet_without_property_length_is_malformed(expect_refused, kind):
    head = {v5.SUBSCRIBE: b"\x82\x02\0\1", v5.UNSUBSCRIBE: b"\xa2\x02\0\1"}
    expect_refused(kind, head.get(kind, b"\x30\x03\0\1t"), 0x81)


@pytest.mark.proves5("MQTT-3.3.4-6")
def test_a_subscription_id_in_a_publish_of_a_client_is_a_protocol_error(connect, unique):
    watcher = connect()
    watcher.subscribe((unique, 0))
    client = connect()
    client.send(v5.publish(unique, b"m", subscription_id=1))
    client.expect_disconnect(0x82)
    watcher.expect_nothing_from(connect())


@pytest.mark.proves5("MQTT-4.13.1-1")
def test_authentication_data_without_a_method_is_a_protocol_error(dial):
    client = dial()
    client.send(v5.connect("", auth_data=b"n,,"))
    client.expect_refusal(0x82)
