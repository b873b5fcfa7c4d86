"""A broker under mutated sessions at every door, before and after login, beside a witness.

Each session is what a real client would send, changed in a few places. The witness is a client that
publishes and subscribes all the while: every message of its own must come back. At the end the
broker is up, no connection ended with an internal error, and its memory is bounded.
"""

import base64
import contextlib
import random
import socket
import ssl
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner

from penstock.cli import penstock
from penstock.client import Credentials, connect
from penstock.obs.reasons import DisconnectReason
from penstock.testing import Broker
from penstock.wire.binary import client as binary
from penstock.wire.mqtt import encode as mqtt
from penstock.wire.websocket import masked_frame
from tests.fuzz import corpus
from tests.fuzz.mutate import mutated
from tests.wire.queue_plain import request
from tests.wire.resp.commands import packed
from tests.wire.vectors import CONNECT

USER, SECRET = "ann", "psd_" + "a" * 32

_BASIC = base64.b64encode(f"{USER}:{SECRET}".encode())

UPGRADE = (
    b"GET /mqtt HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-protocol: mqtt\r\n\r\n"
)

OPENINGS: dict[str, list[bytes]] = {
    "mqtt": [b"", CONNECT, mqtt.connect(b"a", username=USER.encode(), password=SECRET.encode())],
    "binary": [b"", binary.auth(1, USER.encode(), SECRET.encode())],
    "queue": [b"", request(authenticate={"user": USER, "secret": SECRET.encode()})],
    "resp": [b"", packed(b"AUTH", USER.encode(), SECRET.encode())],
    "websocket": [UPGRADE, UPGRADE + masked_frame(2, CONNECT, bytes(4))],
    "http": [b"", b"GET /clients HTTP/1.1\r\nhost: a\r\nauthorization: Basic %b\r\n" % _BASIC],
}
"""What comes before the mutated bytes: nothing, something without a login, a login."""

HTTP = [b"GET /status HTTP/1.1\r\nhost: localhost\r\n\r\n", b"POST /topics/a HTTP/1.1\r\n"]
WITNESS = Credentials("witness", SECRET)
RSS_GROWTH_MAX = 200 << 20


def fuzz_live(seconds: float, seed: int) -> int:
    """Return an exit code: 0 if the broker stood it."""
    chance = random.Random(seed)
    with fuzzed_broker() as (broker, tls):
        before, sent = rss_bytes(), 0
        with connect(broker.host, broker.port, "witness", credentials=WITNESS) as witness:
            witness.subscribe([("witness", 1)])
            ends_at = time.monotonic() + seconds
            while time.monotonic() < ends_at:
                for _ in range(50):
                    send_session(chance, broker.host, broker.port, tls)
                sent += 1
                witness.publish("witness", b"%d" % sent, qos=1)
                payloads = [one.payload for one in witness.receive(timeout_s=30)]
                assert payloads == [b"%d" % sent], f"the witness got {payloads}"
        faults = broker.server.counters.disconnects[DisconnectReason.INTERNAL_ERROR]
        growth = rss_bytes() - before
    print(f"{sent * 50} sessions, {faults} internal errors, {growth >> 20} MiB grown, seed {seed}")
    return 1 if faults or growth > RSS_GROWTH_MAX else 0


@contextlib.contextmanager
def fuzzed_broker() -> Iterator[tuple[Broker, ssl.SSLContext]]:
    """A broker with TLS and users, where nobody does anything without a login."""
    with tempfile.TemporaryDirectory() as folder:
        CliRunner().invoke(penstock, ["certs", "dev", folder], catch_exceptions=False)
        files = {"cert": f"{folder}/server.crt", "key": f"{folder}/server.key"}
        auth = {"anonymous": "deny", "failures_max": 1_000_000}
        with Broker(tls=files, auth=auth) as broker:
            broker.add_user("root", SECRET, roles=("admin",))
            broker.add_user(USER, SECRET)
            broker.add_user("witness", SECRET)
            yield broker, ssl.create_default_context(cafile=f"{folder}/ca.crt")


def send_session(
    chance: random.Random, host: str, port: int, tls: ssl.SSLContext | None = None
) -> None:
    """Send one mutated session, read a little of the answer, hang up.

    With ``tls`` half of them are encrypted, and some of the others look as if they were.
    """
    name = chance.choice(list(OPENINGS))
    opening = chance.choice(OPENINGS[name])
    data = opening + mutated(chance, corpus.read(name) or HTTP)
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        client = stack.enter_context(socket.create_connection((host, port), timeout=5))
        if tls is not None and chance.random() < 0.5:
            client = stack.enter_context(tls.wrap_socket(client, server_hostname="localhost"))
        elif tls is not None and chance.random() < 0.3:
            data = b"\x16\x03\x01" + data
        client.settimeout(0.002)
        client.sendall(data)
        client.recv(4_096)


def rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4_096
