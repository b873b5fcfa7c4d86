"""The client's conversation, with a server machine at the other end of the cable."""

import pytest
from tests.wire.pair import byte_by_byte, whole
from tests.wire.vectors import feed

from penstock.client.errors import BrokerProtocolError, RefusedError
from penstock.client.mqtt.session import (
    Connected,
    Delivery,
    MqttSession,
    PingAnswered,
    SubscribeAnswered,
    name_fault,
)
from penstock.errors import LocalProtocolError, Refused, RemoteProtocolError
from penstock.wire.mqtt import MqttServerMachine, PacketType, encode
from penstock.wire.mqtt.events import Will


class Cable:
    """A session, and a server machine that receives what it sends."""

    def __init__(self, cut=whole):
        self.session = MqttSession()
        self.server = MqttServerMachine()
        self._cut = cut

    def heard(self):
        """What the server makes of everything the session has to say."""
        events = feed(self.server, self._cut(self.session.data_to_send()))
        return [_spelled(*event) if event[0] == "ack" else event for event in events]

    def says(self, data):
        """Let the server say something; what happened at the session."""
        return [h for piece in self._cut(data) for h in self.session.receive(piece)]


def _spelled(_word, kind, packet_id):
    return [PacketType(kind).name.lower(), packet_id]


def opened(cut=whole):
    cable = Cable(cut)
    cable.session.connect("id", clean_session=True, keep_alive=60)
    cable.heard()
    assert cable.says(encode.connack(False, 0)) == [Connected(session_present=False)]
    return cable


@pytest.fixture(params=[whole, byte_by_byte])
def cable(request):
    return opened(request.param)


def delivered(packet_id, qos, dup=False):
    return encode.publish(b"t", b"x", qos, packet_id=packet_id, dup=dup)


# ── Connecting


def test_connect_carries_everything_it_was_given():
    cable = Cable()
    cable.session.connect(
        "id",
        clean_session=False,
        keep_alive=7,
        will=Will(b"w", b"gone", 1, retain=True),
        username="u",
        password=b"p",
    )
    assert [event[0] for event in cable.heard()] == ["connect"]
    assert cable.says(encode.connack(True, 0)) == [Connected(session_present=True)]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, "does not speak MQTT 3.1.1"),
        (2, "client id"),
        (3, "not available"),
        (4, "user name or password"),
        (5, "a login is required, or"),
    ],
)
def test_refusal_is_put_into_words(code, words):
    with pytest.raises(RefusedError, match=words) as caught:
        MqttSession().receive(encode.connack(False, code))
    assert isinstance(caught.value, Refused)
    assert caught.value.advice
    assert "\n" not in str(caught.value)


