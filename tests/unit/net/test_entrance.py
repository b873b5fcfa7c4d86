"""The entrance over real sockets: proxies, bans, limits of addresses, time until the login."""

import socket
from contextlib import ExitStack, suppress

import pytest

from penstock.obs.reasons import DisconnectReason
from penstock.testing import Broker
from penstock.trust.book import put
from penstock.trust.rows import Ban

CONNECT = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01a"
CONNACK = b"\x20\x02\x00\x00"
PING = b"*1\r\n$4\r\nPING\r\n"


def proxied(trusted: str = "127.0.0.1", **more: object) -> Broker:
    listener = {"address": "127.0.0.1:0", "proxy": True, "trusted": [trusted]}
    return Broker(listeners=[listener], **{"allow_anonymous": True, **more})


def header(host: str) -> bytes:
    return f"PROXY TCP4 {host} 127.0.0.1 4711 1883\r\n".encode()


def dial(broker: Broker, data: bytes, at: int = 1) -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", broker.server.addresses[at].port), 30)
    with suppress(ConnectionError):  # the broker may have cut the connection already
        opened.sendall(data)
    return opened


def received(opened: socket.socket) -> bytes:
    """All bytes until the broker closes."""
    data = b""
    with opened, suppress(ConnectionResetError):
        while piece := opened.recv(65_536):
            data += piece
    return data


def count(broker: Broker, reason: DisconnectReason) -> int:
    return broker.call(lambda: broker.server.counters.disconnects[reason])


def test_the_address_of_the_header_is_the_clients_and_the_proxy_serves_every_door():
    with proxied() as broker:
        with dial(broker, header("203.0.113.9") + CONNECT) as client:
            assert client.recv(4) == CONNACK
            peers = broker.call(lambda: [c.peer for c in broker.server.parts.connections.clients])
            assert peers == ["203.0.113.9:4711"]
        with dial(broker, header("203.0.113.9") + PING) as client:
            assert client.recv(7) == b"+PONG\r\n"
        request = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        assert received(dial(broker, header("203.0.113.9") + request)).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("data", [CONNECT, PING, b"GET / HTTP/1.1\r\n\r\n", b"\x01", b"\0\0\0\1"])
def test_without_a_header_nothing_is_served_where_one_is_demanded(data):
    with proxied() as broker:
        assert received(dial(broker, data)) == b""
        assert count(broker, DisconnectReason.PROXY_REFUSED) == 1


def test_a_header_from_elsewhere_is_not_read():
    with proxied(trusted="192.0.2.1") as broker:
        assert received(dial(broker, header("203.0.113.9") + CONNECT)) == b""
        assert count(broker, DisconnectReason.PROXY_REFUSED) == 1


def test_a_header_that_nobody_asked_for_is_refused():
    with Broker() as broker, dial(broker, header("203.0.113.9"), at=0) as client:
        assert client.recv(100).startswith(b"-ERR unknown command 'PROXY'")


@pytest.mark.parametrize("name", ["X-Forwarded-For", "X-Real-IP", "Forwarded", "Client-IP"])
def test_no_header_of_http_makes_a_client_local(name):
    value = "for=127.0.0.1" if name == "Forwarded" else "127.0.0.1"
    request = (
        f"GET /keys HTTP/1.1\r\nHost: localhost\r\n{name}: {value}\r\nConnection: close\r\n\r\n"
    )
    with proxied() as broker:
        assert received(dial(broker, request.encode(), at=0)).startswith(b"HTTP/1.1 200")
        answer = received(dial(broker, header("203.0.113.9") + request.encode()))
        assert answer.startswith((b"HTTP/1.1 401", b"HTTP/1.1 403")), answer


def test_a_ban_is_in_force_at_once_for_the_address_of_the_client():
    with proxied() as broker:
        broker.change_access(put(Ban("address:203.0.113.0/24")))
        assert received(dial(broker, header("203.0.113.9") + CONNECT)) == b""
        assert count(broker, DisconnectReason.BANNED) == 1
        with dial(broker, header("198.51.100.1") + CONNECT) as client:
            assert client.recv(4) == CONNACK


def test_clients_that_log_in_do_not_count_as_strangers():
    with ExitStack() as stack:
        broker = stack.enter_context(proxied())
        for number in range(40):
            connect = CONNECT[:-2] + bytes([1, 65 + number])
            client = stack.enter_context(dial(broker, header("203.0.113.9") + connect))
            assert client.recv(4) == CONNACK
        strangers = [stack.enter_context(dial(broker, header("203.0.113.9"))) for _ in range(32)]
        assert received(dial(broker, header("203.0.113.9") + CONNECT)) == b""
        assert count(broker, DisconnectReason.ADDRESS_LIMIT) == 1
        assert broker.call(lambda: broker.server.parts.connections.visitors.strangers) == 32
        for stranger in strangers:
            stranger.close()
    # Everything that was counted has left with its connection.


FIRST_BYTES = {
    "mqtt": b"\x10",
    "resp": PING,
    "binary": b"\x01",
    "queue": b"\0\0\0\x10",
    "undetected": b"G",
}


@pytest.mark.parametrize("door", FIRST_BYTES)
def test_whoever_does_not_log_in_has_ten_seconds_in_all(door, tmp_path):
    with Broker(data=tmp_path) as broker:
        broker.add_user("ann", "a secret of sixteen letters")
    with proxied(data=tmp_path, allow_anonymous=False) as broker:
        client = dial(broker, header("203.0.113.9") + FIRST_BYTES[door])
        for _ in range(4):
            broker.clock.advance(2.6)
        received(client)
        assert count(broker, DisconnectReason.CONNECT_TIMEOUT) == 1
