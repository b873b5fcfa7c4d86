"""Who breaks the rules of TLS is cut off, with a reason, and leaves nothing behind."""

import contextlib
import gc
import socket
import ssl
import subprocess
import time

import pytest

from penstock.net.tls import HANDSHAKE_BYTES_MAX
from penstock.obs.reasons import DisconnectReason
from penstock.testing import Broker
from tests.tls.authority import client_context, needs_openssl
from tests.tls.wire import TIMEOUT_S, WireClient, connect

pytestmark = needs_openssl

FAILED, LATE, REQUIRED = (
    DisconnectReason.TLS_FAILED,
    DisconnectReason.CONNECT_TIMEOUT,
    DisconnectReason.TLS_REQUIRED,
)


@pytest.fixture
def ends(broker):
    """How many connections have ended so since the test began."""
    before = dict(broker.server.counters.disconnects)
    return lambda reason: (
        broker.call(broker.server.counters.disconnects.get, reason) - before[reason]
    )


def test_garbage_after_a_client_hello_is_answered_with_an_alert(broker, context, ends):
    with WireClient(broker, context) as client:
        client.send(client.hello() + b"\x16\x03\x03\x00\x04junk" + b"\xff" * 100)
        client.finish()
        with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
            client.receive()
    assert ends(FAILED) == 1


def test_a_first_byte_of_tls_and_nothing_else_of_it_is_refused(broker, context, ends):
    with WireClient(broker, context) as client:
        client.send(b"\x16" + b"not TLS at all, whatever its first byte says" * 3)
        client.until_closed()
    assert ends(FAILED) == 1


def test_a_record_that_was_tampered_with_ends_the_connection(broker, context, ends):
    with WireClient(broker, context) as client:
        client.finish()
        client.send(client.sealed(b"PING\r\n"))
        assert client.receive() == b"+PONG\r\n"
        record = bytearray(client.sealed(b"SET x y\r\n"))
        record[-1] ^= 1
        client.send(bytes(record))
        client.until_closed()
    assert ends(FAILED) == 1


def test_a_handshake_that_never_ends_is_bounded(broker, context, ends):
    """Handshake messages that announce megabytes, of which bytes keep coming."""
    with WireClient(broker, context) as client:
        start = b"\x01" + (HANDSHAKE_BYTES_MAX * 4).to_bytes(3, "big")
        record = b"\x16\x03\x01\x40\x00" + start.ljust(16_384, b"\0")
        more = b"\x16\x03\x01\x40\x00" + bytes(16_384)
        with contextlib.suppress(ConnectionError):
            client.send(record + more * 20)
        client.until_closed()
    assert ends(FAILED) == 1


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_tls_1_1_is_refused(broker, context, ends):
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError, match=r"(?i)protocol.version"):
        connect(broker, context)
    assert ends(FAILED) == 1


@pytest.mark.parametrize("cipher", ["AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA256"])
def test_a_cipher_without_forward_secrecy_or_authentication_is_refused(broker, context, cipher):
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(cipher)
    with pytest.raises(ssl.SSLError, match=r"(?i)handshake.failure"):
        connect(broker, context)


def test_tls_1_2_is_accepted_and_counted(broker, context):
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    before = broker.server.counters.tls_handshakes_total.get("TLSv1.2", 0)
    with connect(broker, context) as client:
        client.sendall(b"PING\r\n")
        assert client.recv(64) == b"+PONG\r\n"
    assert broker.server.counters.tls_handshakes_total["TLSv1.2"] == before + 1


@pytest.mark.parametrize(
    ("agreed", "said"),
    [("mqtt", b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"), ("http/1.1", b"\x10\x0c"),
     ("http/1.1", b"PING\r\n")],
)  # fmt: skip
def test_who_agrees_on_a_protocol_and_speaks_another_is_cut(broker, context, ends, agreed, said):
    context.set_alpn_protocols([agreed])
    with connect(broker, context) as client:
        assert client.selected_alpn_protocol() == agreed
        client.sendall(said)
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            assert client.recv(64) == b""
    assert ends(FAILED) == 1


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0], ids=["nothing", "half a hello", "no answer"])
def test_a_slow_handshake_has_as_long_as_a_first_packet(broker, context, ends, part):
    with WireClient(broker, context) as client:
        hello = client.hello()
        client.send(b"\x16" + hello[1 : max(1, int(len(hello) * part))])
        if part == 1.0:
            assert client.socket.recv(5)  # the broker has answered
        else:
            _until_seen(broker, client)
        broker.clock.advance(11)
        client.until_closed()
    assert ends(LATE) == 1
    assert not broker.server._listener.undetected


