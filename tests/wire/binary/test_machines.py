"""The machines beyond single frames: runs, buffers, limits, the end."""

import pytest

from penstock.model.message import Signature
from penstock.obs.reasons import DisconnectReason
from penstock.wire.binary import (
    BinaryClientMachine,
    BinaryCommand,
    BinaryServerMachine,
    client,
    encode,
)
from penstock.wire.binary.events import (
    Acked,
    BinaryAcks,
    BinaryAuth,
    BinaryPublishRun,
    Ping,
    ReceivedMessage,
    SignedPublish,
    Unknown,
)
from penstock.wire.binary.frame import FRAME_BYTES_MAX, HEADER
from penstock.wire.violation import Violation

PING = client.ping()

# ── Runs ──────────────────────────────────────────────────────────────────────────────────────


def test_consecutive_publishes_to_one_topic_are_one_run():
    stream = (
        client.publishes(b"a", [b"1", b"22", b""], 5)
        + client.publishes(b"b", [b"x" * 300] * 2, 90)
        + client.publishes(b"a", [b"again"], 1)
    )
    assert BinaryServerMachine().receive(stream) == [
        BinaryPublishRun(b"a", [b"1", b"22", b""], [5, 6, 7]),
        BinaryPublishRun(b"b", [b"x" * 300] * 2, [90, 91]),
        BinaryPublishRun(b"a", [b"again"], [1]),
    ]


def test_another_command_breaks_a_run():
    stream = client.publish(b"t", b"1", 1) + PING + client.publish(b"t", b"2", 2)
    assert BinaryServerMachine().receive(stream) == [
        BinaryPublishRun(b"t", [b"1"], [1]),
        Ping(1),
        BinaryPublishRun(b"t", [b"2"], [2]),
    ]


def test_runs_of_one_chunk_do_not_reach_into_the_next():
    """What was reported belongs to the receiver: a later chunk must not add to it."""
    machine = BinaryServerMachine()
    frame = client.publish(b"t", b"x", 1)
    first, second = machine.receive(frame), machine.receive(frame)
    assert first == second == [BinaryPublishRun(b"t", [b"x"], [1])]


def test_a_run_stops_at_the_edge_of_the_chunk_and_goes_on_in_the_next():
    frame = client.publish(b"t", b"abc", 1)
    for excess in range(len(frame)):
        machine = BinaryServerMachine()
        cut = len(frame) * 3 + excess
        assert machine.receive((frame * 5)[:cut]) == [BinaryPublishRun(b"t", [b"abc"] * 3, [1] * 3)]
        assert machine.pending_bytes == excess
        assert machine.receive((frame * 5)[cut:]) == [BinaryPublishRun(b"t", [b"abc"] * 2, [1] * 2)]
        assert machine.pending_bytes == 0


@pytest.mark.parametrize(
    ("make", "event"), [(BinaryServerMachine, BinaryAcks), (BinaryClientMachine, Acked)]
)
def test_consecutive_acknowledgements_are_one_event(make, event):
    assert make().receive(encode.acks([3, 1, 2**64 - 1])) == [event([3, 1, 2**64 - 1])]


def test_consecutive_pings_are_one_event():
    stream = PING * 3 + encode.ack(1) + PING
    assert BinaryServerMachine().receive(stream) == [Ping(3), BinaryAcks([1]), Ping(1)]


def test_every_unknown_command_is_reported_and_the_connection_goes_on():
    known = {
        BinaryCommand.SUBSCRIBE,
        BinaryCommand.UNSUBSCRIBE,
        BinaryCommand.PUBLISH,
        BinaryCommand.ACK,
        BinaryCommand.PING,
        BinaryCommand.HELLO,
        BinaryCommand.PUBLISH_2,
    }
    unknown = [code for code in range(256) if code not in known and not 0x10 <= code <= 0x14]
    machine = BinaryServerMachine()
    stream = b"".join(HEADER.pack(1, code, 1, 0, 0) for code in unknown)
    assert machine.receive(stream) == [Unknown(code, 1) for code in unknown]
    assert machine.receive(PING) == [Ping(1)]


def test_an_auth_does_not_show_its_secret():
    (event,) = BinaryServerMachine().receive(client.auth(1, b"ann", b"s3cret"))
    assert event.secret == b"s3cret"
    assert "s3cret" not in repr(event)
    assert "s3cret" not in str(event)


# ── Limits, at and one beyond ─────────────────────────────────────────────────────────────────

SIGNATURES = [Signature(1, 1, bytes(64)), Signature(2, 1, bytes(64), 5, bytes(8))]


def server_limited(frame_bytes_max=200, topic_bytes_max=10):
    return BinaryServerMachine(frame_bytes_max=frame_bytes_max, topic_bytes_max=topic_bytes_max)


def too_large(frame_bytes, frame_bytes_max):
    return Violation(
        DisconnectReason.PACKET_TOO_LARGE,
        f"frame of {frame_bytes} bytes exceeds the limit of {frame_bytes_max}",
        "Message too large — connection closed".encode(),
    )


def test_a_topic_at_the_limit_is_taken_and_one_beyond_is_the_end():
    good, bad = client.publish(b"t" * 10, b"", 1), client.publish(b"t" * 11, b"", 2)
    assert server_limited().receive(good + bad + PING) == [
        BinaryPublishRun(b"t" * 10, [b""], [1]),
        Violation(
            DisconnectReason.TOPIC_INVALID,
            "topic of 11 bytes exceeds the limit of 10",
            "Topic too long — connection closed".encode(),
        ),
    ]


