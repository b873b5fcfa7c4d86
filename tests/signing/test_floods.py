"""A client that floods the broker with bad signatures pays for it itself.

How long others wait is measured by counting, not by time: how many of the bad signatures the broker
has checked between their request and its answer. Each costs about 60 µs.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.testing import Broker
from penstock.trust.faults import SignatureFault
from penstock.wire.binary import client as frames
from penstock.wire.binary.events import Acked, BinaryPong
from tests.conformance.wire_client import wait_until
from tests.signing.kit import TIMEOUT_S, Binary, Signer, register

FLOOD = 10_000
ROUNDS = 20
LOOKED_AT_MAX = 2_000
"""Bad signatures between a request and its answer: 64 per loop turn, and a few turns."""

TOPIC = b"secure/flood"


def binary_flood(signer: Signer) -> tuple[bytes, bytes]:
    """Frames with bad signatures, and how an answer to one begins."""
    wrong = signer.sign_1(TOPIC, b"another payload")
    return frames.signed_publish(TOPIC, b"x", 1, wrong) * FLOOD, b"\x01\x08"


def resp_flood(signer: Signer) -> tuple[bytes, bytes]:
    envelope = signer.envelope_1(TOPIC, b"x") + b"!"
    topic = b"$signed/" + TOPIC
    sizes = len(topic), topic, len(envelope), envelope
    return b"*3\r\n$7\r\nPUBLISH\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % sizes * FLOOD, b"-ERR"


@contextmanager
def flooding(broker: Broker, flood: bytes, answer: bytes) -> Iterator[threading.Event]:
    """Send the flood and read the answers, in threads; the event is set when all are there."""
    finished = threading.Event()
    with socket.create_connection(("127.0.0.1", broker.port), TIMEOUT_S) as client:

        def read() -> None:
            tail, answers = b"", 0
            while answers < FLOOD and (chunk := client.recv(65_536)):
                data = tail + chunk
                answers += data.count(answer)
                tail = data[-len(answer) + 1 :]
            assert answers == FLOOD
            finished.set()

        threads = [
            threading.Thread(target=read),
            threading.Thread(target=client.sendall, args=(flood,)),
        ]
        for thread in threads:
            thread.start()
        yield finished
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("flood", [binary_flood, resp_flood])
def test_bad_signatures_do_not_keep_others_waiting(own_broker, flood):
    """Neither for an answer nor for the disk."""
    broker = own_broker()
    data, answer = flood(register(broker))
    failures = broker.server.parts.gate.failures
    looked_at = []
    with Binary(broker) as other, flooding(broker, data, answer) as finished:
        wait_until(lambda: failures[SignatureFault.BAD_SIGNATURE] > 0)
        for sequence in range(1, ROUNDS + 1):
            before = failures[SignatureFault.BAD_SIGNATURE]
            other.send(frames.ping() + frames.publish(b"free", b"x", sequence))
            assert other.next() == BinaryPong()
            assert other.next() == Acked([sequence])
            looked_at.append(failures[SignatureFault.BAD_SIGNATURE] - before)
        assert finished.wait(TIMEOUT_S)
    assert max(looked_at) < LOOKED_AT_MAX, looked_at


def test_every_bad_signature_of_a_flood_is_answered_and_nothing_of_it_is_stored(own_broker):
    broker = own_broker()
    data, answer = binary_flood(register(broker))
    before = broker.server.store.next_sequence
    with flooding(broker, data, answer) as finished:
        assert finished.wait(TIMEOUT_S)
    assert broker.server.parts.gate.failures[SignatureFault.BAD_SIGNATURE] == FLOOD
    assert broker.server.store.next_sequence == before
