"""The rules of RFC 6455 for frames and handshakes, one by one."""

import base64

import pytest

from penstock.wire.websocket import (
    CloseCode,
    Closed,
    Fault,
    HandshakeFault,
    Ping,
    WebSocketClientMachine,
    WebSocketServerMachine,
    accept_key,
    binary_frame,
    check_handshake_response,
    close_frame,
    handshake_request,
    masked_frame,
)
from penstock.wire.websocket.handshake import (
    Unacceptable,
    asks_for_upgrade,
    handshake_response,
    judge_request,
)
from penstock.wire.websocket.machine import EMPTY_FRAMES_MAX

MASK = b"\x37\xfa\x21\x3d"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="  # of RFC 6455, section 1.3
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def received(*frames):
    return WebSocketServerMachine().receive(b"".join(frames))


def test_the_masked_frame_of_the_standard_is_unmasked():
    frame = bytes.fromhex("82 85 37 fa 21 3d 7f 9f 4d 51 58")

    assert received(frame) == (b"Hello", [])
    assert masked_frame(2, b"Hello", MASK) == frame


@pytest.mark.parametrize(
    ("length", "head"),
    [(5, "82 05"), (125, "82 7d"), (126, "82 7e 00 7e"), (65_536, "82 7f 00 00 00 00 00 01 00 00")],
)
def test_a_length_is_written_as_short_as_can_be(length, head):
    assert binary_frame(bytes(length)) == bytes.fromhex(head) + bytes(length)


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("82 05 48 65 6c 6c 6f", 1002),  # no mask
        ("c2 80 00 00 00 00", 1002),  # a reserved bit
        ("a2", 1002),
        ("92", 1002),
        ("83 80 00 00 00 00", 1002),  # unknown opcodes
        ("8b 80 00 00 00 00", 1002),
        ("80 80 00 00 00 00", 1002),  # a continuation of nothing
        ("02 80 00 00 00 00 82", 1002),  # a new message inside a fragmented one
        ("02 80 00 00 00 00 01", 1002),
        ("09 80 00 00 00 00", 1002),  # a fragmented ping
        ("89 fe 00 7e", 1002),  # a ping of 126 bytes
        ("88 fe", 1002),
        ("82 fe 00 7d 00 00 00 00", 1002),  # 125 in two bytes
        ("82 ff 00 00 00 00 00 00 ff ff", 1002),  # 65,535 in eight bytes
        ("82 ff 80 00 00 00 00 00 00 00", 1002),  # 2^63
        ("81 80 00 00 00 00", 1003),  # text
        ("01", 1003),
        ("88 81 00 00 00 00 03", 1002),  # half a close code
        ("88 82 00 00 00 00 03 ed", 1002),  # 1005, which is never sent
        ("88 82 00 00 00 00 00 00", 1002),
        ("88 83 00 00 00 00 03 e8 ff", 1007),  # a reason that is not UTF-8
    ],
)
def test_what_breaks_a_rule_ends_the_machine_with_its_code(frame, code):
    machine = WebSocketServerMachine()

    payload, (fault,) = machine.receive(masked_frame(2, b"before", MASK) + bytes.fromhex(frame))

    assert payload == b"before"
    assert type(fault) is Fault
    assert fault.code == code
    assert machine.closed
    assert machine.receive(masked_frame(2, b"after", MASK)) == (b"", [])


def test_a_client_takes_no_masked_frame():
    _, (fault,) = WebSocketClientMachine().receive(masked_frame(2, b"x", MASK))

    assert fault.code == CloseCode.PROTOCOL_ERROR


def test_empty_frames_are_lawful_until_there_are_too_many_in_a_row():
    empty, full = masked_frame(2, b"", MASK), masked_frame(2, b"x", MASK)
    machine = WebSocketServerMachine()

    assert machine.receive(empty * EMPTY_FRAMES_MAX + full) == (b"x", [])
    assert machine.receive(empty * EMPTY_FRAMES_MAX) == (b"", [])
    assert machine.receive(empty)[1][0].code == CloseCode.POLICY_VIOLATION


def test_payload_is_passed_on_before_its_frame_is_complete():
    frame = masked_frame(2, bytes(range(200)), MASK)
    machine = WebSocketServerMachine()

    assert machine.receive(frame[:-1]) == (bytes(range(199)), [])
    assert machine.receive(frame[-1:]) == (bytes([199]), [])


def test_a_frame_of_half_the_worlds_bytes_takes_no_room():
    machine = WebSocketServerMachine()

    payload, events = machine.receive(
        bytes.fromhex("82 ff 7f ff ff ff ff ff ff ff") + bytes(4) + b"x"
    )

    assert (payload, events) == (b"x", [])
    assert machine._tail == b""


