"""The client's conversation in MQTT 5, with a server machine at the other end of the cable."""

import pytest
from tests.wire.pair import byte_by_byte, whole

from penstock.client import ArgumentError, Credentials, PublishProperties, Will
from penstock.client.errors import (
    BrokerProtocolError,
    ConnectionLostError,
    LoginFailedError,
    RefusedError,
    TakenOverError,
)
from penstock.client.mqtt.login import ScramLogin
from penstock.client.mqtt.refusals import PASSING, VersionRefusedError
from penstock.client.mqtt.session import (
    Authenticated,
    Connected,
    Delivery,
    MqttSession,
    SubscribeAnswered,
    SubscribeOptions,
    UnsubscribeAnswered,
)
from penstock.errors import LocalProtocolError
from penstock.trust.scram import ScramServer, read_client_first
from penstock.trust.scram_verifier import new_verifier
from penstock.wire.mqtt import MqttServerMachine, PacketType, encode
from penstock.wire.mqtt.packet_reader import PacketReader
from penstock.wire.mqtt.properties import NONE, Carrier, Properties, block_of, read_properties
from penstock.wire.mqtt.reason_codes import SERVER_DISCONNECT_CODES, ReasonCode

FULL = PublishProperties(
    expiry_s=60,
    content_type="application/json",
    response_topic="answers/7",
    correlation_data=b"\x00\xff",
    user_properties=[("unit", "bar"), ("unit", "psi")],
    payload_format=1,
)


class Cable:
    """A session of MQTT 5, and a server machine that receives what it sends."""

    def __init__(self, cut=whole, **limits):
        self.session = MqttSession(5, **limits)
        self.server = MqttServerMachine()
        self.server.alias_max = 2
        self._cut = cut

    def heard(self):
        data = self.session.data_to_send()
        return [event for piece in self._cut(data) for event in self.server.receive(piece)]

    def says(self, data):
        return [event for piece in self._cut(data) for event in self.session.receive(piece)]


def opened(cut=whole, connack=NONE, **limits):
    cable = Cable(cut, **limits)
    cable.session.connect("id", clean_session=True, keep_alive=60)
    [connect] = cable.heard()
    assert connect.version == 5
    cable.says(encode.connack(False, 0, connack))
    return cable


@pytest.fixture(params=[whole, byte_by_byte])
def cable(request):
    return opened(request.param)


def reason(words):
    return Properties(reason_string=words.encode())


# ── Connecting


def test_connect_carries_everything_it_was_given():
    cable = Cable(receive_maximum=7, packet_bytes_max=1000, topic_aliases=True)
    will = Will("w", b"gone", 1, properties=FULL, delay_s=9)
    cable.session.connect(
        "id",
        clean_session=False,
        keep_alive=7,
        will=will.as_packet(),
        session_expiry_s=3600,
        user_properties=[("site", "north")],
    )
    [packet] = cable.heard()
    properties = packet.properties
    assert (properties.session_expiry, properties.receive_maximum) == (3600, 7)
    assert (properties.maximum_packet_size, properties.topic_alias_maximum) == (1000, 32)
    assert properties.user_properties == ((b"site", b"north"),)
    assert (packet.will.delay_s, packet.will.properties.expiry_s) == (9, 60)
    assert (b"unit", b"bar") in packet.will.properties.headers


def test_what_the_broker_decides_is_reported():
    cable = Cable()
    cable.session.connect("", clean_session=True, keep_alive=60)
    agreed = Properties(assigned_client_id=b"n7", server_keep_alive=30, receive_maximum=5)
    assert cable.says(encode.connack(False, 0, agreed)) == [Connected(False, agreed)]
    assert cable.session.limits.receive_maximum == 5


