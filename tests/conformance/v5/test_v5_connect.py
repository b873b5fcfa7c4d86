"""CONNECT and CONNACK in version 5: what is accepted, refused with a code, and announced."""

import string as letters

import pytest

from tests.conformance import packets5 as v5
from tests.conformance.packets5 import Will
from tests.conformance.wire_client import connack as connack_3_1_1

ALPHABET = letters.digits + letters.ascii_letters
HEAD = v5.string("MQTT") + b"\x05"


# ── Accepted ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-3.1.4-5", "MQTT-3.2.0-1", "MQTT-3.2.0-2", "MQTT-4.2-1", "MQTT-3.2.2-1")
def test_a_good_connect_is_answered_by_connack_zero_and_no_second_one(dial, unique):
    client = dial()
    client.send(v5.connect(unique))
    client.expect_connack()
    client.expect_nothing()


@pytest.mark.proves5("MQTT-4.2-1", "MQTT-3.2.0-1")
def test_packets_are_found_in_the_stream_however_it_is_cut(dial, unique):
    client = dial()
    whole = v5.connect(unique, user=("a", "b"), session_expiry=0) + v5.subscribe(9, (unique, 1))
    for byte in whole:
        client.send(bytes([byte]))
    client.expect_connack()
    client.expect_suback(9, 1)


@pytest.mark.proves5("MQTT-3.2.0-1", "MQTT-3.1.4-5")
def test_packets_sent_right_behind_connect_are_served_after_connack(dial, unique):
    client = dial()
    client.send(v5.connect(unique), v5.subscribe(3, (unique, 0)), v5.publish(unique, b"self"))
    client.expect_connack()
    client.expect_suback(3, 0)
    client.expect_publish(unique, b"self")


@pytest.mark.proves5("MQTT-3.1.3-1", "MQTT-3.1.2-9", "MQTT-3.1.2-17", "MQTT-3.1.2-19")
def test_a_connect_with_every_field_and_property_is_accepted(dial, unique):
    properties = v5.block(
        will_delay=5, payload_format=1, message_expiry=60, content_type="text/plain",
        response_topic="answer/here", correlation_data=b"\0\xff", user=[("a", "1"), ("a", "2")],
    )  # fmt: skip
    client = dial()
    client.send(
        v5.connect(
            unique,
            will=Will(f"{unique}/w", b"p", 2, retain=True, properties=properties),
            username="user",
            password=b"\xff\x00",
            session_expiry=30,
            receive_maximum=10,
            maximum_packet_size=100_000,
            topic_alias_maximum=4,
            request_response_information=1,
            request_problem_information=1,
            user=[("k", "v"), ("k", "v")],
        )
    )
    client.expect_connack()


@pytest.mark.proves5("MQTT-3.1.2-19", "MQTT-3.1.2-16")
def test_a_password_needs_no_user_name(connect, unique):
    connect(unique, password=b"secret").ping()


@pytest.mark.proves5("MQTT-3.1.2-17", "MQTT-3.1.2-18")
def test_a_user_name_needs_no_password(connect, unique):
    connect(unique, username="user").ping()


@pytest.mark.proves5("MQTT-3.1.3-5")
@pytest.mark.parametrize(
    "client_id", ["y", ALPHABET[:23], ALPHABET[23:46], ALPHABET[39:]], ids=["1", "a", "b", "c"]
)
def test_ids_of_1_to_23_letters_and_digits_are_accepted(connect, client_id):
    client = connect(client_id)
    assert client.connack.value("assigned_client_id") is None
    client.disconnect()


@pytest.mark.proves5("MQTT-3.1.3-2")
def test_ids_that_differ_in_case_are_different_clients(connect, unique):
    lower, upper = connect(unique.lower()), connect(unique.upper())
    lower.ping()
    upper.ping()


@pytest.mark.proves5("MQTT-3.1.3-6", "MQTT-3.1.3-7", "MQTT-3.2.2-16")
def test_clients_without_an_id_are_each_told_one_of_their_own(connect):
    first, second = connect(""), connect("")
    assigned = {str(client.connack.value("assigned_client_id")) for client in (first, second)}
    assert len(assigned) == 2
    assert all(assigned)
    first.ping()  # had both been given the same id, the first would have been closed
    second.ping()


@pytest.mark.proves5("MQTT-3.1.3-7", "MQTT-3.1.2-5")
@pytest.mark.parametrize("clean", [True, False])
def test_an_assigned_id_names_a_session_like_any_other(connect, unique, clean):
    client = connect("", clean=clean, session_expiry=600)
    client.subscribe((unique, 1))
    assigned = str(client.connack.value("assigned_client_id"))
    client.disconnect()
    connect(f"{unique}-p").publish_acknowledged(unique, b"kept")
    back = connect(assigned, clean=False, session_expiry=600, session_present=True)
    assert back.connack.value("assigned_client_id") is None
    back.expect_publish(unique, b"kept", qos=1)


