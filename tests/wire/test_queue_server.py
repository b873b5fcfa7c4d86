"""The broker's end beyond single requests: runs, what is no request, limits, buffers."""

import tracemalloc

import pytest

from penstock.limits import MIB
from penstock.obs.reasons import DisconnectReason
from penstock.wire.queue import QueueServerMachine, encode, fast_paths
from penstock.wire.queue._generated.queue_pb2 import Nack, Produce, Request
from penstock.wire.queue.events import AckRun, Bad, NackRun, ProduceRun, QueueRequest
from penstock.wire.violation import Violation
from tests.wire.queue_plain import cuts, feed, framed, request

STATS = request(stats={})


def produces(payloads, **fields):
    return b"".join(request(produce={"payload": payload, **fields}) for payload in payloads)


# ── Runs ──────────────────────────────────────────────────────────────────────────────────────


def test_produces_alike_but_for_the_payload_are_one_run():
    stream = produces([b"1", b"22", b"x" * 300, b"", b"3"], topic="a", priority=3, content_type=2)
    stream += produces([b"4"], topic="b")
    assert QueueServerMachine().receive(stream) == [
        ProduceRun(b"a", 3, 2, b"", [b"1", b"22", b"x" * 300, b"", b"3"], [], None),
        ProduceRun(b"b", 0, 0, b"", [b"4"], [], None),
    ]


def test_a_run_of_a_producer_has_its_seqs_zero_among_them():
    frames = [
        request(produce={"topic": "t", "payload": b"x", "producer_id": "p", "seq": seq})
        for seq in (0, 1, 127, 128, 2**64 - 1)
    ]
    (run,) = QueueServerMachine().receive(b"".join(frames))
    assert run == ProduceRun(b"t", 0, 0, b"p", [b"x"] * 5, [0, 1, 127, 128, 2**64 - 1], None)


@pytest.mark.parametrize(
    "second", [{"topic": "u"}, {"priority": 1}, {"content_type": 1}, {"producer_id": "q"}]
)
def test_another_topic_priority_content_type_or_producer_begins_a_run(second):
    first = {"topic": "t", "payload": b"x", "producer_id": "p"}
    stream = request(produce=first) * 2 + request(produce={**first, **second}) * 2
    assert [len(run.payloads) for run in QueueServerMachine().receive(stream)] == [2, 2]


def test_requests_with_an_id_and_requests_without_are_not_in_one_run():
    ack = {"topic": "t", "group": "g", "lease_id": 9}
    ids = [0, 0, 5, 300, 0]
    stream = b"".join(request(ack=ack, request_id=request_id) for request_id in ids)
    assert QueueServerMachine().receive(stream) == [
        AckRun(b"t", b"g", [9, 9], None),
        AckRun(b"t", b"g", [9, 9], [5, 300]),
        AckRun(b"t", b"g", [9], None),
    ]


def test_acks_and_nacks_of_a_group_are_runs_of_their_own():
    acks = [encode.ack(b"t", b"g", lease) for lease in (0, 127, 128, 2**32, 2**64 - 1, 0)]
    nack = request(nack={"topic": "t", "group": "g", "lease_id": 128})
    assert QueueServerMachine().receive(b"".join(acks) + nack * 2 + encode.ack(b"t", b"h", 1)) == [
        AckRun(b"t", b"g", [0, 127, 128, 2**32, 2**64 - 1, 0], None),
        NackRun(b"t", b"g", [128, 128], None),
        AckRun(b"t", b"h", [1], None),
    ]


def test_priorities_beyond_7_are_7_and_content_types_beyond_3_are_0():
    stream = produces([b"x"], topic="t", priority=99, content_type=9)
    stream += produces([b"y"], topic="t", priority=7)
    assert QueueServerMachine().receive(stream) == [
        ProduceRun(b"t", 7, 0, b"", [b"x", b"y"], [], None)
    ]


def test_runs_of_one_chunk_do_not_reach_into_the_next():
    """What was reported belongs to the receiver: a later chunk must not add to it."""
    machine = QueueServerMachine()
    frame = produces([b"x"], topic="t")
    first, second = machine.receive(frame), machine.receive(frame)
    assert first == second == [ProduceRun(b"t", 0, 0, b"", [b"x"], [], None)]


def test_a_run_stops_at_the_edge_of_the_chunk_and_goes_on_in_the_next():
    frame = produces([b"abc"], topic="t")
    for excess in range(len(frame)):
        machine = QueueServerMachine()
        cut = len(frame) * 3 + excess
        (run,) = machine.receive((frame * 5)[:cut])
        assert (run.payloads, machine.pending_bytes) == ([b"abc"] * 3, excess)
        (run,) = machine.receive((frame * 5)[cut:])
        assert (run.payloads, machine.pending_bytes) == ([b"abc"] * 2, 0)


def test_what_is_written_like_the_one_before_is_not_parsed(monkeypatch):
    """The fast paths are what makes the machine fast; without them every other test passes too."""
    asked = []
    parse = QueueServerMachine._parse

    def parse_and_count(machine, body, events):
        asked.append(body)
        parse(machine, body, events)

    monkeypatch.setattr(QueueServerMachine, "_parse", parse_and_count)
    produce = {"topic": "t", "priority": 1, "payload": b"x", "producer_id": "p"}
    rows = range(1, 1_000)
    kinds = [
        produces([b"x" * size for size in rows], topic="t"),
        b"".join(request(produce={**produce, "seq": at}, request_id=at) for at in rows),
        b"".join(encode.ack(b"t", b"g", at) for at in rows),
        b"".join(encode.ack(b"t", b"g", at, request_id=at) for at in rows),
        b"".join(request(nack={"topic": "t", "group": "g", "lease_id": at}) for at in rows),
    ]
    for stream in kinds:
        asked.clear()
        feed(QueueServerMachine(), cuts(stream, 4_096))
        assert len(asked) == 1