@pytest.mark.parametrize("code", [0x80, 0x85, 0x88, 0x89, 0x8A, 0x90, 0x95, 0x97, 0x9C, 0x9F])
def test_refused_connection_is_put_into_words(code):
    with pytest.raises(RefusedError, match="refused the connection: ") as caught:
        MqttSession(5).receive(encode.connack(False, code, NONE))
    assert (caught.value.reason_code, bool(caught.value.advice)) == (code, True)
    assert "0x" not in str(caught.value), "in words"


@pytest.mark.parametrize("code", [0x86, 0x87, 0x8C])
def test_refused_login_is_an_error_of_its_own(code):
    with pytest.raises(LoginFailedError):
        MqttSession(5).receive(encode.connack(False, code, NONE))


def test_words_of_the_broker_are_preferred_and_cannot_control_a_terminal():
    said = reason("no more than 5 \x1b[2J clients " + "x" * 500)
    with pytest.raises(RefusedError, match=r"no more than 5 \\x1b\[2J clients") as caught:
        MqttSession(5).receive(encode.connack(False, 0x97, said))
    assert len(caught.value.message) < 300


def test_server_reference_is_named():
    elsewhere = Properties(server_reference=b"other.example:1883")
    with pytest.raises(RefusedError, match=r"connect to other\.example:1883") as caught:
        MqttSession(5).receive(encode.connack(False, 0x9C, elsewhere))
    assert caught.value.server_reference == "other.example:1883"


@pytest.mark.parametrize("cut", [whole, byte_by_byte])
@pytest.mark.parametrize("answer", [encode.connack(False, 1), encode.connack(False, 0x84, NONE)])
def test_broker_without_mqtt_5_is_recognised_in_either_form(cut, answer):
    cable = Cable(cut)
    with pytest.raises(VersionRefusedError, match="does not speak MQTT 5; connect with version=4"):
        cable.says(answer)


def test_refusal_in_the_form_of_3_1_1_keeps_its_meaning():
    with pytest.raises(LoginFailedError, match="user name or password"):
        MqttSession(5).receive(encode.connack(False, 4))


# ── Publishing


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_message_carries_its_properties(cable, qos):
    cable.session.publish("t", b"x", qos, retain=True, properties=FULL)
    [event] = cable.heard()
    assert (event.topic, event.payload, event.qos, event.retain) == (b"t", b"x", qos, True)
    assert event.properties.expiry_s == 60
    assert dict(event.properties.headers)[b"mqtt-correlation-data"] == b"\x00\xff"
    assert [value for name, value in event.properties.headers if name == b"unit"] == [
        b"bar",
        b"psi",
    ]


@pytest.mark.parametrize(("qos", "kind"), [(1, PacketType.PUBACK), (2, PacketType.PUBREC)])
def test_refused_message_is_done_and_not_confirmed(cable, qos, kind):
    cable.session.publish("t", b"x", qos, retain=False)
    cable.heard()
    cable.says(encode.ack(kind, 1, 0x97, reason("the disk is full")))
    assert (cable.session.unconfirmed, cable.session.confirmed) == (0, 0)
    refused = cable.session.take_refusals()
    assert (refused.count, refused.code) == (1, 0x97)
    assert refused.properties.reason_string == b"the disk is full"
    assert cable.heard() == [], "no PUBREL"
    cable.session.publish("t", b"y", qos, retain=False)
    cable.says(encode.ack(kind, 2, 0x10))
    if qos == 2:
        cable.says(encode.ack(PacketType.PUBCOMP, 2, 0))
    assert (cable.session.confirmed, cable.session.take_refusals().count) == (1, 0)


def test_topic_is_named_once_and_then_by_its_alias():
    cable = opened(connack=Properties(topic_alias_maximum=2), topic_aliases=True)
    for topic in ("a", "b", "c", "a", "b", "c"):
        cable.session.publish(topic, b"", 0, retain=False, properties=FULL)
    sent = cable.session.data_to_send()
    events = cable.server.receive(sent)
    assert [event.topic for event in events] == [b"a", b"b", b"c", b"a", b"b", b"c"]
    plain = opened()
    plain.session.publish("a", b"", 0, retain=False, properties=FULL)
    alone = len(plain.session.data_to_send())
    assert len(sent) == 6 * alone + 4 * 3 - 2, "a and b with alias, twice without their letter"