# ── What CONNACK announces ────────────────────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-3.2.2-8", "MQTT-3.2.2-9")
def test_connack_announces_what_the_broker_can_do(own_broker, connect):
    answer = connect(at=own_broker(limits={"packet_bytes_max": 65_536})).connack
    answer.properties.pop("assigned_client_id")
    assert answer.properties == {
        "receive_maximum": [1_024],
        "topic_alias_maximum": [32],
        "retain_available": [1],
        "maximum_packet_size": [65_536],
        "wildcard_available": [1],
        "subscription_ids_available": [1],
        "shared_available": [1],
    }  # no Maximum QoS: 2 is no lawful value of it


@pytest.mark.proves5("MQTT-3.1.2-28")
@pytest.mark.parametrize("asked", [None, 0])
def test_response_information_is_not_sent_unasked(own_broker, connect, asked):
    broker = own_broker(mqtt={"response_information": "answers/"})
    asking = {} if asked is None else {"request_response_information": asked}
    assert connect(at=broker, **asking).connack.value("response_information") is None


@pytest.mark.proves5("MQTT-3.1.2-28")
def test_response_information_is_sent_if_asked_for_and_configured(own_broker, connect):
    broker = own_broker(mqtt={"response_information": "answers/"})
    answer = connect(at=broker, request_response_information=1).connack
    assert answer.value("response_information") == "answers/"


def test_response_information_that_is_not_configured_is_not_sent(connect):
    answer = connect(request_response_information=1).connack
    assert answer.value("response_information") is None


@pytest.mark.proves5("MQTT-3.2.2-19", "MQTT-3.2.2-20", "MQTT-3.1.2-24")
def test_a_connack_that_would_be_too_large_leaves_out_what_it_can(dial, unique):
    """What is not announced has its default; 20 bytes are too few to repeat those."""
    client = dial()
    client.send(v5.connect(unique, maximum_packet_size=20))
    raw = client.receive()
    assert len(raw) <= 20
    assert v5.parse(raw).code == 0
    client.ping()


@pytest.mark.proves5("MQTT-3.2.2-19", "MQTT-3.2.2-20", "MQTT-3.1.2-24")
def test_a_refusal_that_would_be_too_large_leaves_out_its_reason(dial, unique):
    will = Will("no/wild/+/cards", b"m")
    refused = dial()
    refused.send(v5.connect(unique, will=will, maximum_packet_size=5))
    raw = refused.receive()
    assert len(raw) <= 5
    refused.expect_close()


# ── Refused ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-3.1.0-1", "MQTT-4.13.1-1")
@pytest.mark.parametrize(
    "first",
    [
        v5.publish("a", b"x"),
        v5.subscribe(1, ("a", 0)),
        v5.PINGREQ,
        v5.DISCONNECT,
        v5.auth(0x18, auth_method="SCRAM-SHA-256"),
        v5.packet(0x20, b"\0\0\0"),
    ],
    ids=["publish", "subscribe", "pingreq", "disconnect", "auth", "connack"],
)
def test_any_first_packet_but_connect_closes_without_an_answer(dial, first):
    client = dial()
    client.send(first)
    client.expect_close()


@pytest.mark.proves5("MQTT-3.1.0-2", "MQTT-4.13.1-1")
def test_a_second_connect_is_a_protocol_error(connect, unique):
    client = connect(unique)
    client.send(v5.connect(unique))
    client.expect_disconnect(0x82)


@pytest.mark.proves5("MQTT-3.1.0-2", "MQTT-3.2.0-2")
def test_a_second_connect_in_the_same_segment_closes_too(dial, unique):
    client = dial()
    client.send(v5.connect(unique), v5.connect(unique))
    client.expect_connack()
    client.expect_disconnect(0x82)


@pytest.mark.proves5("MQTT-3.1.2-1")
@pytest.mark.parametrize("name", [b"MQTX", b"mqtt", b"MQT", b"MQTTT", b""])
def test_a_foreign_protocol_name_closes(dial, unique, name):
    client = dial()
    client.send(v5.connect(unique, name=name))
    client.expect_close()


@pytest.mark.proves5("MQTT-3.1.2-2", "MQTT-3.2.2-6", "MQTT-3.2.2-7", "MQTT-3.2.2-8")
@pytest.mark.parametrize("level", [6, 127])
def test_a_level_above_5_is_told_0x84_and_closed(own_broker, dial, connect, unique, level):
    broker = own_broker()
    connect(unique, at=broker, session_expiry=600).disconnect()
    client = dial(at=broker)
    client.send(v5.connect(unique, level=level, clean=False))
    client.expect_refusal(0x84)  # session present 0, though there is a session


