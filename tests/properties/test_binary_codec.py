"""Laws of the binary protocol's codec that hold for all frames, all cuts and all bytes.

The oracle for the machine with its fast paths is ``naive``: a decoder of client frames written as
plainly as possible, one frame at a time, sharing no code with the product.
"""

from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.history_start import HistoryStart
from penstock.model.message import Signature
from penstock.wire.binary import BinaryClientMachine, BinaryServerMachine, client, encode
from penstock.wire.binary.errors import ErrorCode
from penstock.wire.binary.events import BinaryPublishRun
from penstock.wire.binary.fields import (
    SMALLEST_FRAME_BYTES,
    HelloFields,
    SubscribeFields,
    WelcomeFields,
)
from penstock.wire.binary.frame import PUBLISH_FLAGS
from tests.wire.binary.vectors import feed, numbers, plain, proof, text

FRAME_BYTES_MAX, TOPIC_BYTES_MAX = 400, 40


def server():
    """Limits that a fuzz can reach."""
    return BinaryServerMachine(FRAME_BYTES_MAX, TOPIC_BYTES_MAX)


# ── Frames, each with the plain event it must become ──────────────────────────────────────────

sequences = st.integers(0, 2**64 - 1)
topics = st.sampled_from((b"a", b"b", b"aa", b"", b"plant/line/4")) | st.binary(max_size=30)
names = topics.filter(lambda topic: b"\0" not in topic)
payloads = st.sampled_from((b"", b"xy", bytes(200))) | st.binary(max_size=20)
key_ids = st.integers(0, 2**32 - 1)
proofs = st.binary(min_size=64, max_size=64)
signatures = st.builds(Signature, st.just(1), key_ids, proofs) | st.builds(
    Signature, st.just(2), key_ids, proofs, sequences, st.binary(min_size=8, max_size=8)
)


@st.composite
def publishes(draw):
    sequence, topic, payload = draw(sequences), draw(topics), draw(payloads)
    expected = ["publish", sequence, text(topic), text(payload)]
    return client.publish(topic, payload, sequence), expected


@st.composite
def signed_publishes(draw):
    sequence, topic, payload, signature = (
        draw(part) for part in (sequences, topics, payloads, signatures)
    )
    expected = ["signed publish", sequence, text(topic), text(payload), proof(signature)]
    return client.signed_publish(topic, payload, sequence, signature), expected


@st.composite
def subscriptions(draw):
    sequence, topic, client_id = draw(sequences), draw(topics), draw(st.just(b"") | names)
    client_id, accepts = client_id[:9], draw(st.booleans())
    expected = ["subscribe", sequence, text(client_id or None), text(topic), accepts]
    return client.subscribe(sequence, topic, client_id, accepts), expected


@st.composite
def unsubscriptions(draw):
    sequence, topic = draw(sequences), draw(topics)
    return client.unsubscribe(sequence, topic), ["unsubscribe", sequence, text(topic)]


@st.composite
def logins(draw):
    sequence, user, secret = draw(sequences), draw(topics), draw(payloads)
    return client.auth(sequence, user, secret), ["auth", sequence, text(user), text(secret)]


numbers_32 = st.integers(0, 2**32 - 1)
hello_fields = st.builds(
    HelloFields,
    features=numbers_32,
    frame_bytes_max=st.just(0) | st.integers(SMALLEST_FRAME_BYTES, 2**32 - 1),
    keep_alive_s=st.integers(0, 2**16 - 1),
    epoch=st.just(b"") | st.binary(min_size=8, max_size=8),
)
starts = st.one_of(
    st.just({}),
    st.just({"is_from_now": True}),
    st.just({"start": HistoryStart()}),
    st.integers(1, 2**32 - 1).map(lambda last: {"start": HistoryStart(last=last)}),
    st.integers(1, 2**64 - 1).map(lambda since: {"start": HistoryStart(since_ms=since)}),
)


@st.composite
def hellos(draw):
    sequence, client_id, fields = draw(sequences), draw(topics), draw(hello_fields)
    expected = ["hello", sequence, text(client_id), *numbers(fields)]
    return client.hello(sequence, client_id, fields), expected