def test_message_with_an_alias_that_is_refused_binds_nothing():
    limits = Properties(topic_alias_maximum=2, maximum_packet_size=30)
    cable = opened(connack=limits, topic_aliases=True)
    with pytest.raises(RefusedError, match="the broker takes 30 at most"):
        cable.session.publish("a", bytes(30), 0, retain=False)
    cable.session.publish("a", b"", 0, retain=False)
    assert [event.topic for event in cable.heard()] == [b"a"]


@pytest.mark.parametrize(
    ("connack", "arguments", "words"),
    [
        (Properties(maximum_qos=1), {"qos": 2}, "QoS 1 at most; publish with qos=1"),
        (Properties(maximum_qos=0), {"qos": 1}, "QoS 0 at most"),
        (Properties(retain_available=0), {"qos": 0, "retain": True}, "retains no messages"),
        (Properties(maximum_packet_size=9), {"qos": 1}, "has 10 bytes"),
    ],
)
def test_what_the_broker_does_not_take_is_not_sent(connack, arguments, words):
    cable = opened(connack=connack)
    with pytest.raises(RefusedError, match=words):
        cable.session.publish("t", b"xx", **({"retain": False} | arguments))
    assert (cable.session.data_to_send(), cable.session.unconfirmed) == (b"", 0)


def test_message_of_exactly_the_size_that_the_broker_takes_is_sent():
    cable = opened(connack=Properties(maximum_packet_size=10))
    cable.session.publish("t", b"xx", 1, retain=False)
    assert len(cable.session.data_to_send()) == 10


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("content_type", "a\0b"),
        ("response_topic", "a/#"),
        ("response_topic", ""),
        ("user_properties", [("a", "\udcff")]),
        ("user_properties", [("x" * 65_536, "")]),
        ("correlation_data", bytes(65_536)),
    ],
)
def test_property_that_may_not_be_sent_is_refused_before_it_is(cable, field, value):
    with pytest.raises(LocalProtocolError):
        cable.session.publish(
            "t", b"", 0, retain=False, properties=PublishProperties(**{field: value})
        )
    assert cable.session.data_to_send() == b""


@pytest.mark.parametrize("wrong", [{"expiry_s": -1}, {"expiry_s": 2**32}, {"payload_format": 2}])
def test_property_out_of_bounds_is_refused_when_it_is_given(wrong):
    with pytest.raises(ArgumentError):
        PublishProperties(**wrong)


def test_3_1_1_has_no_properties_and_says_so():
    session = MqttSession(4)
    with pytest.raises(RefusedError, match=r"needs MQTT 5, and this connection speaks 3\.1\.1"):
        session.publish("t", b"", 0, retain=False, properties=FULL)
    with pytest.raises(RefusedError, match="a subscription with options"):
        session.subscribe([("t", 0)], SubscribeOptions(no_local=True))
    session.publish("t", b"", 0, retain=False, properties=PublishProperties())
    assert session.data_to_send() == encode.publish(b"t", b"")


# ── Receiving


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_delivery_has_the_properties_and_subscriptions_it_came_with(cable, qos):
    sent = Properties(
        message_expiry=60,
        content_type=b"application/json",
        response_topic=b"answers/7",
        correlation_data=b"\x00\xff",
        user_properties=((b"unit", b"bar"), (b"unit", b"psi")),
        payload_format=1,
        subscription_ids=(1, 300),
    )
    packet = encode.publish(b"t", b"x", qos, packet_id=qos, block=block_of(sent))
    assert cable.says(packet) == [Delivery("t", b"x", qos, False, False, qos, FULL, (1, 300))]


