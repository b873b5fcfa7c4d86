"""The client's WebSocket: against servers that ping, close, or break the protocol."""

import contextlib
import socket
import threading

import pytest

from penstock.client import ArgumentError, BrokerProtocolError, ConnectionLostError, connect
from penstock.client.errors import UnreachableError
from penstock.client.mqtt.url import BrokerUrl, read_url
from penstock.wire.mqtt import encode
from penstock.wire.mqtt.properties import NONE
from penstock.wire.websocket import WebSocketServerMachine, binary_frame, close_frame, ping_frame
from penstock.wire.websocket.frames import Opcode, masked_frame
from penstock.wire.websocket.handshake import handshake_response

WELCOME = encode.connack(False, 0, NONE)
PATIENCE_S = 20


class Server:
    """Shakes hands with one client, welcomes it, says something, and keeps what it hears."""

    def __init__(self, *sayings, early=b""):
        self._sayings = sayings
        self._early = early
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)
        self.url = f"ws://127.0.0.1:{self._listening.getsockname()[1]}/path?x=1"
        self.head = b""
        self.first = b""
        self.heard = b""

    def _serve(self):
        connection, _ = self._listening.accept()
        connection.settimeout(PATIENCE_S)
        with connection, contextlib.suppress(ConnectionError):
            while b"\r\n\r\n" not in self.head:
                self.head += connection.recv(4096)
            key = self.head.partition(b"Sec-WebSocket-Key: ")[2].partition(b"\r\n")[0]
            connection.sendall(handshake_response(key.decode()) + self._early)
            self.first = connection.recv(4096)
            connection.sendall(binary_frame(WELCOME))
            for saying in self._sayings:
                connection.sendall(saying)
            while data := connection.recv(4096):
                self.heard += data

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._thread.join()
        self._listening.close()


def test_path_and_query_are_asked_for_as_they_are():
    with Server() as server:
        connect(server.url).abandon()
    assert server.head.startswith(b"GET /path?x=1 HTTP/1.1\r\n")
    assert b"\r\nSec-WebSocket-Protocol: mqtt\r\n" in server.head


def test_ping_is_answered_and_is_no_message():
    delivery = binary_frame(encode.publish(b"t", b"x", block=b""))
    with Server(ping_frame(b"there?"), delivery) as server:
        client = connect(server.url)
        assert next(client.messages(timeout_s=PATIENCE_S)).payload == b"x"
        client.abandon()
    assert server.heard[:2] == masked_frame(Opcode.PONG, b"there?", b"1234")[:2]


def test_packet_may_be_spread_over_frames_and_frames_over_packets():
    packets = b"".join(encode.publish(b"t", b"%d" % number, block=b"") for number in range(3))
    frames = [binary_frame(packets[at : at + 5]) for at in range(0, len(packets), 5)]
    with Server(*frames) as server:
        client = connect(server.url)
        arrived = client.messages(timeout_s=PATIENCE_S)
        assert [next(arrived).payload for _ in range(3)] == [b"0", b"1", b"2"]
        client.abandon()


def test_what_comes_with_the_handshake_is_not_lost():
    with Server(early=ping_frame(b"early")) as server:
        connect(server.url).abandon()
    assert server.first[0] == 0x80 | Opcode.PONG


def test_close_of_the_server_is_answered_and_ends_the_connection():
    with Server(close_frame(1001)) as server:
        client = connect(server.url)
        with pytest.raises(ConnectionLostError):
            client.receive(timeout_s=PATIENCE_S)
        client.abandon()
    assert server.heard[0] == 0x80 | Opcode.CLOSE


def test_goodbye_is_a_disconnect_and_then_a_close():
    with Server(close_frame(1000)) as server:
        connect(server.url).close()
    payload, events = WebSocketServerMachine().receive(server.heard)
    assert (payload, [event.code for event in events]) == (encode.DISCONNECT, [1000])


def test_server_that_breaks_the_protocol_is_told_and_left():
    with Server(masked_frame(Opcode.BINARY, b"x", b"1234")) as server:
        client = connect(server.url)
        with pytest.raises(BrokerProtocolError, match="not WebSocket"):
            client.receive(timeout_s=PATIENCE_S)
        client.abandon()
    _, [closed] = WebSocketServerMachine().receive(server.heard)
    assert closed.code == 1002


def test_server_that_closes_instead_of_shaking_hands():
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def refuse():
            listening.accept()[0].close()

        thread = threading.Thread(target=refuse)
        thread.start()
        with pytest.raises(UnreachableError, match="no WebSocket with"):
            connect(f"ws://127.0.0.1:{listening.getsockname()[1]}")
        thread.join()


# ── Addresses


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("mqtt://h", BrokerUrl("mqtt", "h", 1883, None)),
        ("mqtt://h/", BrokerUrl("mqtt", "h", 1883, None)),
        ("mqtts://[::1]:1", BrokerUrl("mqtts", "::1", 1, None)),
        ("ws://h", BrokerUrl("ws", "h", 80, "/mqtt")),
        ("ws://h:1883/", BrokerUrl("ws", "h", 1883, "/")),
        ("wss://h/a/b?c=d", BrokerUrl("wss", "h", 443, "/a/b?c=d")),
    ],
)
def test_addresses_of_brokers(url, expected):
    assert read_url(url) == expected
    assert expected.is_tls is url.startswith(("mqtts", "wss"))


@pytest.mark.parametrize(
    "url",
    [
        *("http://h", "mqtt://", "mqtt://h:x", "mqtt://h/topic", "mqtt://h?x=1", "ws://h#x"),
        *("ws://user@h", "wss://user:secret@h", "mqtt://[::1"),
    ],
)
def test_what_is_no_address_of_a_broker(url):
    with pytest.raises(ArgumentError) as caught:
        read_url(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "keywords", "words"),
    [
        ("ws://h", {"tls": True}, "write wss://"),
        ("mqtt://h", {"tls": True}, "write mqtts://"),
        ("ws://h", {"websocket": "/x"}, "the address has the port and the path"),
        ("ws://h", {"port": 1}, "the address has the port and the path"),
    ],
)
def test_address_and_keywords_must_agree(url, keywords, words):
    with pytest.raises(ArgumentError) as caught:
        connect(url, **keywords)
    assert words in f"{caught.value.message}; {caught.value.advice}"