@st.composite
def flagged_publishes(draw):
    sequence, topic, payload = draw(sequences), draw(topics), draw(payloads)
    flags = draw(st.integers(0, PUBLISH_FLAGS))
    expected = ["publish", sequence, text(topic), text(payload), *([flags] if flags else [])]
    return client.publish_2(topic, payload, sequence, flags), expected


@st.composite
def subscriptions_with_fields(draw):
    prefetch, retained_first = draw(st.integers(0, 2**16 - 1)), draw(st.booleans())
    fields = SubscribeFields(**draw(starts), prefetch=prefetch, retained_first=retained_first)
    sequence, topic = draw(sequences), draw(topics.filter(lambda topic: b"\0" not in topic))
    frame = client.subscribe(sequence, topic, fields=fields)
    more = [] if fields == SubscribeFields() else [msgspec.to_builtins(fields)]
    return frame, ["subscribe", sequence, None, text(topic), True, *more]


pings = st.just((client.ping(), ["ping"]))
client_frames = (
    publishes()
    | signed_publishes()
    | subscriptions()
    | unsubscriptions()
    | logins()
    | hellos()
    | flagged_publishes()
    | subscriptions_with_fields()
    | sequences.map(lambda sequence: (encode.ack(sequence), ["ack", sequence]))
    | pings
)


@st.composite
def messages(draw):
    sequence, topic, payload = draw(sequences), draw(topics), draw(payloads)
    expected = ["received", sequence, text(topic), text(payload), None]
    return encode.message(topic, payload, sequence), expected


@st.composite
def signed_messages(draw):
    sequence, topic, payload, signature = (
        draw(part) for part in (sequences, topics, payloads, signatures)
    )
    expected = ["received", sequence, text(topic), text(payload), proof(signature)]
    return encode.signed_message(topic, payload, sequence, signature), expected


short_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
welcome_fields = st.builds(
    WelcomeFields, numbers_32, numbers_32, st.integers(0, 2**16 - 1), st.integers(0, 2**64 - 1)
)
codes = st.sampled_from([code.word for code in ErrorCode])
broker_frames = (
    messages()
    | signed_messages()
    | sequences.map(lambda sequence: (encode.ack(sequence), ["acked", sequence]))
    | short_texts.map(lambda message: (encode.error(message), ["failed", message]))
    | st.just((encode.pongs(1), ["pong"]))
    | st.tuples(codes, sequences, short_texts).map(
        lambda error: (
            encode.coded_error(*error),
            ["failed", error[2], error[0], error[1]],
        )
    )
    | st.tuples(sequences, welcome_fields).map(
        lambda found: (encode.welcome(*found), ["welcome", found[0], *numbers(found[1])])
    )
    | st.tuples(topics, sequences, numbers_32).map(
        lambda found: (
            encode.withheld(*found, 4096),
            ["withheld", found[1], text(found[0]), found[2]],
        )
    )
    | payloads.map(lambda nonce: (encode.challenge(9, nonce), ["challenge", 9, nonce.hex()]))
)


@st.composite
def cut(draw, data: bytes) -> list[bytes]:
    places = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def joined(frames):
    return b"".join(frame for frame, _ in frames)


# ── Round trips ───────────────────────────────────────────────────────────────────────────────


@given(st.data(), st.lists(client_frames, max_size=12))
def test_what_a_client_says_a_server_hears_however_it_is_cut(data, frames):
    machine = server()
    assert feed(machine, data.draw(cut(joined(frames)))) == [expected for _, expected in frames]
    assert machine.pending_bytes == 0


@given(st.data(), st.lists(broker_frames, max_size=12))
def test_what_a_server_says_a_client_hears_however_it_is_cut(data, frames):
    machine = BinaryClientMachine(FRAME_BYTES_MAX)
    assert feed(machine, data.draw(cut(joined(frames)))) == [expected for _, expected in frames]
    assert machine.pending_bytes == 0


@given(st.lists(publishes(), max_size=30))
def test_runs_are_as_long_as_they_can_be(frames):
    runs = server().receive(joined(frames))
    assert all(isinstance(run, BinaryPublishRun) for run in runs)
    assert all(a.topic != b.topic for a, b in pairwise(runs))


