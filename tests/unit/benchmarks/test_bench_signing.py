"""Signed frames are what the binary protocol asks for, and the bare rate is over real checks."""

import json
import os
import shutil
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import nacl.exceptions
import pytest
from benchmarks import signing
from benchmarks.brokers import BrokerError, MosquittoBroker, PenstockBroker, TrustedKey
from benchmarks.machine import Cores
from benchmarks.rounds import Bench, measure
from benchmarks.signing import BareVerification, read_signed, verify_for, write_frames
from benchmarks.workloads import WORKLOADS
from fake_doors import BinaryDoor, serving

KEY = TrustedKey(7, bytes(range(32)), "secure/*")


def test_a_frame_is_header_topic_payload_signature_and_key_id(tmp_path):
    data = write_frames(tmp_path / "frames", 2, seed=1).path.read_bytes()
    first = data[: len(data) // 2]
    assert first[:2].hex() == "0110"
    assert len(first) == 16 + len(signing.TOPIC) + signing.PAYLOAD_BYTES + 64 + 4
    assert first[-4:] == (7).to_bytes(4, "big")
    assert [data[at + 9] for at in (0, len(first))] == [1, 2]


def test_frames_follow_from_the_seed(tmp_path):
    one, again, other = (write_frames(tmp_path / str(n), 3, seed=n // 2) for n in range(3))
    assert one.path.read_bytes() == again.path.read_bytes() != other.path.read_bytes()
    assert one.key == again.key != other.key


def test_all_signatures_are_checked_until_the_time_is_over(tmp_path):
    frames = write_frames(tmp_path / "frames", 20, seed=1)
    found = verify_for(frames.path, frames.key.public_key, seconds=60.0)
    assert found["acked"] == 20
    assert found["acked_per_s"] > 0
    assert found["broker_us_per_message"] > 0
    assert verify_for(frames.path, frames.key.public_key, seconds=0.0)["acked"] == 1


def test_a_signature_that_does_not_hold_ends_the_comparison(tmp_path):
    frames = write_frames(tmp_path / "frames", 3, seed=1)
    with pytest.raises(nacl.exceptions.BadSignatureError):
        verify_for(frames.path, bytes(32), seconds=60.0)
    assert len(list(read_signed(frames.path))) == 3


def test_the_bare_library_is_measured_like_a_broker(tmp_path, monkeypatch):
    monkeypatch.setattr(signing, "FRAMES_PER_S", 1_000)
    bench = Bench(None, {}, 1, 0.01, 1, Cores(None, None), tmp_path)
    result = measure(WORKLOADS["SIG"], BareVerification, bench, side="theirs", round_=1)
    assert result.flaws == []
    assert result.value("acked_per_s") > 0
    assert not result.load.generator_bound


class TrustingBroker:
    """Accepts signed publishes once a key is registered."""

    name = "trusting"
    told = None

    @classmethod
    @contextmanager
    def running(cls, data, *, settings, cpu):
        with serving(BinaryDoor) as door:
            cls.told = []
            yield SimpleNamespace(
                name=cls.name,
                port=door.port,
                pid=os.getpid(),
                directory=data,
                trust=cls.told.append,
            )


@pytest.mark.skipif(not shutil.which("cc"), reason="the generator is a C program")
def test_a_broker_is_told_the_key_before_it_is_sent_the_frames(tmp_path, monkeypatch):
    monkeypatch.setattr(signing, "FRAMES_PER_S", 100)
    bench = Bench(None, {}, 1, 1.0, 1, Cores(None, None), tmp_path)
    result = measure(WORKLOADS["SIG"], TrustingBroker, bench, side="ours", round_=1)
    assert result.flaws == []
    assert result.load["acked"] == 100
    assert TrustingBroker.told == [bench.signed_frames().key]
    assert result.flush_us > 0


class Keys(BaseHTTPRequestHandler):
    """An admin API that takes one kind of key."""

    def do_POST(self):
        self.server.asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.path = self.path
        self.send_response(201 if self.server.asked["key_id"] == KEY.key_id else 409)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def admin():
    with HTTPServer(("127.0.0.1", 0), Keys) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def test_a_fresh_broker_is_given_the_key(admin):
    broker = PenstockBroker(Path(), {})
    broker.port = admin.server_port
    broker.trust(KEY)
    assert admin.path == "/keys"
    assert admin.asked == {
        "device": "bench",
        "key_id": 7,
        "public_key": KEY.public_key.hex(),
        "topics": "secure/*",
    }


def test_a_key_that_is_refused_ends_the_measurement(admin):
    broker = PenstockBroker(Path(), {})
    broker.port = admin.server_port
    with pytest.raises(BrokerError, match="409"):
        broker.trust(KEY._replace(key_id=8))


def test_not_every_broker_takes_keys():
    with pytest.raises(BrokerError, match="takes no keys"):
        MosquittoBroker(Path(), {}).trust(KEY)