def test_broker_s_alias_stands_for_its_topic_and_hides_no_subscription():
    cable = opened(topic_aliases=True)
    alias = Properties(topic_alias=1, subscription_ids=(4,))
    happened = cable.says(encode.publish(b"t", b"1", block=block_of(alias)))
    happened += cable.says(encode.publish(b"", b"2", block=block_of(alias)))
    assert [(each.topic, each.subscription_ids) for each in happened] == [("t", (4,))] * 2


def test_broker_s_alias_that_was_not_allowed_is_an_error_of_theirs(cable):
    with pytest.raises(BrokerProtocolError, match="topic alias 1"):
        cable.says(encode.publish(b"t", b"1", block=block_of(Properties(topic_alias=1))))


@pytest.mark.parametrize("qos", [1, 2])
def test_broker_that_exceeds_our_receive_maximum_is_told_and_left(qos):
    cable = opened(receive_maximum=2)
    packets = [encode.publish(b"t", b"x", qos, packet_id=n, block=b"") for n in (1, 2, 3)]
    [first] = cable.says(packets[0])
    cable.says(packets[1])
    cable.session.acknowledge([first])
    if qos == 2:
        cable.says(encode.acks(PacketType.PUBREL, [1]))
    cable.says(packets[2])
    cable.heard()
    with pytest.raises(BrokerProtocolError, match="more than the 2 messages"):
        cable.says(encode.publish(b"t", b"x", qos, packet_id=4, block=b""))
    assert [event.code for event in cable.heard()] == [ReasonCode.RECEIVE_MAXIMUM_EXCEEDED]


def test_subscription_carries_its_options_and_gets_its_codes_with_words(cable):
    options = SubscribeOptions(
        no_local=True,
        retain_as_published=True,
        retain_handling=2,
        subscription_id=9,
        replay="last=5",
    )
    packet_id = cable.session.subscribe([("a/+", 1), ("b", 2)], options)
    [event] = cable.heard()
    assert event.requests == [(b"a/+", 0b101101), (b"b", 0b101110)]
    assert event.properties == Properties(
        subscription_ids=(9,), user_properties=((b"replay", b"last=5"),)
    )
    answer = encode.suback(packet_id, [1, 0x87], reason("not yours"))
    assert cable.says(answer) == [SubscribeAnswered(packet_id, [1, 0x87], "not yours")]


@pytest.mark.parametrize("wrong", [{"retain_handling": 3}, {"subscription_id": 2**28}])
def test_subscription_option_out_of_bounds_is_refused_before_it_is_sent(cable, wrong):
    with pytest.raises(LocalProtocolError):
        cable.session.subscribe([("a", 1)], SubscribeOptions(**wrong))


def test_replay_is_asked_for_within_the_filter_in_3_1_1():
    session = MqttSession(4)
    session.subscribe([("pump/#", 1)], SubscribeOptions(replay="last=5"))
    assert session.data_to_send() == encode.subscribe(1, [(b"$replay/last=5/pump/#", 1)])


@pytest.mark.parametrize(("version", "codes"), [(4, []), (5, [0, 0x11])])
def test_unsubscribe_is_answered(version, codes):
    session = MqttSession(version)
    session.receive(encode.connack(False, 0, NONE if version == 5 else None))
    packet_id = session.unsubscribe(["a", "b"])
    properties = NONE if version == 5 else None
    assert session.data_to_send() == encode.unsubscribe(packet_id, [b"a", b"b"], properties)
    answer = encode.unsuback(packet_id, codes, properties)
    assert session.receive(answer) == [UnsubscribeAnswered(packet_id, codes)]
    assert session.unconfirmed == 0


# ── The end