@given(topics, st.lists(st.tuples(payloads, sequences), max_size=9))
def test_joined_messages_are_heard_one_by_one(topic, pairs):
    stream = encode.messages(topic, [p for p, _ in pairs], [s for _, s in pairs])
    assert plain(BinaryClientMachine().receive(stream)) == [
        ["received", sequence, text(topic), text(payload), None] for payload, sequence in pairs
    ]


@given(st.text(max_size=300) | st.binary(max_size=300))
def test_an_error_is_utf_8_and_short_whatever_it_says(message):
    frame = encode.error(message)
    assert len(frame) <= 256
    frame[16:].decode()


# ── Strangers ─────────────────────────────────────────────────────────────────────────────────


def number(data):
    return int.from_bytes(data, "big")


def naive(stream):
    """Return what a server must report of a stream, and how many bytes it must keep."""
    seen = []
    topic_bytes_max = TOPIC_BYTES_MAX
    while stream:
        if stream[0] != 1:
            return [*seen, ["violation", "malformed_packet"]], 0
        if len(stream) < 16:
            return seen, len(stream)
        command, sequence = stream[1], number(stream[2:10])
        topic_end = 16 + number(stream[10:12])
        payload_end = topic_end + number(stream[12:16])
        end = payload_end + {0x10: 68, 0x11: 68, 0x12: 84, 0x13: 84}.get(command, 0)
        if topic_end - 16 > topic_bytes_max:
            return [*seen, ["violation", "topic_invalid"]], 0
        if end > FRAME_BYTES_MAX:
            return [*seen, ["violation", "packet_too_large"]], 0
        if end > len(stream):
            return seen, len(stream)
        fields = stream[16:topic_end], stream[topic_end:payload_end], stream[payload_end:end]
        seen += naive_event(command, sequence, *fields)
        if seen and seen[-1][0] == "hello":
            topic_bytes_max = 1024
        stream = stream[end:]
    return seen, 0


def naive_event(command, sequence, topic, payload, trailer):
    if command in {0x11, 0x13}:
        return []
    left, nul, right = topic.partition(b"\0")
    after_nul = right if nul else topic
    signed_ms, nonce = (number(trailer[68:76]), trailer[76:].hex()) if command == 0x12 else (0, "")
    signature = [2 if nonce else 1, number(trailer[64:68]), trailer[:64].hex(), signed_ms, nonce]
    client_id = left if nul and left else None
    if command == 1:
        return [naive_subscribe(sequence, client_id, after_nul, payload)]
    if command == 0x20:
        return [naive_hello(sequence, topic, payload)]
    if command == 0x22:
        flags = payload[0] if payload else 4
        if flags > 3:
            return [["malformed", sequence, "PUBLISH_2", "flags that are not known"]]
        more = [flags] if flags else []
        return [["publish", sequence, text(topic), text(payload[1:]), *more]]
    event = {
        2: ["unsubscribe", sequence, text(after_nul)],
        3: ["publish", sequence, text(topic), text(payload)],
        5: ["ack", sequence],
        6: ["ping"],
        0x10: ["signed publish", sequence, text(topic), text(payload), signature],
        0x12: ["signed publish", sequence, text(topic), text(payload), signature],
        0x14: ["auth", sequence, text(topic), text(payload)],
    }
    return [event.get(command, ["unknown", command])]


def naive_fields(payload, sizes):
    """The fields; or what is wrong with them."""
    found = {}
    while payload:
        size = number(payload[1:3])
        if len(payload) < 3 + size or len(payload) < 3:
            return "a field that ends beyond the payload"
        kind, value, payload = payload[0], payload[3 : 3 + size], payload[3 + size :]
        if size != sizes.get(kind, size):
            return f"field {kind} has {size} bytes, not {sizes[kind]}"
        found[kind] = value
    return found


def naive_hello(sequence, client_id, payload):
    found = naive_fields(payload, {1: 4, 2: 4, 3: 2, 4: 8})
    if isinstance(found, dict) and 2 in found and number(found[2]) < 256:
        found = "a largest frame of less than 256 bytes"
    if isinstance(found, str):
        return ["malformed", sequence, "HELLO", found]
    values = [number(found.get(kind, b"")) for kind in (1, 2, 3)]
    return ["hello", sequence, text(client_id), *values, found.get(4, b"").hex()]


