"""Which requests become WebSockets, and how the others are refused."""

import base64
import http.client
import json
import socket

import pytest

from penstock.obs.reasons import DisconnectReason
from penstock.trust.book import put
from penstock.trust.rows import Ban
from tests.conformance.wire_client import PINGREQ, PINGRESP, connack, connect_packet
from tests.tls.authority import client_context, needs_openssl
from tests.websocket.peer import Peer, connected, frame, refusal, request


def ended(broker, reason):
    return broker.metrics()[f'penstock_disconnects_total{{reason="{reason.value}"}}']


@pytest.mark.proves("MQTT-6.0.0-4")
@pytest.mark.proves5("MQTT-6.0.0-4")
@pytest.mark.parametrize("path", ["/mqtt", "/", "/mqtt?x=1"])
def test_both_paths_answer_with_the_sub_protocol(broker, path):
    with Peer(broker, path=path) as peer:
        assert "sec-websocket-protocol: mqtt" in peer.head.lower()
        peer.send(connect_packet(f"path{len(path)}"))
        peer.expect(connack())


def test_lists_of_tokens_are_read_in_any_case(broker):
    headers = {
        "Connection": "keep-alive, UPGRADE",
        "Upgrade": "WebSocket",
        "Sec-WebSocket-Protocol": "mqttv3.1, mqtt",
        "Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits",
    }
    with Peer(broker, headers=headers) as peer:
        assert "extensions" not in peer.head.lower()
        peer.send(connect_packet("lists"))
        peer.expect(connack())


def test_what_comes_behind_the_request_is_not_lost(broker):
    behind = frame(2, connect_packet("behind")) + frame(2, PINGREQ)
    with Peer(broker, behind=behind) as peer:
        peer.expect(connack(), PINGRESP)


def test_a_request_may_come_byte_by_byte(broker):
    data = request() + frame(2, connect_packet("slowly"))
    with socket.create_connection((broker.host, broker.port), 30) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in data:
            raw.sendall(bytes([byte]))
        answer = b""
        while not answer.endswith(connack()):
            answer += raw.recv(4096)
        assert answer.startswith(b"HTTP/1.1 101")


@pytest.mark.proves5("MQTT-6.0.0-3")
@pytest.mark.parametrize(
    ("path", "changed", "status"),
    [
        ("/metrics", {}, 404),
        ("/mqtt/", {}, 404),
        ("/mqtt", {"Sec-WebSocket-Version": "8"}, 426),
        ("/mqtt", {"Sec-WebSocket-Version": None}, 426),
        ("/mqtt", {"Sec-WebSocket-Key": None}, 400),
        ("/mqtt", {"Sec-WebSocket-Key": base64.b64encode(bytes(17)).decode()}, 400),
        ("/mqtt", {"Sec-WebSocket-Protocol": None}, 400),
        ("/mqtt", {"Sec-WebSocket-Protocol": "mqttv3.1"}, 400),
        ("/mqtt", {"Content-Length": "5"}, 400),
        ("/mqtt", {"Transfer-Encoding": "chunked"}, 400),
    ],
)
def test_a_bad_handshake_is_refused_counted_and_told_why(broker, path, changed, status):
    before = ended(broker, DisconnectReason.UPGRADE_REFUSED)

    refused = refusal(broker, path=path, headers=changed)

    assert refused.status == status
    assert set(json.loads(refused.body)) == {"error", "advice"}
    assert ("sec-websocket-version: 13" in refused.head.lower()) is (status == 426)
    assert ended(broker, DisconnectReason.UPGRADE_REFUSED) == before + 1


@pytest.mark.parametrize(
    ("first", "status"), [(b"POST /mqtt HTTP/1.1", 405), (b"GET /mqtt HTTP/1.0", 400)]
)
def test_only_get_of_http_1_1_becomes_a_websocket(broker, first, status):
    asking = request().replace(b"GET /mqtt HTTP/1.1", first)

    assert refusal(broker, asking=asking).status == status


def test_plain_requests_are_served_as_before(broker):
    client = http.client.HTTPConnection(broker.host, broker.port, timeout=30)
    client.request("GET", "/")
    assert client.getresponse().read().startswith(b"Penstock")
    client.request("GET", "/health", headers={"Connection": "Upgrade", "Upgrade": "h2c"})
    assert client.getresponse().read() == b'{"status":"ok"}\n'
    client.request("GET", "/mqtt")
    assert client.getresponse().status == 404
    client.close()


def test_a_connection_that_served_requests_can_still_become_a_websocket(broker):
    earlier = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    with socket.create_connection((broker.host, broker.port), 30) as raw:
        raw.sendall(earlier)
        answer = b""
        while b'"ok"}\n' not in answer:
            answer += raw.recv(4096)
        raw.sendall(request() + frame(2, connect_packet("late")))
        while not answer.endswith(connack()):
            answer += raw.recv(4096)


