"""CONNECT and CONNACK: what is accepted, refused with a code, or closed without an answer."""

import string as letters

import pytest

from tests.conformance.wire_client import (
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    connack,
    connect_packet,
    packet,
    publish,
    string,
    suback,
    subscribe,
    unsubscribe,
)

ALPHABET = letters.digits + letters.ascii_letters
HEAD = string("MQTT") + b"\x04"


@pytest.mark.proves("MQTT-3.1.4-4", "MQTT-3.2.0-1", "MQTT-7.0.0-2", "MQTT-7.1.1-1")
def test_a_good_connect_over_tcp_is_answered_by_connack_zero(dial, unique):
    client = dial()
    client.send(connect_packet(unique))
    client.expect(connack(session_present=False, code=0))


@pytest.mark.proves("MQTT-7.1.1-1")
def test_packets_are_found_in_the_stream_however_it_is_cut(own_broker, dial, unique):
    """With a broker of its own: behind commands of others a subscription waits, a ping does not."""
    client = dial(at=own_broker())
    for byte in connect_packet(unique) + subscribe(9, (f"{unique}/a", 1)) + PINGREQ:
        client.send(bytes([byte]))
    client.expect(connack(), suback(9, 1), PINGRESP)


@pytest.mark.proves("MQTT-3.1.4-4", "MQTT-3.2.0-1")
def test_packets_sent_right_behind_connect_are_served_after_connack(dial, unique):
    client = dial()
    client.send(connect_packet(unique), subscribe(3, (unique, 0)), publish(unique, b"self"))
    client.expect(connack(), suback(3, 0), publish(unique, b"self"))


@pytest.mark.proves("MQTT-3.1.0-1", "MQTT-4.8.0-1")
@pytest.mark.parametrize(
    "first",
    [
        publish("a", b"x"),
        publish("a", b"x", qos=1, packet_id=1),
        subscribe(1, ("a", 0)),
        unsubscribe(1, "a"),
        PINGREQ,
        DISCONNECT,
        connack(),
    ],
    ids=["publish", "publish-qos1", "subscribe", "unsubscribe", "pingreq", "disconnect", "connack"],
)
def test_any_first_packet_but_connect_closes_without_an_answer(dial, first):
    client = dial()
    client.send(first)
    client.expect_close()


@pytest.mark.proves("MQTT-3.1.0-1")
def test_connect_behind_a_forbidden_first_packet_is_not_served(dial, unique):
    client = dial()
    client.send(PINGREQ, connect_packet(unique))
    client.expect_close()


@pytest.mark.proves("MQTT-3.1.0-2", "MQTT-4.8.0-1")
def test_a_second_connect_closes(connect, unique):
    client = connect(unique)
    client.send(connect_packet(unique))
    client.expect_close()


@pytest.mark.proves("MQTT-3.1.0-2")
def test_a_second_connect_in_the_same_segment_closes_too(dial, unique):
    client = dial()
    client.send(connect_packet(unique), connect_packet(unique))
    client.expect(connack())
    client.expect_close()


@pytest.mark.proves("MQTT-3.1.2-1")
@pytest.mark.parametrize("name", [b"MQTX", b"mqtt", b"MQT", b"MQTTT", b""])
def test_a_foreign_protocol_name_closes_without_an_answer(dial, unique, name):
    client = dial()
    client.send(connect_packet(unique, name=name))
    client.expect_close()


@pytest.mark.proves("MQTT-3.1.2-2", "MQTT-3.2.2-4", "MQTT-3.2.2-5")
@pytest.mark.parametrize("level", [3, 0x84])
def test_an_unknown_level_is_told_code_1_and_closed(dial, unique, level):
    client = dial()
    client.send(connect_packet(unique, level=level))
    client.expect(connack(session_present=False, code=1))
    client.expect_close()


@pytest.mark.parametrize("level", [6, 127])
def test_a_level_that_is_newer_than_ours_is_refused_in_the_form_of_mqtt_5(dial, unique, level):
    client = dial()
    client.send(connect_packet(unique, level=level))
    client.expect(bytes.fromhex("20 03 00 84 00"))
    client.expect_close()


