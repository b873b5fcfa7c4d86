"""Laws of the queue protocol's codec that hold for all requests, all spellings and all cuts.

The oracle is the library: it parses each body by itself, without fast paths, runs and chunks. Requests
are written here by hand, so that fields come in any order, twice, with zeros and numbers spelled
out at length, and with unknown fields; and they resemble one another, so that fast paths meet near
misses.
"""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.wire.queue import QueueClientMachine, QueueServerMachine, encode
from penstock.wire.queue._generated.queue_pb2 import Request, Response
from penstock.wire.queue.events import AckRun, NackRun, ProduceRun
from penstock.wire.queue.fields import length_at, number_in, varint
from tests.wire.queue_plain import feed, framed, parsed, plain, request

relaxed = settings(deadline=None)  # a busy machine is no failure of the codec

EDGES = (0, 1, 127, 128, 2**14 - 1, 2**14, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
numbers = st.sampled_from(EDGES) | st.integers(0, 2**64 - 1)
small = st.sampled_from((0, 1, 2, 3, 7, 8, 99))
texts = st.sampled_from((b"", b"t", b"u", b"orders/eu", "käse".encode(), b"x" * 200))
names = texts | st.just(b"\xff")
payloads = st.sampled_from((b"", b"x", b"y" * 100, b"z" * 127, b"z" * 128)) | st.binary(max_size=9)
marks = st.sampled_from((b"",) * 3 + (b"r",))

# ── Spelling ──────────────────────────────────────────────────────────────────────────────────


@st.composite
def spelled(draw, value: int) -> bytes:
    """A number, mostly in its shortest spelling."""
    short = varint(value)
    padding = draw(st.sampled_from((0,) * 15 + (1, 2, 9)))
    return (
        short[:-1] + bytes((short[-1] | 128,)) + b"\x80" * (padding - 1) + b"\0"
        if padding
        else short
    )


@st.composite
def field(draw, number: int, value: int | bytes) -> bytes:
    """A field, mostly left out if it is empty."""
    if not value and draw(st.integers(0, 9)):
        return b""
    if isinstance(value, int):
        return varint(number << 3) + draw(spelled(value))
    return varint(number << 3 | 2) + draw(spelled(len(value))) + value


KINDS = {
    1: {1: names, 2: small, 3: small, 4: payloads, 5: names, 6: numbers, 7: marks.map(len)},
    3: {1: names, 2: names, 3: numbers},
    4: {1: names, 2: names, 3: numbers, 4: marks.map(len), 5: marks},
    2: {1: names, 2: names, 3: small},
    8: {},
    99: {1: names},
}


@st.composite
def message(draw, fields: dict) -> bytes:
    """A message: its fields, mostly in order and once, at times with an unknown one."""
    parts = [draw(field(number, draw(values))) for number, values in fields.items()]
    if not draw(st.integers(0, 7)):
        parts = draw(st.permutations([*parts, *parts[:2], draw(field(77, b"?"))]))
    return b"".join(parts)


@st.composite
def bodies(draw) -> bytes:
    """A request; at times with two kinds, or one kind twice, or its id in front."""
    kinds = st.sampled_from((1, 1, 1, 3, 3, 4, 4, 2, 8, 99))
    parts = []
    for _ in range(draw(st.sampled_from((1, 1, 1, 1, 1, 2, 0)))):
        kind = draw(kinds)
        inner = draw(message(KINDS[kind]))
        parts.append(varint(kind << 3 | 2) + draw(spelled(len(inner))) + inner)
    parts.append(draw(field(15, draw(st.just(0) | numbers))))
    return b"".join(draw(st.permutations(parts)) if not draw(st.integers(0, 7)) else parts)


@st.composite
def streams(draw) -> list[bytes]:
    """Bodies, many of them several times in a row or with another ending."""
    found = []
    for body in draw(st.lists(bodies(), max_size=8)):
        found += [body] * draw(st.integers(1, 3))
        if body and draw(st.booleans()):
            found.append(body[:-1] + bytes((draw(st.integers(0, 255)),)))
    return found


@st.composite
def cut(draw, data: bytes) -> list[bytes]:
    places = sorted(draw(st.lists(st.integers(0, len(data)), max_size=6)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


# ── The machine and the library ───────────────────────────────────────────────────────────────


@relaxed
@given(st.data(), streams())
def test_the_machine_sees_what_the_library_sees_however_requests_are_spelled_and_cut(data, found):
    machine = QueueServerMachine()
    stream = b"".join(map(framed, found))
    assert feed(machine, data.draw(cut(stream))) == list(map(parsed, found))
    assert machine.pending_bytes == 0


@relaxed
@given(st.data(), texts, small, small, st.sampled_from(("", "p")))
def test_the_machine_sees_what_the_library_sees_in_long_runs(
    data, topic, priority, content_type, producer
):
    common = {
        "topic": topic.decode(),
        "priority": priority,
        "content_type": content_type,
        "producer_id": producer,
    }
    rows = data.draw(st.lists(st.tuples(payloads, numbers, st.just(0) | numbers), max_size=20))
    found = [
        request(produce={**common, "payload": payload, "seq": seq}, request_id=request_id)
        for payload, seq, request_id in rows
    ]
    stream = b"".join(found)
    expected = [parsed(frame[4:]) for frame in found]
    assert feed(QueueServerMachine(), data.draw(cut(stream))) == expected
    assert plain(QueueServerMachine().receive(stream)) == expected


@relaxed
@given(
    st.data(), st.sampled_from(("ack", "nack")), st.lists(st.tuples(numbers, st.just(0) | numbers))
)
def test_the_machine_sees_what_the_library_sees_in_runs_of_leases(data, kind, rows):
    found = [
        request(**{kind: {"topic": "t", "group": "g", "lease_id": lease}}, request_id=request_id)
        for lease, request_id in rows
    ]
    expected = [parsed(frame[4:]) for frame in found]
    assert feed(QueueServerMachine(), data.draw(cut(b"".join(found)))) == expected


PRODUCE = {"topic": "t", "priority": 1, "payload": b"xy"}
ACK = {"topic": "t", "group": "g", "lease_id": 300}
ALIKE = {
    "produce": request(produce=PRODUCE),
    "produce with an id": request(produce=PRODUCE, request_id=300),
    "produce of a producer": request(produce={**PRODUCE, "producer_id": "p", "seq": 300}),
    "produce with all": request(produce={**PRODUCE, "producer_id": "p", "seq": 9}, request_id=9),
    "ack": request(ack=ACK),
    "ack with an id": request(ack=ACK, request_id=300),
    "nack": request(nack=ACK),
}


@pytest.mark.parametrize("frame", ALIKE.values(), ids=ALIKE)
def test_no_byte_can_be_changed_without_the_machine_seeing_what_the_library_sees(frame):
    """Every byte of a body takes every value, behind frames that made the fast path expect another.

    The first is read by the library, the second by the fast_path. The one that follows makes lengths
    that reach too far find bytes there.
    """
    body = frame[4:]
    forged = [
        body[:at] + bytes((value,)) + body[at + 1 :]
        for at in range(len(body))
        for value in range(256)
    ]
    for found in forged:
        events = QueueServerMachine().receive(frame + frame + framed(found) + frame)
        assert plain(events) == [parsed(body), parsed(body), parsed(found), parsed(body)]


@pytest.mark.parametrize("frame", ALIKE.values(), ids=ALIKE)
def test_nothing_can_be_put_in_or_left_out_without_the_machine_seeing_it(frame):
    body = frame[4:]
    pieces = [b"", b"\0", b"x", b"0\x05", b"8\x05", b"x\x05", b"x\0", b"*\x01q", b"J\0"]
    forged = [
        body[:at] + piece + body[at + left_out :]
        for at in range(len(body) + 1)
        for left_out in (0, 1, 2)
        for piece in pieces
    ]
    for found in forged:
        events = QueueServerMachine().receive(frame + frame + framed(found) + frame)
        assert plain(events) == [parsed(body), parsed(body), parsed(found), parsed(body)]


def key(event) -> tuple | None:
    """What requests of a run have in common."""
    match event:
        case ProduceRun(topic, priority, content_type, producer, _, _, ids):
            return ProduceRun, topic, priority, content_type, producer, ids is None
        case AckRun(topic, group, _, ids) | NackRun(topic, group, _, ids):
            return type(event), topic, group, ids is None


@relaxed
@given(streams())
def test_runs_are_as_long_as_they_can_be(found):
    keys = [key(event) for event in QueueServerMachine().receive(b"".join(map(framed, found)))]
    assert all(a is None or a != b for a, b in pairwise(keys))


# ── Numbers ───────────────────────────────────────────────────────────────────────────────────


@relaxed
@given(numbers)
def test_a_number_is_written_as_the_library_does(value):
    assert varint(value) == Request(request_id=value).SerializeToString()[1:] or not value


@relaxed
@given(numbers | st.integers(0, 2**63 - 1), st.binary(max_size=3))
def test_a_number_is_read_if_it_fills_its_place_and_is_short_enough(value, behind):
    assert number_in(varint(value)) == (value if value < 2**63 else -1)
    if value < 2**28 and behind:
        assert length_at(varint(value) + behind, 0) == (value, len(varint(value)))


@relaxed
@given(st.binary(max_size=12) | st.lists(st.sampled_from((0, 1, 128, 255))).map(bytes))
def test_only_the_shortest_spelling_of_a_number_is_read(piece):
    value = number_in(piece)
    assert value == -1 or varint(value) == piece
    length, end = length_at(piece, 0)
    assert length == -1 or varint(length) == piece[:end]


# ── Any bytes ─────────────────────────────────────────────────────────────────────────────────


@relaxed
@given(st.lists(st.binary(max_size=40), max_size=12))
def test_any_bytes_in_frames_are_as_many_answers_as_frames(found):
    assert feed(QueueServerMachine(), [b"".join(map(framed, found))]) == list(map(parsed, found))


@relaxed
@given(st.lists(st.binary(max_size=200), max_size=6))
def test_no_bytes_make_a_machine_raise(pieces):
    for machine in (QueueServerMachine(1_000), QueueClientMachine(1_000)):
        for piece in pieces:
            machine.receive(piece)
            assert machine.pending_bytes <= 1_004


def corpus() -> list[bytes]:
    produce = {"topic": "orders/eu", "payload": b"x" * 90}
    produces = [
        request(produce={**produce, "producer_id": "p", "seq": seq}, request_id=seq % 2 * seq)
        for seq in range(120, 136)
    ]
    acks = [request(ack={"topic": "t", "group": "g", "lease_id": at}) for at in range(120, 136)]
    return [request(produce=produce)] * 9 + produces + acks + [request(stats={})]


def test_damaged_bodies_are_answered_one_by_one_and_do_not_move_the_others():
    """Bytes within bodies are changed; the lengths, which are no part of them, hold the stream."""
    chance = random.Random(20_240_229)
    for _ in range(200):
        found = [bytearray(frame[4:]) for frame in corpus()]
        for body in chance.sample(found, 9):
            body[chance.randrange(len(body))] = chance.randrange(256)
        frames = [framed(bytes(body)) for body in found]
        assert plain(QueueServerMachine().receive(b"".join(frames))) == [
            parsed(bytes(body)) for body in found
        ]


def test_damaged_streams_do_not_make_a_machine_raise_however_they_are_cut():
    chance = random.Random(20_240_301)
    whole = b"".join(corpus())
    for _ in range(200):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 9)):
            at = chance.randrange(len(damaged))
            damaged[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        stream, size = bytes(damaged), chance.randrange(1, 400)
        pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert feed(QueueServerMachine(4_000), pieces) == plain(
            QueueServerMachine(4_000).receive(stream)
        )


# ── Responses ─────────────────────────────────────────────────────────────────────────────────

headers = st.lists(
    st.tuples(st.sampled_from((b"", b"trace", "ü".encode())), st.binary(max_size=5)), max_size=2
).map(tuple)
u32 = st.sampled_from((0, 1, 7, 128, 2**32 - 1))
items = st.tuples(numbers, numbers, u32, u32, payloads, numbers, u32, headers)
NAMES = ("lease_id", "offset", "priority", "content_type", "payload", "ts_ms", "redeliveries")


def delivered(item) -> dict:
    told = [{"name": name.decode(), "value": value} for name, value in item[7]]
    return {**dict(zip(NAMES, item, strict=False)), "headers": told}


@relaxed
@given(st.lists(items, max_size=5), st.just(0) | numbers)
def test_messages_handed_out_are_written_as_the_library_does(found, request_id):
    told = [delivered(item) for item in found]
    expected = Response(polled={"items": told}, request_id=request_id)
    assert encode.polled(found, request_id) == framed(expected.SerializeToString())
    assert encode.pushed(found) == b"".join(
        framed(Response(polled={"items": [item]}).SerializeToString()) for item in told
    )


@relaxed
@given(numbers.map(lambda value: min(value, 2**64 - 301)), st.integers(1, 300), st.data())
def test_offsets_in_a_row_are_written_as_the_library_does(first, count, data):
    ids = data.draw(st.none() | st.lists(numbers, min_size=count, max_size=count))
    expected = [
        framed(
            Response(
                produced={"offset": first + at}, request_id=ids[at] if ids else 0
            ).SerializeToString()
        )
        for at in range(count)
    ]
    assert encode.produced_run(first, count, ids) == b"".join(expected)
    assert encode.produced(first, ids[0] if ids else 0) == expected[0]


@relaxed
@given(st.data(), st.integers(0, 300))
def test_a_client_hears_every_response_however_it_is_cut(data, count):
    said = [Response(produced={"offset": at}) for at in range(count)]
    said += [Response(error={"code": "internal", "message": "ü"}), Response(), Response(ok={})]
    machine = QueueClientMachine()
    stream = b"".join(map(encode.response, said))
    heard = [item for piece in data.draw(cut(stream)) for item in machine.receive(piece)]
    assert heard == said
    assert machine.pending_bytes == 0


@relaxed
@given(texts, payloads, st.tuples(small, small), numbers, numbers)
def test_what_a_client_asks_is_written_as_the_library_does(name, payload, pair, seq, request_id):
    text = name.decode()
    told = {"priority": pair[0], "content_type": pair[1], "seq": seq}
    fields = {"topic": text, "payload": payload, "producer_id": text, **told}
    by_hand = encode.produce(name, payload, producer=name, request_id=request_id, **told)
    assert by_hand == request(produce=fields, request_id=request_id)
    by_hand = encode.ack(name, b"g", seq, request_id=request_id)
    ack = {"topic": text, "group": "g", "lease_id": seq}
    assert by_hand == request(ack=ack, request_id=request_id)
