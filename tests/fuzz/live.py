"""A broker under mutated sessions at every door, before and after login, beside a witness.

Each session is what a real client would send, changed in a few places. The witness is a client that
publishes and subscribes all the while: every message of its own must come back. At the end the
broker is up, no connection ended with an internal error, and its memory is bounded.
"""

import contextlib
import random
import socket
import ssl
import time
from pathlib import Path

from penstock.client import connect
from penstock.obs.reasons import DisconnectReason
from penstock.testing import Broker
from tests.fuzz import corpus
from tests.fuzz.mutate import mutated
from tests.wire.resp.commands import packed
from tests.wire.vectors import CONNECT

SESSIONS: dict[str, list[bytes]] = {
    "mqtt": [CONNECT],
    "binary": [b""],
    "queue": [b""],
    "resp": [b"", packed(b"HELLO", b"3")],
    "http": [b"GET /status HTTP/1.1\r\nhost: localhost\r\n\r\n", b"POST /topics/a HTTP/1.1\r\n"],
}
RSS_GROWTH_MAX = 200 << 20


def fuzz_live(seconds: float, seed: int) -> int:
    """Return an exit code: 0 if the broker stood it."""
    chance = random.Random(seed)
    with Broker() as broker:
        before, sent = rss_bytes(), 0
        with connect(broker.host, broker.port, "witness") as witness:
            witness.subscribe([("witness", 1)])
            ends_at = time.monotonic() + seconds
            while time.monotonic() < ends_at:
                for _ in range(50):
                    send_session(chance, broker.host, broker.port)
                sent += 1
                witness.publish("witness", b"%d" % sent, qos=1)
                payloads = [one.payload for one in witness.receive(timeout_s=30)]
                assert payloads == [b"%d" % sent], f"the witness got {payloads}"
        faults = broker.server.counters.disconnects[DisconnectReason.INTERNAL_ERROR]
        growth = rss_bytes() - before
    print(f"{sent * 50} sessions, {faults} internal errors, {growth >> 20} MiB grown, seed {seed}")
    return 1 if faults or growth > RSS_GROWTH_MAX else 0


def send_session(
    chance: random.Random, host: str, port: int, tls: ssl.SSLContext | None = None
) -> None:
    """Send one mutated session, read a little of the answer, hang up."""
    name = chance.choice(list(SESSIONS))
    opening = chance.choice(SESSIONS[name])
    data = opening + mutated(chance, corpus.read(name) or SESSIONS[name])
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        client = stack.enter_context(socket.create_connection((host, port), timeout=5))
        if tls is not None:
            client = stack.enter_context(tls.wrap_socket(client, server_hostname="localhost"))
        client.settimeout(0.002)
        client.sendall(data)
        client.recv(4_096)


def rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4_096