def test_an_answer_that_is_not_mqtt_is_an_error_of_theirs():
    with pytest.raises(BrokerProtocolError, match="not MQTT") as caught:
        MqttSession().receive(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert isinstance(caught.value, RemoteProtocolError)


# ── Publishing


def test_qos_0_is_sent_and_forgotten(cable):
    cable.session.publish("t", b"x", 0, retain=False)
    assert cable.session.unconfirmed == 0
    assert len(cable.heard()) == 1


def test_qos_1_is_confirmed_by_puback_alone(cable):
    cable.session.publish("t", b"x", 1, retain=True)
    cable.heard()
    cable.says(encode.acks(PacketType.PUBREC, [1]) + encode.acks(PacketType.PUBCOMP, [1]))
    assert (cable.session.unconfirmed, cable.session.confirmed) == (1, 0)
    cable.says(encode.acks(PacketType.PUBACK, [1]))
    assert (cable.session.unconfirmed, cable.session.confirmed) == (0, 1)


def test_qos_2_is_confirmed_by_pubcomp_after_pubrel(cable):
    cable.session.publish("t", b"x", 2, retain=False)
    cable.heard()
    cable.says(encode.acks(PacketType.PUBCOMP, [1]) + encode.acks(PacketType.PUBACK, [1]))
    assert cable.session.confirmed == 0
    cable.says(encode.acks(PacketType.PUBREC, [1]))
    assert cable.heard() == [["pubrel", 1]]
    assert (cable.session.unconfirmed, cable.session.confirmed) == (1, 0)
    cable.says(encode.acks(PacketType.PUBCOMP, [1]))
    assert (cable.session.unconfirmed, cable.session.confirmed) == (0, 1)


def test_pubrec_that_nobody_waits_for_is_answered_and_confirms_nothing(cable):
    """A session may outlive the process that published."""
    cable.says(encode.acks(PacketType.PUBREC, [9]))
    assert cable.heard() == [["pubrel", 9]]
    cable.says(encode.acks(PacketType.PUBCOMP, [9]))
    assert cable.session.confirmed == 0


def test_packet_ids_in_use_are_skipped_when_they_come_round():
    """[MQTT-2.3.1-2]"""
    cable = opened()
    cable.session.subscribe([("t", 0)])  # packet id 1 stays in use
    for _ in range(65_534):
        cable.session.publish("t", b"", 1, retain=False)
    with pytest.raises(LocalProtocolError, match="packet ids"):
        cable.session.publish("t", b"", 1, retain=False)
    cable.heard()
    cable.says(encode.acks(PacketType.PUBACK, [7]))
    cable.session.publish("t", b"last", 1, retain=False)
    assert cable.session.data_to_send() == encode.publish(b"t", b"last", 1, packet_id=7)


@pytest.mark.parametrize("topic", ["", "a/+", "#", "a\0b", "\udcff", "x" * 65_536])
def test_topic_that_may_not_be_sent_is_refused_before_it_is(cable, topic):
    with pytest.raises(LocalProtocolError, match="topic"):
        cable.session.publish(topic, b"", 0, retain=False)
    assert cable.session.data_to_send() == b""


def test_qos_3_is_refused_before_it_is_sent(cable):
    with pytest.raises(LocalProtocolError, match="QoS 3"):
        cable.session.publish("t", b"", 3, retain=False)
    assert (cable.session.data_to_send(), cable.session.unconfirmed) == (b"", 0)


# ── Receiving


def test_subscribe_gets_its_codes(cable):
    packet_id = cable.session.subscribe([("a/+", 1), ("b", 2)])
    assert len(cable.heard()) == 1
    assert cable.says(encode.suback(packet_id, [1, 0x80])) == [
        SubscribeAnswered(packet_id, [1, 0x80])
    ]
    assert cable.session.unconfirmed == 0


def test_filter_that_may_not_be_sent_is_refused(cable):
    with pytest.raises(LocalProtocolError, match="'#' must be the whole last level"):
        cable.session.subscribe([("a/#/b", 0)])


def test_delivery_is_acknowledged_when_it_was_taken_and_not_before(cable):
    happened = cable.says(delivered(5, 1) + delivered(6, 1))
    assert [h.packet_id for h in happened] == [5, 6]
    assert cable.heard() == []
    cable.session.acknowledge(happened[:1])
    assert cable.heard() == [["puback", 5]]


def test_acknowledgements_follow_the_order_of_deliveries(cable):
    """[MQTT-4.6.0-2], [MQTT-4.6.0-3]"""
    qos_0 = encode.publish(b"t", b"x")
    happened = cable.says(delivered(1, 2) + delivered(2, 1) + qos_0 + delivered(3, 1))
    cable.session.acknowledge(happened)
    assert cable.heard() == [["pubrec", 1], ["puback", 2], ["puback", 3]]


def test_qos_2_delivery_that_is_repeated_is_handed_out_once(cable):
    """[MQTT-4.3.3-2]"""
    first = cable.says(delivered(4, 2))
    assert first == [Delivery("t", b"x", 2, retain=False, dup=False, packet_id=4)]
    cable.session.acknowledge(first)
    assert cable.says(delivered(4, 2, dup=True)) == []
    assert cable.says(encode.acks(PacketType.PUBREL, [4])) == []
    assert cable.heard() == [["pubrec", 4], ["pubcomp", 4]]
    assert len(cable.says(delivered(4, 2))) == 1, "the id is free again"


def test_pubrel_that_nobody_waits_for_is_answered(cable):
    """Otherwise a broker that remembers an earlier process would repeat it forever."""
    cable.says(encode.acks(PacketType.PUBREL, [8]))
    assert cable.heard() == [["pubcomp", 8]]


def test_delivery_on_a_topic_that_is_not_utf_8_is_an_error_of_theirs(cable):
    with pytest.raises(BrokerProtocolError, match="UTF-8"):
        cable.says(encode.publish(b"\xff", b""))


# ── The rest


def test_ping_and_goodbye(cable):
    cable.session.ping()
    assert cable.heard() == [["pingreq"]]
    assert cable.says(encode.PINGRESP) == [PingAnswered()]
    cable.session.disconnect()
    assert cable.heard() == [["disconnect"]]


def test_names_are_judged_by_their_kind():
    assert name_fault("a/+", is_filter=True) == ""
    assert name_fault("a/+") == "wildcard in a topic name"
    assert name_fault("/".join("a" * 1000)) == "", "a broker's own limits are its own to tell"