# ── Everything else ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "extra", [{"delay_ms": 1}, {"ttl_ms": 1}, {"headers": [{"name": "a", "value": b"b"}]}]
)
def test_a_produce_with_more_to_it_is_a_call(extra):
    produce = Produce(topic="t", payload=b"x", **extra)
    plain = produces([b"x"], topic="t")
    events = QueueServerMachine().receive(plain + request(produce=produce, request_id=3) + plain)
    assert events[1] == QueueRequest("produce", produce, 3)
    assert len(events) == 3


@pytest.mark.parametrize("extra", [{"delay_ms": 1}, {"reason": "later"}])
def test_a_nack_with_more_to_it_is_a_call(extra):
    nack = Nack(topic="t", group="g", lease_id=1, **extra)
    plain = request(nack={"topic": "t", "group": "g", "lease_id": 1})
    events = QueueServerMachine().receive(plain + request(nack=nack) + plain)
    assert events[1] == QueueRequest("nack", nack, 0)
    assert len(events) == 3


@pytest.mark.parametrize("kind", [field.name for field in Request.DESCRIPTOR.oneofs[0].fields])
def test_every_kind_is_known_by_its_name(kind):
    (event,) = QueueServerMachine().receive(request(**{kind: {}}, request_id=7))
    runs = {"produce": ProduceRun, "ack": AckRun, "nack": NackRun}
    assert isinstance(event, runs.get(kind, QueueRequest))
    if isinstance(event, QueueRequest):
        assert (event.kind, event.request_id) == (kind, 7)


@pytest.mark.parametrize(
    ("body", "request_id"),
    [
        pytest.param("", 0, id="nothing at all"),
        pytest.param("7805", 5, id="an id and no kind"),
        pytest.param("ea0700 7805", 5, id="a kind that nobody knows"),
        pytest.param("ff", 0, id="half a tag"),
        pytest.param("0a05 0a01", 0, id="a message longer than its frame"),
        pytest.param("0a03 0a01ff", 0, id="a topic that is not UTF-8"),
        pytest.param("1a06 0a0174 1201ff 1801", 0, id="a group that is not UTF-8"),
    ],
)
def test_what_is_no_request_is_answered_and_the_next_is_read(body, request_id):
    bad, stats = QueueServerMachine().receive(framed(bytes.fromhex(body)) + STATS)
    assert isinstance(bad, Bad)
    assert bad.request_id == request_id
    assert stats.kind == "stats"


# ── Limits and buffers ────────────────────────────────────────────────────────────────────────


def too_large(length, allowed):
    detail = f"frame of {length} bytes exceeds the limit of {allowed}"
    return Violation(DisconnectReason.PACKET_TOO_LARGE, detail)


@pytest.mark.parametrize("before", [b"", produces([b"x"], topic="t"), STATS])
def test_a_body_at_the_limit_is_taken_and_one_beyond_is_the_end(before):
    at, beyond = produces([bytes(93)], topic="t"), produces([bytes(94)], topic="t")
    assert (len(at), len(beyond)) == (104, 105)
    machine = QueueServerMachine(frame_bytes_max=100)
    *_, run, violation = machine.receive(before + at + beyond + STATS)
    assert run.payloads[-1] == bytes(93)
    assert violation == too_large(101, 100)
    assert machine.closed
    assert machine.receive(STATS) == []
    assert machine.pending_bytes == 0


def test_a_body_of_64_mib_can_be_taken_and_one_byte_more_is_refused_unseen():
    machine = QueueServerMachine(request_bytes_max=64 * MIB)
    body = request(produce={"topic": "t", "payload": bytes(64 * MIB - 13)})
    assert len(body) == 64 * MIB + 4
    (run,) = feed(machine, cuts(body, 8 * MIB))
    assert len(run[5]) == 64 * MIB - 13
    assert machine.receive((64 * MIB + 1).to_bytes(4, "big")) == [too_large(64 * MIB + 1, 64 * MIB)]


def test_what_is_held_grows_with_what_came_and_not_with_what_was_announced():
    machine = QueueServerMachine(request_bytes_max=64 * MIB)
    tracemalloc.start()
    try:
        assert machine.receive((64 * MIB).to_bytes(4, "big") + bytes(1_000)) == []
        assert machine.pending_bytes == 1_004
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024
    finally:
        tracemalloc.stop()


def test_a_large_frame_in_small_pieces_is_looked_at_a_few_times(monkeypatch):
    looked = []
    read = QueueServerMachine._read

    def read_and_count(machine, data, position, events):
        looked.append(len(data))
        return read(machine, data, position, events)

    monkeypatch.setattr(QueueServerMachine, "_read", read_and_count)
    frame = produces([bytes(100_000)], topic="t")
    machine = QueueServerMachine()
    (event,) = feed(machine, cuts(frame, 7))
    assert event[5] == bytes(100_000)
    assert len(looked) <= 3


def test_names_that_are_long_are_not_remembered():
    """A stranger chooses the names, and a fast path lasts as long as its connection."""
    machine = QueueServerMachine()
    size = fast_paths.NAMES_BYTES_MAX + 1
    frames = [
        request(produce={"topic": "t" * size, "payload": b"x"}),
        request(ack={"topic": "t" * size, "lease_id": 1}),
    ]
    for frame in frames:
        (run,) = machine.receive(frame * 3)
        assert run.topic == b"t" * size
    assert not machine._fast_paths
