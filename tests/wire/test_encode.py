"""Packets to bytes: exact bytes, the impossible refused, and the same bytes as another client's."""

import pytest
from paho.mqtt import client as paho

from penstock.errors import LocalProtocolError
from penstock.wire.mqtt import encode
from penstock.wire.mqtt.events import Will
from penstock.wire.mqtt.packet import REMAINING_LENGTH_MAX

WILL = Will(b"w/t", b"gone", 1, retain=True)


class Recorder(paho.Client):
    """Paho's own packet builder, without its socket."""

    def __init__(self, **settings) -> None:
        super().__init__(paho.CallbackAPIVersion.VERSION2, **settings)
        self._sock = object()
        self.packets = []

    def _packet_queue(self, command, packet, mid, qos, info=None):
        self.packets.append(bytes(packet))

    def _reset_sockets(self, sockpair_only=False):
        """There is none to close."""


@pytest.fixture
def recorder():
    return Recorder(client_id="id")


def test_connect_is_what_paho_sends():
    other = Recorder(client_id="id", clean_session=False)
    other.username_pw_set("u", "p")
    other.will_set("w/t", b"gone", 1, retain=True)
    other._send_connect(90)
    ours = encode.connect(
        b"id", clean_session=False, keep_alive=90, will=WILL, username=b"u", password=b"p"
    )
    assert [ours] == other.packets


def test_a_plain_connect_is_what_paho_sends(recorder):
    recorder._send_connect(60)
    assert [encode.connect(b"id")] == recorder.packets


@pytest.mark.parametrize("size", [0, 1, 117, 118, 200, 16_371, 16_372, 70_000])
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("retain", [False, True])
def test_publish_is_what_paho_sends(recorder, size, qos, retain):
    recorder._send_publish(0x1234, b"a/b", b"x" * size, qos, retain, dup=qos > 0)
    packet_id = 0x1234 if qos else 0
    ours = encode.publish(b"a/b", b"x" * size, qos, retain=retain, dup=qos > 0, packet_id=packet_id)
    assert [ours] == recorder.packets


def test_subscriptions_are_what_paho_sends(recorder):
    recorder._send_subscribe(False, [(b"a/+", 1), (b"#", 0)])
    recorder._send_unsubscribe(False, [b"a/+", b"#"])
    assert recorder.packets == [
        encode.subscribe(1, [(b"a/+", 1), (b"#", 0)]),
        encode.unsubscribe(2, [b"a/+", b"#"]),
    ]


def test_the_short_packets_are_what_paho_sends(recorder):
    recorder._send_puback(1)
    recorder._send_pubrec(2)
    recorder._send_pubrel(3)
    recorder._send_pubcomp(4)
    recorder._send_pingreq()
    recorder._send_disconnect()
    acks = [encode.acks(kind, [packet_id]) for packet_id, kind in enumerate((4, 5, 6, 7), 1)]
    assert [*acks, encode.PINGREQ, encode.DISCONNECT] == recorder.packets


def test_answers_of_a_server():
    assert encode.connack(True, 0) == b"\x20\x02\x01\x00"
    assert encode.connack(False, 5) == b"\x20\x02\x00\x05"
    assert encode.suback(258, [0, 1, 2, 0x80]) == b"\x90\x06\x01\x02\x00\x01\x02\x80"
    assert encode.unsuback(7) == b"\xb0\x02\x00\x07"
    assert encode.PINGRESP == b"\xd0\x00"


def test_a_head_with_an_id_and_a_payload_is_the_packet():
    head = encode.publish_head(b"t", 3, 1, retain=True)
    assert head + encode.PACKET_IDS[9] + b"abc" == encode.publish(
        b"t", b"abc", 1, retain=True, packet_id=9
    )


def test_packet_ids_are_their_own_index():
    assert len(encode.PACKET_IDS) == 65_536
    assert all(int.from_bytes(two, "big") == at for at, two in enumerate(encode.PACKET_IDS))


def test_acks_of_nothing_are_nothing():
    assert encode.acks(4, []) == b""


def test_the_largest_packet_can_be_announced_and_no_larger():
    head = encode.publish_head(b"t", REMAINING_LENGTH_MAX - 3)
    assert head == b"\x30\xff\xff\xff\x7f\x00\x01t"
    with pytest.raises(LocalProtocolError, match="bytes"):
        encode.publish_head(b"t", REMAINING_LENGTH_MAX - 2)


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda: encode.connect(b"", clean_session=False), id="[MQTT-3.1.3-7]"),
        pytest.param(lambda: encode.connect(b"a", password=b"p"), id="[MQTT-3.1.2-22]"),
        pytest.param(lambda: encode.connect(b"a", keep_alive=65_536), id="keep-alive too long"),
        pytest.param(lambda: encode.connect(b"a", keep_alive=-1), id="keep-alive negative"),
        pytest.param(lambda: encode.connect(b"a" * 65_536), id="field too long"),
        pytest.param(
            lambda: encode.connect(b"a", will=Will(b"t", b"", 3, retain=False)),
            id="[MQTT-3.1.2-14]",
        ),
        pytest.param(lambda: encode.connack(True, 1), id="[MQTT-3.2.2-4]"),
        pytest.param(lambda: encode.connack(False, 6), id="reserved return code"),
        pytest.param(lambda: encode.publish(b"t", b"", 3, packet_id=1), id="[MQTT-3.3.1-4]"),
        pytest.param(lambda: encode.publish(b"t", b"", dup=True), id="[MQTT-3.3.1-2]"),
        pytest.param(lambda: encode.publish(b"t", b"", 1), id="[MQTT-2.3.1-1]"),
        pytest.param(lambda: encode.publish(b"t", b"", 1, packet_id=65_536), id="id too large"),
        pytest.param(lambda: encode.publish(b"t", b"", packet_id=1), id="[MQTT-2.3.1-5]"),
        pytest.param(lambda: encode.publish(b"t" * 65_536, b""), id="topic too long"),
        pytest.param(lambda: encode.acks(3, [1]), id="not an acknowledgement"),
        pytest.param(lambda: encode.acks(4, [1, 0]), id="acknowledgement of 0"),
        pytest.param(lambda: encode.acks(4, [65_536]), id="acknowledgement out of range"),
        pytest.param(lambda: encode.subscribe(1, []), id="[MQTT-3.8.3-3]"),
        pytest.param(lambda: encode.subscribe(1, [(b"a", 3)]), id="[MQTT-3-8.3-4]"),
        pytest.param(lambda: encode.subscribe(0, [(b"a", 0)]), id="SUBSCRIBE with id 0"),
        pytest.param(lambda: encode.suback(1, [3]), id="[MQTT-3.9.3-2]"),
        pytest.param(lambda: encode.suback(1, []), id="SUBACK without codes"),
        pytest.param(lambda: encode.unsubscribe(1, []), id="[MQTT-3.10.3-2]"),
        pytest.param(lambda: encode.unsuback(-1), id="negative id"),
    ],
)
def test_the_impossible_is_refused(ask):
    with pytest.raises(LocalProtocolError):
        ask()