@pytest.mark.proves("MQTT-3.2.2-4", "MQTT-3.1.2-2")
def test_a_refusal_says_session_present_0_even_if_there_is_a_session(connect, dial, unique):
    connect(unique, clean=False).disconnect()
    client = dial()
    client.send(connect_packet(unique, clean=False, level=3))
    client.expect(connack(session_present=False, code=1))
    client.expect_close()


def malformed_connects():
    """Each CONNECT body that its own flags contradict, with the statement it breaks."""
    who, keep_alive = string("who"), b"\x00\x3c"
    will, name, secret = string("t") + string("p"), string("name"), string("secret")

    def case(statement, label, flags, *fields):
        body = packet(0x10, HEAD, bytes([flags]), keep_alive, *fields)
        return pytest.param(body, id=f"{statement}-{label}")

    return [
        case("MQTT-3.1.2-3", "reserved-flag", 0x03, who),
        case("MQTT-3.1.2-9", "will-flag-but-no-will", 0x06, who),
        case("MQTT-3.1.2-9", "will-flag-but-only-a-topic", 0x06, who, string("t")),
        case("MQTT-3.1.2-11", "no-will-flag-but-a-will", 0x02, who, will),
        case("MQTT-3.1.2-13", "no-will-flag-but-qos-1", 0x0A, who),
        case("MQTT-3.1.2-13", "no-will-flag-but-qos-2", 0x12, who),
        case("MQTT-3.1.2-14", "will-qos-3", 0x1E, who, will),
        case("MQTT-3.1.2-15", "no-will-flag-but-retain", 0x22, who),
        case("MQTT-3.1.2-18", "no-name-flag-but-a-name", 0x02, who, name),
        case("MQTT-3.1.2-19", "name-flag-but-no-name", 0x82, who),
        case("MQTT-3.1.2-20", "no-password-flag-but-one", 0x82, who, name, secret),
        case("MQTT-3.1.2-21", "password-flag-but-none", 0xC2, who, name),
        case("MQTT-3.1.2-22", "password-without-name", 0x42, who, secret),
        case("MQTT-3.1.3-3", "no-client-id", 0x02),
        case("MQTT-3.1.3-4", "client-id-not-utf8", 0x02, string(b"\xc3\x28")),
        case("MQTT-3.1.3-10", "will-topic-not-utf8", 0x06, who, string(b"\xff"), string("p")),
        case("MQTT-3.1.3-11", "name-not-utf8", 0x82, who, string(b"\xed\xa0\x80")),
        case("MQTT-3.1.4-1", "bytes-left-over", 0x02, who, b"\x00"),
        case("MQTT-1.5.3-2", "nul-in-client-id", 0x02, string("a\0b")),
        case("MQTT-3.3.2-2", "wildcard-in-will-topic", 0x06, who, string("a/#"), string("p")),
        case("MQTT-4.7.3-1", "empty-will-topic", 0x06, who, string(""), string("p")),
    ]


@pytest.mark.proves(
    "MQTT-3.1.4-1", "MQTT-3.2.2-6", "MQTT-3.1.2-3", "MQTT-3.1.2-9", "MQTT-3.1.2-11",
    "MQTT-3.1.2-13", "MQTT-3.1.2-14", "MQTT-3.1.2-15", "MQTT-3.1.2-18", "MQTT-3.1.2-19",
    "MQTT-3.1.2-20", "MQTT-3.1.2-21", "MQTT-3.1.2-22", "MQTT-3.1.3-3", "MQTT-3.1.3-4",
    "MQTT-3.1.3-10", "MQTT-3.1.3-11", "MQTT-1.5.3-1", "MQTT-1.5.3-2", "MQTT-3.3.2-2",
    "MQTT-4.7.1-1", "MQTT-4.7.3-1",
)  # fmt: skip
@pytest.mark.parametrize("body", malformed_connects())
def test_a_connect_that_contradicts_itself_closes_without_connack(dial, body):
    client = dial()
    client.send(body)
    client.expect_close()


@pytest.mark.proves("MQTT-3.1.4-1")
@pytest.mark.parametrize("kept", range(10))
def test_a_connect_cut_off_inside_its_variable_header_closes(dial, kept):
    client = dial()
    client.send(packet(0x10, (HEAD + b"\x02\x00\x3c")[:kept]))
    client.expect_close()