# ── which web pages ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:1883", "http://127.0.0.1:1883"),
        ("localhost:80", "http://LOCALHOST:80"),
        ("[::1]:1883", "http://[::1]:1883"),
        ("broker", "https://app.example.com"),
        ("broker", "HTTPS://app.example.com"),
        ("own.example.com", "http://own.example.com"),
        ("broker", "null"),
    ],
)
def test_pages_of_the_own_address_and_of_allowed_origins_may_connect(own_broker, host, origin):
    listed = ["https://app.example.com", "null"]
    broker = own_broker(http={"allowed_origins": listed}, admin={"hosts": ["own.example.com"]})

    with connected(broker, "page", headers={"Host": host, "Origin": origin}):
        pass


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:1883", "http://evil.example.com"),
        ("127.0.0.1:1883", "http://127.0.0.1"),  # another port is another page
        ("127.0.0.1:1883", "null"),
        ("127.0.0.1:1883", ""),
        ("127.0.0.1:1883", "http://[127.0.0.1:1883"),
        ("evil.example.com", "http://evil.example.com"),  # a name that somebody else points here
    ],
)
def test_other_pages_may_not_connect(broker, host, origin):
    before = ended(broker, DisconnectReason.ORIGIN_REFUSED)

    refused = refusal(broker, headers={"Host": host, "Origin": origin})

    assert refused.status == 403
    assert "http.allowed_origins" in refused.body
    assert ended(broker, DisconnectReason.ORIGIN_REFUSED) == before + 1


def test_two_origins_are_none(broker):
    asking = request(headers={"Origin": "http://127.0.0.1"}).replace(
        b"Upgrade: ", b"Origin: http://127.0.0.1\r\nUpgrade: ", 1
    )

    assert refusal(broker, asking=asking).status == 403


def test_a_star_allows_every_page(own_broker):
    broker = own_broker(http={"allowed_origins": ["*"]})

    with connected(broker, "star", headers={"Origin": "http://evil.example.com"}):
        pass


# ── room, rights, listeners ───────────────────────────────────────────────────────────────────


def test_a_websocket_counts_as_a_client(own_broker):
    broker = own_broker(limits={"clients_max": 1})
    with connected(broker, "first"):
        refused = refusal(broker)
        assert refused.status == 503
        assert ended(broker, DisconnectReason.TOO_MANY_CLIENTS) == 1
        assert broker.metrics()['penstock_connections_total{protocol="websocket"}'] == 1


def test_users_log_in_as_by_tcp(own_broker):
    broker = own_broker(users={"ann": "secret-of-ann"}, auth={"anonymous": "deny"})
    with Peer(broker) as peer:
        peer.send(connect_packet("a", username="ann", password=b"secret-of-ann"))
        peer.expect(connack())
    with Peer(broker) as peer:
        peer.send(connect_packet("b", username="ann", password=b"wrong"))
        peer.expect(connack(code=4))
        assert peer.expect_close().code == 1008


def test_a_banned_client_is_closed(own_broker):
    broker = own_broker(users={"ann": "secret-of-ann"})
    with connected(broker, "a", connect={"username": "ann", "password": b"secret-of-ann"}) as peer:
        broker.change_access(put(Ban("user:ann")))
        close = peer.expect_close()
        assert (close.code, close.reason) == (1008, "banned")


def test_a_listener_without_mqtt_has_no_websocket(own_broker):
    broker = own_broker(listeners=[{"address": "127.0.0.1:0", "protocols": ["http"]}])
    listener = broker.server.addresses[-1]

    assert refusal(listener).status == 404


def test_the_administrators_socket_has_no_websocket(own_broker):
    broker = own_broker()
    with socket.socket(socket.AF_UNIX) as raw:
        raw.settimeout(30)
        raw.connect(str(broker.server._admin_socket.path))
        raw.sendall(request())
        assert raw.recv(4096).startswith(b"HTTP/1.1 404")


def test_listings_tell_who_came_by_websocket(broker):
    with connected(broker, "listed"):
        client = http.client.HTTPConnection(broker.host, broker.port, timeout=30)
        client.request("GET", "/clients?prefix=listed")
        (row,) = json.loads(client.getresponse().read())["clients"]
        client.close()
        assert (row["protocol"], row["version"], row["websocket"]) == ("mqtt", "3.1.1", True)


@needs_openssl
def test_tls_listeners_speak_it_too(own_broker, server_files, authority):
    broker = own_broker(tls=server_files._asdict())
    page = {"Host": f"localhost:{broker.port}", "Origin": f"https://localhost:{broker.port}"}
    with connected(broker, "wss", headers=page, context=client_context(authority)) as peer:
        peer.send(PINGREQ)
        peer.expect(PINGRESP)