@pytest.mark.proves5("MQTT-3.1.2-2")
def test_a_level_below_4_is_told_in_the_old_form(own_broker, dial, unique):
    client = dial(at=own_broker())
    client.send(v5.connect(unique, level=3))
    client.expect(connack_3_1_1(code=1))
    client.expect_close()


def malformed_connects():
    """Each CONNECT body that its own flags contradict, with the code that tells so."""
    who, keep_alive, none = v5.string("who"), b"\x00\x3c", b"\0"
    will, name = none + v5.string("t") + v5.string("p"), v5.string("name")

    def case(label, flags, *fields, code=0x81, properties=none):
        body = v5.packet(0x10, HEAD, bytes([flags]), keep_alive, properties, *fields)
        return pytest.param(body, code, id=label)

    return [
        case("3.1.2-3-reserved-flag", 0x03, who),
        case("3.1.2-9-will-flag-but-no-will", 0x06, who),
        case("3.1.2-9-will-flag-but-no-properties", 0x06, who, v5.string("t") + v5.string("p")),
        case("3.1.2-9-will-flag-but-only-properties", 0x06, who, none),
        case("3.1.2-9-will-flag-but-no-payload", 0x06, who, none + v5.string("t")),
        case("3.1.2-9-no-will-flag-but-a-will", 0x02, who, will),
        case("3.1.2-11-no-will-flag-but-qos-1", 0x0A, who),
        case("3.1.2-11-no-will-flag-but-qos-2", 0x12, who),
        case("3.1.2-12-will-qos-3", 0x1E, who, will),
        case("3.1.2-13-no-will-flag-but-retain", 0x22, who),
        case("3.1.2-16-no-name-flag-but-a-name", 0x02, who, name),
        case("3.1.2-17-name-flag-but-no-name", 0x82, who),
        case("3.1.2-18-no-password-flag-but-one", 0x82, who, name, v5.string("secret")),
        case("3.1.2-19-password-flag-but-none", 0xC2, who, name),
        case("3.1.3-1-name-before-the-will", 0x86, who, name, will, code=0x81),
        case("3.1.3-3-no-client-id", 0x02),
        case("3.1.3-4-client-id-not-utf8", 0x02, v5.string(b"\xc3\x28")),
        case("3.1.3-11-will-topic-not-utf8", 0x06, who, none, v5.string(b"\xff"), v5.string("p")),
        case("3.1.3-12-name-not-utf8", 0x82, who, v5.string(b"\xed\xa0\x80")),
        case("1.5.4-2-nul-in-client-id", 0x02, v5.string("a\0b")),
        case("3.1.4-1-bytes-left-over", 0x02, who, b"\x00"),
        case("2.2.2-1-no-property-length", 0x02, properties=b""),
        case("1.5.5-1-property-length-not-minimal", 0x02, who, properties=b"\x80\x00"),
        case("1.5.5-1-property-length-of-five-bytes", 0x02, who, properties=b"\x80\x80\x80\x80\1"),
        case("property-length-beyond-the-end", 0x02, who, properties=b"\x7f"),
    ]


@pytest.mark.proves5(
    "MQTT-3.1.4-1", "MQTT-3.1.2-3", "MQTT-3.1.2-9", "MQTT-3.1.2-11", "MQTT-3.1.2-12",
    "MQTT-3.1.2-13", "MQTT-3.1.2-16", "MQTT-3.1.2-17", "MQTT-3.1.2-18", "MQTT-3.1.2-19",
    "MQTT-3.1.3-1", "MQTT-3.1.3-3", "MQTT-3.1.3-4", "MQTT-3.1.3-11", "MQTT-3.1.3-12",
    "MQTT-1.5.4-1", "MQTT-1.5.4-2", "MQTT-1.5.5-1", "MQTT-2.2.2-1", "MQTT-3.2.2-7",
)  # fmt: skip
@pytest.mark.parametrize(("body", "code"), malformed_connects())
def test_a_connect_that_contradicts_itself_is_refused(dial, body, code):
    client = dial()
    client.send(body)
    client.expect_refusal(code)


@pytest.mark.proves5("MQTT-3.1.4-1")
def test_a_full_connect_cut_short_anywhere_is_malformed(dial):
    will = Will("t", b"m", 1, properties=v5.block(will_delay=1))
    whole = v5.connect("who", will=will, username="u", password=b"p", session_expiry=0)
    body = whole[2:]
    for kept in range(10, len(body)):  # from where the level is known
        client = dial()
        client.send(v5.packet(0x10, body[:kept]))
        client.expect_refusal(0x81)