def test_a_close_is_reported_behind_the_payload_and_a_ping():
    data = (masked_frame(2, b"x", MASK), masked_frame(9, b"p", MASK))

    bye = masked_frame(8, close_frame(4000, "bye")[2:], MASK)
    assert received(*data, bye) == (b"x", [Ping(b"p"), Closed(4000, "bye")])
    assert received(masked_frame(8, b"", MASK)) == (b"", [Closed(CloseCode.NO_STATUS, "")])


def test_a_long_reason_is_cut_between_two_characters():
    frame = close_frame(1008, "é" * 100)

    assert frame[1] == 124  # 2 bytes of code, 61 characters
    assert frame[4:].decode() == "é" * 61


# ── the handshake ─────────────────────────────────────────────────────────────────────────────


def asked(**changed):
    headers = {
        "upgrade": "websocket",
        "connection": "Upgrade",
        "sec-websocket-key": KEY,
        "sec-websocket-version": "13",
        "sec-websocket-protocol": "mqtt",
    }
    headers.update({name.replace("_", "-"): value for name, value in changed.items()})
    return [(name, value) for name, value in headers.items() if value is not None]


def test_the_key_of_the_standard_is_accepted_as_it_says():
    assert accept_key(KEY) == ACCEPT
    assert judge_request("GET", "1.1", asked()) == KEY


@pytest.mark.parametrize(
    ("upgrade", "connection", "is_asked"),
    [
        ("WebSocket", "keep-alive, UPGRADE", True),
        ("h2c, websocket", "Upgrade", True),
        ("websocket", "keep-alive", False),
        ("h2c", "Upgrade", False),
        (None, "Upgrade", False),
    ],
)
def test_an_upgrade_is_asked_for_in_lists_of_tokens(upgrade, connection, is_asked):
    assert asks_for_upgrade(asked(upgrade=upgrade, connection=connection)) is is_asked


def test_a_list_may_be_spread_over_several_headers():
    offered = [
        *asked(sec_websocket_protocol=None),
        *[("sec-websocket-protocol", p) for p in ("chat", "mqttv3.1, mqtt")],
    ]

    assert judge_request("GET", "1.1", offered) == KEY


@pytest.mark.parametrize(
    ("method", "version", "changed", "status"),
    [
        ("POST", "1.1", {}, 405),
        ("GET", "1.0", {}, 400),
        ("GET", "1.1", {"sec_websocket_version": "8"}, 426),
        ("GET", "1.1", {"sec_websocket_version": None}, 426),
        ("GET", "1.1", {"sec_websocket_key": None}, 400),
        ("GET", "1.1", {"sec_websocket_key": "short"}, 400),
        ("GET", "1.1", {"sec_websocket_key": base64.b64encode(bytes(15)).decode()}, 400),
        ("GET", "1.1", {"sec_websocket_protocol": None}, 400),
        ("GET", "1.1", {"sec_websocket_protocol": "mqttv3.1, MQTT"}, 400),
    ],
)
def test_a_request_that_breaks_a_rule_is_refused_with_a_status(method, version, changed, status):
    verdict = judge_request(method, version, asked(**changed))

    assert isinstance(verdict, Unacceptable)
    assert verdict.status == status


def test_a_client_takes_the_answer_of_a_server():
    request, key = handshake_request("broker:1883", "/mqtt", b"the sample nonce", {"Origin": "x"})

    assert key == KEY
    assert request.startswith(b"GET /mqtt HTTP/1.1\r\nHost: broker:1883\r\n")
    assert request.endswith(b"Origin: x\r\n\r\n")
    answer = handshake_response(key)
    assert check_handshake_response(answer + b"\x82", key) == b"\x82"
    assert check_handshake_response(answer[:-1], key) is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"101 Switching Protocols", b"403 Forbidden", "403 Forbidden"),
        (b"Upgrade: websocket", b"Upgrade: h2c", "something else"),
        (ACCEPT.encode(), b"AAAA", "Accept"),
        (b"Sec-WebSocket-Protocol: mqtt", b"X: y", "sub-protocol"),
        (b"\r\n\r\n", b"\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n", "extension"),
    ],
)
def test_a_client_refuses_an_answer_that_is_not_its_own(old, new, said):
    with pytest.raises(HandshakeFault, match=said):
        check_handshake_response(handshake_response(KEY).replace(old, new), KEY)


def test_a_client_does_not_read_on_for_ever():
    with pytest.raises(HandshakeFault, match="no end"):
        check_handshake_response(b"HTTP/1.1 101 x\r\n" + b"a: b\r\n" * 4000, KEY)


def test_no_line_can_be_smuggled_into_a_request():
    with pytest.raises(ValueError, match="line break"):
        handshake_request("host\r\nX: y", "/mqtt", bytes(16))