@pytest.mark.parametrize("code", sorted(SERVER_DISCONNECT_CODES - {0x8E}))
def test_goodbye_of_the_broker_says_why(cable, code):
    with pytest.raises(ConnectionLostError, match="closed the connection: ") as caught:
        cable.says(encode.disconnect(code))
    assert (caught.value.reason_code, bool(caught.value.advice)) == (code, True)
    assert "0x" not in str(caught.value), "in words"


def test_taken_over_client_is_an_error_of_its_own(cable):
    with pytest.raises(TakenOverError, match="same client id; give each client an id of its own"):
        cable.says(encode.disconnect(0x8E))


def test_only_what_passes_invites_to_connect_again():
    assert 0x8B in PASSING
    assert not PASSING & {0x81, 0x82, 0x87, 0x8E, 0x98}


def test_goodbye_may_ask_for_the_will_and_another_life_time(cable):
    cable.session.disconnect(with_will=True, session_expiry_s=5)
    [event] = cable.heard()
    assert (event.code, event.properties) == (4, Properties(session_expiry=5))


def test_goodbye_of_3_1_1_has_no_options():
    with pytest.raises(RefusedError, match="needs MQTT 5"):
        MqttSession(4).disconnect(with_will=True)


# ── SCRAM

VERIFIER = new_verifier("secret", bytes(16), 4096)


def login(password="secret"):
    return ScramLogin(Credentials("ann", password), b"nonce-of-the-client")


def scram(data):
    return Properties(authentication_method=b"SCRAM-SHA-256", authentication_data=data)


def challenged(cable, event):
    """The broker's side up to the client's proof."""
    first = read_client_first(event.properties.authentication_data)
    server = ScramServer(first, VERIFIER, b"nonce-of-the-server")
    cable.says(encode.auth(0x18, scram(server.first)))
    return server


def logging_in(password="secret"):
    cable = Cable()
    cable.session.connect("id", clean_session=True, keep_alive=60, login=login(password))
    [connect] = cable.heard()
    server = challenged(cable, connect)
    proof = cable.session.data_to_send()
    return cable, server, proof


def test_login_by_scram_proves_both_ends():
    cable, server, proof = logging_in()
    final = server.finish(_data_of(proof))
    assert final is not None, "the client proved that it knows the password"
    assert len(cable.says(encode.connack(False, 0, scram(final)))) == 1


def test_wrong_password_proves_nothing():
    _, server, proof = logging_in("wrong")
    assert server.finish(_data_of(proof)) is None


def test_broker_that_does_not_know_the_password_is_not_believed():
    cable, _, _ = logging_in()
    forged = b"v=" + b"A" * 43 + b"="
    with pytest.raises(BrokerProtocolError, match="verifier"):
        cable.says(encode.connack(False, 0, scram(forged)))


def test_broker_that_skips_the_proof_is_not_believed():
    cable, _, _ = logging_in()
    with pytest.raises(BrokerProtocolError):
        cable.says(encode.connack(False, 0, NONE))


def test_login_that_nobody_began_is_an_error_of_theirs(cable):
    with pytest.raises(BrokerProtocolError, match="did not begin"):
        cable.says(encode.auth(0x18, scram(b"r=x")))


def test_credentials_are_proved_again_while_connected():
    cable, server, proof = logging_in()
    cable.says(encode.connack(False, 0, scram(server.finish(_data_of(proof)))))
    cable.session.authenticate(login())
    again = ScramServer(
        read_client_first(_data_of(cable.session.data_to_send())), VERIFIER, b"nonce-of-the-server"
    )
    cable.says(encode.auth(0x18, scram(again.first)))
    final = again.finish(_data_of(cable.session.data_to_send()))
    assert cable.says(encode.auth(0, scram(final))) == [Authenticated()]


def test_connection_without_scram_cannot_prove_credentials_again(cable):
    with pytest.raises(LocalProtocolError):
        cable.session.authenticate(login())


def _data_of(packet):
    """The authentication data of an AUTH packet."""
    return read_properties(PacketReader(packet, 3, 5), Carrier.AUTH).authentication_data
