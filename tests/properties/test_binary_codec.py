"""Laws of the binary protocol's codec that hold for all frames, all cuts and all bytes.

The oracle for the machine with its fast paths is ``naive``: a decoder of client frames written as
plainly as possible, one frame at a time, sharing no code with the product.
"""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.model.message import Signature
from penstock.wire.binary import BinaryClientMachine, BinaryServerMachine, client, encode
from penstock.wire.binary.events import BinaryPublishRun
from tests.wire.binary.vectors import feed, plain, proof, text

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


pings = st.just((client.ping(), ["ping"]))
client_frames = (
    publishes()
    | signed_publishes()
    | subscriptions()
    | unsubscriptions()
    | logins()
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
broker_frames = (
    messages()
    | signed_messages()
    | sequences.map(lambda sequence: (encode.ack(sequence), ["acked", sequence]))
    | short_texts.map(lambda message: (encode.error(message), ["failed", message]))
    | st.just((encode.pongs(1), ["pong"]))
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
    while stream:
        if stream[0] != 1:
            return [*seen, ["violation", "malformed_packet"]], 0
        if len(stream) < 16:
            return seen, len(stream)
        command, sequence = stream[1], number(stream[2:10])
        topic_end = 16 + number(stream[10:12])
        payload_end = topic_end + number(stream[12:16])
        end = payload_end + {0x10: 68, 0x11: 68, 0x12: 84, 0x13: 84}.get(command, 0)
        if topic_end - 16 > TOPIC_BYTES_MAX:
            return [*seen, ["violation", "topic_invalid"]], 0
        if end > FRAME_BYTES_MAX:
            return [*seen, ["violation", "packet_too_large"]], 0
        if end > len(stream):
            return seen, len(stream)
        fields = stream[16:topic_end], stream[topic_end:payload_end], stream[payload_end:end]
        seen += naive_event(command, sequence, *fields)
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
    event = {
        1: ["subscribe", sequence, text(client_id), text(after_nul), payload[:1] == b"\x02"],
        2: ["unsubscribe", sequence, text(after_nul)],
        3: ["publish", sequence, text(topic), text(payload)],
        5: ["ack", sequence],
        6: ["ping"],
        0x10: ["signed publish", sequence, text(topic), text(payload), signature],
        0x12: ["signed publish", sequence, text(topic), text(payload), signature],
        0x14: ["auth", sequence, text(topic), text(payload)],
    }
    return [event.get(command, ["unknown", command])]


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
        st.integers(0, 0x15) | st.integers(0, 255),
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