def test_a_frame_at_the_limit_is_taken_and_one_beyond_is_the_end():
    good, bad = client.publish(b"t", bytes(183), 1), client.publish(b"t", bytes(184), 2)
    assert (len(good), len(bad)) == (200, 201)
    assert server_limited().receive(good + bad + PING) == [
        BinaryPublishRun(b"t", [bytes(183)], [1]),
        too_large(201, 200),
    ]


@pytest.mark.parametrize("signature", SIGNATURES, ids=["version 1", "version 2"])
def test_the_trailer_counts_towards_the_size_of_a_frame(signature):
    frame = client.signed_publish(b"t", b"xyz", 9, signature)
    at, beyond = server_limited(len(frame)), server_limited(len(frame) - 1)
    assert at.receive(frame) == [SignedPublish(9, b"t", b"xyz", signature)]
    assert beyond.receive(frame) == [too_large(len(frame), len(frame) - 1)]


@pytest.mark.parametrize(
    "command", [BinaryCommand.ACK, BinaryCommand.PING, BinaryCommand.SUBSCRIBE, 0x7F]
)
def test_limits_hold_for_every_command_also_behind_one_of_its_kind(command):
    good, bad = HEADER.pack(1, command, 1, 0, 0), HEADER.pack(1, command, 1, 0, 185)
    machine = server_limited()
    assert machine.receive(good + bad)[-1] == too_large(201, 200)
    assert machine.receive(PING) == []


@pytest.mark.parametrize("make", [BinaryServerMachine, BinaryClientMachine])
def test_by_default_a_frame_of_16_mib_is_taken_and_one_byte_more_is_refused_unseen(make):
    command = BinaryCommand.PUBLISH if make is BinaryServerMachine else BinaryCommand.MESSAGE
    machine = make()
    assert machine.receive(encode.frame(command, 1, b"t", bytes(FRAME_BYTES_MAX - 17)))
    assert machine.receive(HEADER.pack(1, command, 1, 1, FRAME_BYTES_MAX - 16)) == [
        too_large(FRAME_BYTES_MAX + 1, FRAME_BYTES_MAX)
    ]


def test_a_client_takes_the_longest_topic_that_fits_the_header():
    topic = b"t" * 65_535
    assert BinaryClientMachine().receive(encode.message(topic, b"", 1)) == [
        ReceivedMessage(topic, b"", 1, None)
    ]


# ── Buffers and the end ───────────────────────────────────────────────────────────────────────


def test_what_a_header_announces_costs_nothing_before_it_arrives():
    machine = BinaryServerMachine()
    machine.receive(HEADER.pack(1, BinaryCommand.PUBLISH, 1, 1, FRAME_BYTES_MAX - 17))
    assert machine.pending_bytes == HEADER.size
    machine.receive(b"t" + bytes(1000))
    assert machine.pending_bytes == HEADER.size + 1001


def test_a_refused_frame_is_not_kept():
    machine = server_limited()
    machine.receive(HEADER.pack(1, BinaryCommand.PUBLISH, 1, 1, 1000) + bytes(900))
    assert machine.closed
    assert machine.pending_bytes == 0


@pytest.mark.parametrize("make", [BinaryServerMachine, BinaryClientMachine])
def test_after_a_violation_nothing_is_looked_at(make):
    machine = make()
    (violation,) = machine.receive(b"\x02")
    assert violation.reason is DisconnectReason.MALFORMED_PACKET
    assert violation.error == "Unsupported protocol version — connection closed".encode()
    assert len(violation.error) <= 240
    assert machine.receive(encode.ack(1)) == []
    assert machine.pending_bytes == 0


def test_what_came_before_a_violation_is_still_reported():
    stream = client.publish(b"t", b"x", 1) + encode.acks([1, 2]) + b"*1\r\n" + PING
    seen = BinaryServerMachine().receive(stream)
    assert seen[:-1] == [BinaryPublishRun(b"t", [b"x"], [1]), BinaryAcks([1, 2])]
    assert isinstance(seen[-1], Violation)


def test_nothing_received_is_nothing_said():
    machine = BinaryServerMachine()
    assert machine.receive(b"") == []
    assert machine.receive(PING[:5]) == []
    assert machine.receive(b"") == []
    assert machine.receive(PING[5:]) == [Ping(1)]


# ── Strangers ─────────────────────────────────────────────────────────────────────────────────


def stranger():
    return BinaryServerMachine(frame_bytes_max=1_000, stranger_bytes_max=100)


LARGE = client.publish(b"t", bytes(500), 1)


def test_a_stranger_may_not_send_as_large_frames_as_others():
    assert stranger().receive(LARGE) == [too_large(len(LARGE), 100)]


def test_a_trusted_client_may_send_frames_of_the_full_size():
    machine = stranger()
    machine.trust()
    assert machine.receive(LARGE) == [BinaryPublishRun(b"t", [bytes(500)], [1])]


def test_what_is_pipelined_behind_a_login_may_be_of_the_full_size_however_it_is_cut():
    login = client.auth(1, b"ann", b"secret")
    stream = login + LARGE
    for cut in range(1, len(stream)):
        machine = stranger()
        events = machine.receive(stream[:cut]) + machine.receive(stream[cut:])
        assert events == [
            BinaryAuth(1, b"ann", b"secret"),
            BinaryPublishRun(b"t", [bytes(500)], [1]),
        ]


def test_asking_for_a_challenge_does_not_raise_the_limit():
    events = stranger().receive(client.auth(1, b"key:7") + LARGE)
    assert events == [BinaryAuth(1, b"key:7", b""), too_large(len(LARGE), 100)]


def test_a_login_above_the_limit_for_strangers_is_refused():
    login = client.auth(1, b"ann", bytes(100))
    assert stranger().receive(login) == [too_large(len(login), 100)]
