"""Requests that are cheap to send and expensive to parse are not parsed, and all others are."""

import pytest

from penstock.limits import KIB, MIB, QUEUE_REQUEST_BYTES_MAX
from penstock.wire.queue import QueueServerMachine
from penstock.wire.queue._generated.queue_pb2 import (
    AckMany,
    Extend,
    FetchMany,
    Header,
    Locate,
    NackMany,
    Produce,
    ProduceMany,
    Request,
)
from penstock.wire.queue.events import Bad, Oversized, QueueRequest
from penstock.wire.queue.weight import SMALL_BYTES_MAX, is_too_heavy
from tests.wire.queue_plain import framed

HEADERS = [Header(name=f"h{number}", value=b"J" * 100) for number in range(64)]

LARGE = {
    "produce": Request(produce=Produce(topic="t", payload=b"\xca" * MIB, headers=HEADERS)),
    "produce_many": Request(
        produce_many=ProduceMany(topic="t", payloads=[b"J" * 60] * 50_000, headers=HEADERS)
    ),
    "no bytes in many": Request(produce_many=ProduceMany(topic="t", payloads=[b""] * 60_000)),
    "ack_many": Request(ack_many=AckMany(topic="t", lease_ids=range(60_000))),
    "nack_many": Request(nack_many=NackMany(topic="t", lease_ids=range(60_000), reason="J")),
    "extend": Request(extend=Extend(topic="t", lease_ids=range(60_000))),
    "locate": Request(locate=Locate(topic="t", times_ms=range(60_000))),
    "fetch_many": Request(
        fetch_many=FetchMany(topics=["\x12" * 1024] * 1024, offsets=range(1024), scan=1)
    ),
}


@pytest.mark.parametrize("request_id", [0, 1, 1 << 63])
@pytest.mark.parametrize("kind", LARGE)
def test_what_somebody_may_mean_is_read_however_large(kind, request_id):
    request = Request(request_id=request_id)
    request.MergeFrom(LARGE[kind])
    body = request.SerializeToString()
    assert len(body) > SMALL_BYTES_MAX
    assert not is_too_heavy(body)


def within(tag: bytes, fields: bytes) -> bytes:
    """One field of bytes, with its length in four."""
    length = len(fields)
    size = bytes((length & 127 | 128, length >> 7 & 127 | 128, length >> 14 & 127 | 128))
    return tag + size + bytes((length >> 21,)) + fields


BOMBS = {
    "headers": within(b"\x82\x01", b"\x0a\x01t" + b"\x4a\x00" * MIB),
    "headers of one message": within(b"\x0a", b"\x0a\x01t" + b"\x4a\x00" * MIB),
    "headers spelled longer": within(b"\x82\x01", b"\xca\x00\x00" * MIB),
    "headers between payloads": within(b"\x82\x01", b"\x22\x00\x4a\x00" * (MIB // 2)),
    "measures": within(b"\xe2\x01", b"\x0a\x01t" + b"\x1a\x00" * MIB),
    "topics of a scan": within(b"\xb2\x02", b"\x12\x00" * MIB),
    "nodes": within(b"\x4a", b"\x0a\x00" * MIB),
    "kinds in turn": b"\x42\x00\x1a\x00" * MIB,
    "one kind again and again": b"\x42\x00" * MIB,
    "two of one kind": within(b"\x8a\x01", bytes(MIB)) * 2,
    "groups in groups": b"\x9b\x06" * MIB,
    "numbers that nobody knows": b"\xf8\x06\x00" * MIB,
    "ids": b"\x78\x01" * MIB,
    "a number without end": b"\x78" + b"\x80" * MIB,
    "a length without end": b"\x82\x01" + b"\xff" * MIB,
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_nobody_can_mean_is_not_read(name):
    assert is_too_heavy(BOMBS[name])


def test_a_heavy_body_has_its_response_like_any_other():
    stats = Request(stats={}).SerializeToString()
    bad, call = QueueServerMachine().receive(framed(BOMBS["headers"]) + framed(stats))
    assert isinstance(bad, Bad)
    assert isinstance(call, QueueRequest)


# ── larger than any request need be ───────────────────────────────────────────────────────────


@pytest.mark.parametrize("chunk", [1, 3, 4, 5, 6, 7, 100, 10_000])
def test_a_frame_that_is_not_kept_is_passed_over_wherever_it_is_cut(chunk):
    stats = framed(Request(stats={}).SerializeToString())
    stream = stats + framed(b"\x0a" + bytes(300)) + stats + framed(b"\x82" + bytes(400)) + stats
    machine = QueueServerMachine(request_bytes_max=200)
    events = []
    for start in range(0, len(stream), chunk):
        events += machine.receive(stream[start : start + chunk])
        assert machine.pending_bytes <= 200
    oversized = [event.is_produce for event in events if isinstance(event, Oversized)]
    assert oversized == [True, False]
    assert [type(event) for event in events] == [
        QueueRequest,
        Oversized,
        QueueRequest,
        Oversized,
        QueueRequest,
    ]


def test_a_request_of_exactly_the_largest_size_is_read_and_one_byte_more_is_not():
    machine = QueueServerMachine()
    assert isinstance(machine.receive(framed(bytes(QUEUE_REQUEST_BYTES_MAX)))[0], Bad)
    assert machine.receive(framed(bytes(QUEUE_REQUEST_BYTES_MAX + 1))) == [Oversized(False)]


def test_of_a_large_frame_nothing_is_kept():
    machine = QueueServerMachine()
    (event,) = machine.receive((64 * MIB).to_bytes(4, "big") + b"\x0a" + bytes(256 * KIB))
    assert event == Oversized(is_produce=True)
    assert machine.receive(bytes(256 * KIB)) == []
    assert machine.pending_bytes == 0