@pytest.mark.proves("MQTT-3.1.3-1", "MQTT-3.1.2-9", "MQTT-3.1.2-19", "MQTT-3.1.2-21")
def test_a_connect_with_every_field_in_its_order_is_accepted(dial, unique):
    client = dial()
    client.send(
        connect_packet(
            unique, will=(f"{unique}/w", b"p", 2, True), username="user", password=b"\xff\x00"
        )
    )
    client.expect(connack())


@pytest.mark.proves("MQTT-3.1.2-19")
def test_a_user_name_needs_no_password(connect, unique):
    connect(unique, username="user").ping()


@pytest.mark.proves("MQTT-3.1.3-5")
@pytest.mark.parametrize(
    "client_id", ["x", ALPHABET[:23], ALPHABET[23:46], ALPHABET[39:]], ids=["1", "a", "b", "c"]
)
def test_ids_of_1_to_23_letters_and_digits_are_accepted(connect, client_id):
    connect(client_id).disconnect()


@pytest.mark.proves("MQTT-3.1.3-6")
def test_clients_without_an_id_are_each_given_one_of_their_own(connect):
    first, second = connect(""), connect("")
    first.ping()  # had both been given the same id, the first would have been closed
    second.ping()


@pytest.mark.proves("MQTT-3.1.3-6")
def test_a_client_without_an_id_is_served_like_any_other(connect, unique):
    client = connect("")
    client.subscribe((unique, 1))
    client.send(publish(unique, b"self"))
    client.expect(publish(unique, b"self"))


@pytest.mark.proves("MQTT-3.1.3-7", "MQTT-3.1.3-8", "MQTT-3.2.2-4", "MQTT-3.2.2-5")
def test_no_id_with_clean_session_0_is_told_code_2_and_closed(dial):
    client = dial()
    client.send(connect_packet("", clean=False))
    client.expect(connack(session_present=False, code=2))
    client.expect_close()


@pytest.mark.proves("MQTT-3.1.3-9", "MQTT-3.2.2-5")
def test_an_id_above_256_bytes_is_told_code_2_and_closed(own_broker, dial, connect):
    broker = own_broker()
    connect("a" * 256, at=broker)
    client = dial(at=broker)
    client.send(connect_packet("a" * 257))
    client.expect(connack(code=2))
    client.expect_close()


@pytest.mark.proves("MQTT-3.1.4-2")
def test_a_newcomer_with_the_same_id_ends_the_older_connection(connect, unique):
    older = connect(unique)
    newer = connect(unique)
    older.expect_close()
    newer.ping()


@pytest.mark.proves("MQTT-3.1.3-2")
def test_ids_that_differ_in_case_are_different_clients(connect, unique):
    lower, upper = connect(unique.lower()), connect(unique.upper())
    lower.ping()
    upper.ping()


@pytest.mark.proves("MQTT-3.1.4-5")
def test_what_follows_a_refused_connect_is_not_processed(connect, dial, unique):
    subscriber = connect(f"{unique}-s")
    subscriber.subscribe((unique, 0))
    refused = dial()
    refused.send(connect_packet(unique, level=3), publish(unique, b"forbidden"))
    refused.expect(connack(code=1))
    refused.expect_close()
    subscriber.expect_nothing_from(connect(f"{unique}-p"))


@pytest.mark.proves("MQTT-3.1.4-1", "MQTT-4.8.0-1")
def test_what_follows_a_malformed_connect_is_not_processed(connect, dial, unique):
    subscriber = connect(f"{unique}-s")
    subscriber.subscribe((unique, 0))
    refused = dial()
    refused.send(connect_packet(unique, flags=0x03), publish(unique, b"forbidden"))
    refused.expect_close()
    subscriber.expect_nothing_from(connect(f"{unique}-p"))


@pytest.mark.proves("MQTT-3.1.4-2", "MQTT-3.1.4-4")
@pytest.mark.parametrize("clean", [True, False])
def test_clients_that_fight_for_an_id_each_get_their_connack_first(own_broker, dial, clean):
    """They arrive one after the other without waiting for answers."""
    broker = own_broker()
    rivals = [dial(at=broker) for _ in range(12)]
    for rival in rivals:
        rival.send(connect_packet("twin", clean=clean))
    for rival in rivals:
        rival.expect(connack(session_present=not clean and rival is not rivals[0]))
        if rival is not rivals[-1]:
            rival.expect_close()
    rivals[-1].expect_nothing()