def test_a_handshake_and_a_silent_client_share_the_time(broker, context, ends):
    """Threat 7: the time of a first packet does not begin anew after the handshake."""
    with connect(broker, context) as client:
        broker.clock.advance(11)
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            assert client.recv(64) == b""
    assert ends(LATE) == 1


def test_half_open_handshakes_that_are_killed_leave_nothing(broker, context):
    before = set(broker.server._listener.undetected)
    clients = [WireClient(broker, context) for _ in range(40)]
    for number, client in enumerate(clients):
        hello = client.hello()
        client.send(hello if number % 2 else hello[:60])
    for client in clients:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.socket.close()
    with connect(broker, context) as witness:  # its answer comes after their ends were seen
        witness.sendall(b"PING\r\n")
        assert witness.recv(64) == b"+PONG\r\n"
    _until(lambda: broker.call(lambda: set(broker.server._listener.undetected) == before))
    _until(lambda: not _server_sides())


def test_bytes_after_the_goodbye_are_ignored_and_not_kept(broker, context):
    with WireClient(broker, context) as client:
        client.finish()
        client.send(client.sealed(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        client.send(client.goodbye() + b"\x17\x03\x03\x40\x00" + bytes(200_000))
        answer = client.until_closed()
    assert answer
    with connect(broker, context) as witness:  # the broker does not spin
        witness.sendall(b"PING\r\n")
        assert witness.recv(64) == b"+PONG\r\n"


def test_a_client_that_says_goodbye_still_gets_its_answer(broker, context):
    """Half-closed, as shell pipes leave it."""
    with WireClient(broker, context) as client:
        client.finish()
        request = client.sealed(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        client.send(request + client.goodbye())
        received = b""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while part := client.receive():
                received += part
    assert received.startswith(b"HTTP/1.1 200")
    assert b"penstock_connections_total" in received


def test_renegotiation_is_refused(broker, authority):
    """Threat 26: ``openssl`` asks for it when its input has a line with R."""
    command = f"openssl s_client -connect localhost:{broker.port} -tls1_2 -CAfile {authority.cert}"
    done = subprocess.run(
        command.split(), input=b"R\n", capture_output=True, check=False, timeout=TIMEOUT_S
    )
    assert b"RENEGOTIATING" in done.stdout + done.stderr
    assert b"no renegotiation" in done.stdout + done.stderr


class TestWhereTlsIsRequired:
    """A listener as others reach it: clear text is refused there."""

    @pytest.fixture(scope="class")
    @classmethod
    def broker(cls, server_files):
        listen = ["tls://127.0.0.1:0"]
        with Broker(tls=server_files._asdict(), listen=listen) as running:
            yield running

    def test_tls_is_accepted(self, broker, authority):
        with connect(broker, client_context(authority)) as client:
            client.sendall(b"PING\r\n")
            assert client.recv(64) == b"+PONG\r\n"

    @pytest.mark.parametrize(
        ("said", "answered"),
        [
            (b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 400"),
            (b"*1\r\n$4\r\nPING\r\n", b"-ERR this address accepts encrypted connections only"),
            (b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00", b""),
            (b"\x01\x10", b""),
            (b"\x00\x00\x00\x10", b""),
        ],
        ids=["http", "resp", "mqtt", "binary", "queue"],
    )
    def test_clear_text_is_refused_with_a_reason(self, broker, ends, said, answered):
        with connect(broker) as client:
            client.sendall(said)
            received = b""
            with contextlib.suppress(ConnectionError):
                while part := client.recv(4096):
                    received += part
        assert received.startswith(answered)
        assert bool(received) == bool(answered)
        assert ends(REQUIRED) == 1


def _server_sides():
    """What OpenSSL has of connections: tens of kilobytes each."""
    gc.collect()
    return [o for o in gc.get_objects() if isinstance(o, ssl.SSLObject) and o.server_side]


def _until_seen(broker, client):
    """Wait until the broker has read what was sent: it then has nothing unread of this client."""
    peer = client.socket.getsockname()
    listener = broker.server._listener

    def is_seen():
        return any(c._origin.port == peer[1] for c in listener.undetected)

    _until(lambda: broker.call(is_seen))


def _until(is_true):
    deadline = time.monotonic() + TIMEOUT_S
    while not is_true():
        assert time.monotonic() < deadline