def naive_subscribe(sequence, client_id, topic, payload):
    seen = ["subscribe", sequence, text(client_id), text(topic), payload[:1] == b"\x02"]
    if not seen[-1]:
        return seen
    found = naive_fields(payload[1:], {2: 2, 3: 0})
    if isinstance(found, dict) and 2 in found and not number(found[2]):
        found = "a prefetch of 0"
    if isinstance(found, dict) and 1 in found:
        kinds = {b"\0": 1, b"\1": 1, b"\2": 5, b"\3": 9}
        if len(found[1]) != kinds.get(found[1][:1]):
            found = "a start of an unknown kind, or of another length"
    if isinstance(found, str):
        return ["malformed", sequence, "SUBSCRIBE", found]
    kind, value = found.get(1, b"")[:1], number(found.get(1, b"")[1:])
    start, is_from_now = None, kind == b"\1" or (kind == b"\2" and not value)
    if kind and not is_from_now:
        last, since = value if kind == b"\2" else 0, max(value, 1) if kind == b"\3" else 0
        start = (last, since, 0)
    fields = {
        "start": start,
        "is_from_now": is_from_now,
        "prefetch": number(found.get(2, b"")),
        "retained_first": 3 in found,
    }
    asks = any(value for value in fields.values())
    return [*seen, fields] if asks else seen


@st.composite
def damaged(draw, frames) -> bytes:
    """Bytes of a stream overwritten, put in and left out; headers more often than bodies."""
    parts = [bytearray(frame) for frame, _ in frames]
    for _ in range(draw(st.integers(1, 3))):
        part = draw(st.sampled_from(parts))
        place = draw(st.integers(0, min(15, len(part))) | st.integers(0, len(part)))
        with_what = draw(st.binary(max_size=2) | st.sampled_from((b"\0", b"\1", b"\3", b"\5")))
        part[place : place + draw(st.integers(0, 2))] = with_what
    return b"".join(parts)


@st.composite
def noise(draw) -> bytes:
    """Headers made of small numbers, so that many of them are lawful, and bytes of any kind."""
    header = st.builds(
        lambda command, topic_len, payload_len: (
            bytes((1, command)) + bytes(8) + topic_len.to_bytes(2) + payload_len.to_bytes(4)
        ),
        st.integers(0, 0x23) | st.integers(0, 255),
        st.integers(0, TOPIC_BYTES_MAX + 1),
        st.integers(0, 20) | st.integers(FRAME_BYTES_MAX - 100, FRAME_BYTES_MAX),
    )
    return b"".join(draw(st.lists(header | st.binary(max_size=60), max_size=12)))


def assert_as_the_oracle(pieces):
    """No exception, the oracle's events, and never more than one incomplete frame in memory."""
    machine, seen = server(), []
    for piece in pieces:
        seen += plain(machine.receive(piece))
        assert machine.pending_bytes < FRAME_BYTES_MAX
    expected, pending = naive(b"".join(pieces))
    assert seen == expected
    assert machine.pending_bytes == pending
    assert machine.closed == (bool(seen) and seen[-1][0] == "violation")
    assert not (machine.closed and machine.receive(client.ping()))


@given(st.data(), st.lists(client_frames, min_size=1, max_size=8))
def test_a_damaged_stream_is_read_as_the_oracle_reads_it(data, frames):
    assert_as_the_oracle(data.draw(cut(data.draw(damaged(frames)))))


@given(st.data(), st.binary(max_size=80) | noise())
def test_arbitrary_bytes_are_read_as_the_oracle_reads_them(data, stream):
    assert_as_the_oracle(data.draw(cut(stream)))


@given(st.data(), st.lists(broker_frames, min_size=1, max_size=8))
def test_a_client_is_not_upset_by_a_damaged_stream_and_cuts_do_not_matter(data, frames):
    stream = data.draw(damaged(frames))
    cut_machine, whole_machine = (
        BinaryClientMachine(FRAME_BYTES_MAX),
        BinaryClientMachine(FRAME_BYTES_MAX),
    )
    seen = feed(cut_machine, data.draw(cut(stream)))
    assert seen == plain(whole_machine.receive(stream))
    assert cut_machine.pending_bytes == whole_machine.pending_bytes < FRAME_BYTES_MAX
    assert cut_machine.closed == any(item[0] == "violation" for item in seen)
    assert all(item[0] != "violation" for item in seen[:-1])