@pytest.mark.proves5("MQTT-3.3.2-2", "MQTT-4.7.0-1", "MQTT-4.7.3-1", "MQTT-3.1.4-2")
@pytest.mark.parametrize("topic", ["a/#", "+/b", "a+", ""])
def test_a_will_topic_that_is_no_topic_name_is_told_0x90(dial, unique, topic):
    client = dial()
    client.send(v5.connect(unique, will=Will(topic, b"m")))
    client.expect_refusal(0x90)


@pytest.mark.proves5("MQTT-3.1.3-8", "MQTT-3.2.2-7")
def test_an_id_above_256_bytes_is_told_0x85_and_closed(own_broker, dial, connect):
    broker = own_broker()
    connect("a" * 256, at=broker)
    client = dial(at=broker)
    client.send(v5.connect("a" * 257))
    refusal = client.expect_refusal(0x85)
    assert "256" in str(refusal.value("reason_string"))  # it tells the limit


@pytest.mark.proves5("MQTT-3.1.4-2", "MQTT-3.2.2-7")
def test_a_wrong_password_is_told_0x86_and_closed(own_broker, dial, connect, unique):
    broker = own_broker(users={"ann": "her secret"})
    connect(unique, at=broker, username="ann", password=b"her secret")
    client = dial(at=broker)
    client.send(v5.connect(unique, username="ann", password=b"not hers"))
    client.expect_refusal(0x86)


@pytest.mark.proves5("MQTT-3.1.4-6")
@pytest.mark.parametrize("flags", [0x03, 0x22])
def test_what_follows_a_refused_connect_is_not_processed(connect, dial, unique, flags):
    subscriber = connect(f"{unique}-s")
    subscriber.subscribe((unique, 0))
    refused = dial()
    refused.send(v5.connect(unique, flags=flags), v5.publish(unique, b"forbidden"))
    refused.expect_refusal(0x81)
    subscriber.expect_nothing_from(connect(f"{unique}-p"))


# ── Maximum QoS and retain available ──────────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-3.2.2-9", "MQTT-3.2.2-10", "MQTT-3.2.2-11")
@pytest.mark.parametrize("maximum", [0, 1])
def test_a_configured_maximum_qos_is_announced_and_enforced(own_broker, connect, unique, maximum):
    broker = own_broker(mqtt={"maximum_qos": maximum})
    client = connect(at=broker)
    assert client.connack.value("maximum_qos") == maximum
    client.send(v5.subscribe(1, (f"{unique}/0", 0), (f"{unique}/1", 1), (f"{unique}/2", 2)))
    client.expect_suback(1, 0, min(1, maximum), min(2, maximum))
    client.send(v5.publish(unique, b"m", qos=maximum + 1, packet_id=1))
    client.expect_disconnect(0x9B)


@pytest.mark.proves5("MQTT-3.2.2-12", "MQTT-3.2.2-7")
def test_a_will_above_the_maximum_qos_is_refused(own_broker, dial, unique):
    client = dial(at=own_broker(mqtt={"maximum_qos": 1}))
    client.send(v5.connect(unique, will=Will(unique, b"m", 2)))
    client.expect_refusal(0x9B)


@pytest.mark.proves5("MQTT-3.2.2-13", "MQTT-3.2.2-14", "MQTT-3.2.2-7")
def test_where_nothing_is_retained_retained_wills_and_messages_are_refused(
    own_broker, dial, connect, unique
):
    broker = own_broker(mqtt={"retain_available": False})
    client = dial(at=broker)
    client.send(v5.connect(unique, will=Will(unique, b"m", 0, retain=True)))
    client.expect_refusal(0x9A)
    publisher = connect(at=broker)
    assert publisher.connack.value("retain_available") == 0
    publisher.send(v5.publish(unique, b"m", retain=True))
    publisher.expect_disconnect(0x9A)


# ── Take-over ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-3.1.4-3")
def test_a_newcomer_with_the_same_id_ends_the_older_connection_with_0x8e(connect, unique):
    older = connect(unique)
    newer = connect(unique)
    older.expect_disconnect(0x8E)
    newer.ping()


@pytest.mark.proves5("MQTT-3.1.4-3", "MQTT-3.1.4-5")
@pytest.mark.parametrize("clean", [True, False])
def test_clients_that_fight_for_an_id_each_get_their_connack_first(own_broker, dial, clean):
    broker = own_broker()
    rivals = [dial(at=broker) for _ in range(8)]
    for rival in rivals:
        rival.send(v5.connect("twin", clean=clean, session_expiry=600))
    for rival in rivals:
        rival.expect_connack(session_present=not clean and rival is not rivals[0])
        if rival is not rivals[-1]:
            rival.expect_disconnect(0x8E)
    rivals[-1].expect_nothing()
