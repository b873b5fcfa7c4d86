"""The machines beyond single packets: runs, buffers, limits, the end."""

import pytest

from penstock.limits import CONNECT_BYTES_MAX, PACKET_BYTES_MAX
from penstock.obs.reasons import DisconnectReason
from penstock.wire.mqtt import MqttClientMachine, MqttServerMachine, PacketType, encode
from penstock.wire.mqtt.client import CLIENT_TRANSITIONS, CLIENT_TRANSITIONS_5
from penstock.wire.mqtt.events import Connect, MqttAcks, MqttPublishRun, PingReq, Publish, Will
from penstock.wire.mqtt.machine import State
from penstock.wire.mqtt.server import SERVER_TRANSITIONS, SERVER_TRANSITIONS_5
from penstock.wire.violation import Violation
from tests.wire.pair import Pair, byte_by_byte, whole
from tests.wire.vectors import CONNACK, client_in, server_in

# ── Runs ──────────────────────────────────────────────────────────────────────────────────────


def run_of(topic: bytes, payloads: list[bytes]) -> MqttPublishRun:
    frames = b"".join(encode.publish(topic, payload) for payload in payloads)
    return MqttPublishRun(topic, payloads, frames, 0, len(frames))


def test_consecutive_messages_to_one_topic_are_one_run_with_their_raw_frames():
    runs = [
        run_of(b"a", [b"1", b"2", b"3", b"4"]),  # equal headers
        run_of(b"b", [b"1", b"22", b"", b"333", b"444", b"555", b"6"]),  # and others
        run_of(b"a", [b"x" * 200] * 3),
        run_of(b"c", [b""] * 4 + [b"last"]),
    ]
    stream = b"".join(run.frames for run in runs)
    assert server_in("connected").receive(stream) == runs


def test_a_retained_message_breaks_a_run():
    packets = [encode.publish(b"t", b"1"), encode.publish(b"t", b"2", retain=True)]
    assert server_in("connected").receive(b"".join(packets)) == [
        run_of(b"t", [b"1"]),
        Publish(b"t", b"2", 0, retain=True, dup=False, packet_id=0),
    ]


def test_a_run_stops_at_the_edge_of_the_chunk_and_goes_on_in_the_next():
    frame = encode.publish(b"t", b"abc")
    stream = frame * 10
    for excess in range(len(frame)):
        machine = server_in("connected")
        cut = len(frame) * 7 + excess
        assert machine.receive(stream[:cut]) == [run_of(b"t", [b"abc"] * 7)]
        assert machine.pending_bytes == excess
        assert machine.receive(stream[cut:]) == [run_of(b"t", [b"abc"] * 3)]
        assert machine.pending_bytes == 0


def test_a_message_too_long_for_the_lane_is_a_run_of_one():
    payload = bytes(20_000)
    assert server_in("connected").receive(encode.publish(b"t", payload)) == [
        run_of(b"t", [payload])
    ]


def test_consecutive_acknowledgements_of_one_kind_are_one_event():
    stream = encode.acks(4, [1, 2, 3]) + encode.acks(6, [4]) + encode.acks(4, [5])
    assert server_in("connected").receive(stream) == [
        MqttAcks(4, [1, 2, 3]),
        MqttAcks(6, [4]),
        MqttAcks(4, [5]),
    ]


def test_a_client_gets_every_message_by_itself():
    stream = encode.publish(b"t", b"x") * 2
    message = Publish(b"t", b"x", 0, retain=False, dup=False, packet_id=0)
    assert client_in("connected").receive(stream) == [message, message]


# ── Limits ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("limit", [100, 1_000, 20_000])
def test_a_packet_at_the_limit_passes_and_one_above_does_not(limit, qos):
    overhead = len(encode.publish(b"t", bytes(limit), qos, packet_id=qos)) - limit
    fits = encode.publish(b"t", bytes(limit - overhead), qos, packet_id=qos)
    excess = encode.publish(b"t", bytes(limit - overhead + 1), qos, packet_id=qos)
    machine = MqttServerMachine(packet_bytes_max=limit)
    machine.receive(encode.connect(b"a"))
    (accepted,) = machine.receive(fits)
    assert isinstance(accepted, Publish | MqttPublishRun)
    (refused,) = machine.receive(excess)
    assert isinstance(refused, Violation)
    assert refused.reason is DisconnectReason.PACKET_TOO_LARGE


def test_an_announced_size_is_refused_before_the_body_and_nothing_is_kept():
    machine = server_in("connected")
    assert machine.receive(b"\x30") == []
    (violation,) = machine.receive(b"\xff\xff\xff\x7f")
    assert violation.reason is DisconnectReason.PACKET_TOO_LARGE
    assert machine.pending_bytes == 0


def test_the_limit_is_tighter_before_connect():
    large = encode.publish(b"t", bytes(CONNECT_BYTES_MAX + 1))
    assert len(large) < PACKET_BYTES_MAX
    will = Will(b"w", bytes(CONNECT_BYTES_MAX), 0, retain=False)
    (violation,) = MqttServerMachine().receive(encode.connect(b"a", will=will)[:5])
    assert violation.reason is DisconnectReason.PACKET_TOO_LARGE
    assert isinstance(server_in("connected").receive(large)[0], MqttPublishRun)


def test_the_limits_can_be_chosen():
    connect = encode.connect(b"a" * 50)
    assert isinstance(MqttServerMachine(connect_bytes_max=40).receive(connect)[0], Violation)
    assert isinstance(MqttServerMachine(connect_bytes_max=64).receive(connect)[0], Connect)
    machine = MqttClientMachine(packet_bytes_max=10)
    (_, violation) = machine.receive(CONNACK + encode.publish(b"t", bytes(10)))
    assert violation.reason is DisconnectReason.PACKET_TOO_LARGE


def test_the_buffer_grows_with_what_came_and_not_with_what_was_announced():
    machine = server_in("connected")
    machine.receive(b"\x30\x80\x80\x0f")
    assert machine.pending_bytes == 4
    machine.receive(bytes(1_000))
    assert machine.pending_bytes == 1_004


class CountsScans(MqttServerMachine):
    """Counts how often received bytes were looked at."""

    scans = 0

    def _scan(self, data, following, seen):
        self.scans += 1
        return super()._scan(data, following, seen)


def test_a_large_packet_in_small_pieces_is_scanned_a_few_times_and_gathered_in_place():
    """Looking at, or copying, all of it for every piece would take quadratic time."""
    packet = encode.publish(b"t", bytes(PACKET_BYTES_MAX - 7))
    machine = CountsScans()
    machine.receive(encode.connect(b"a"))
    machine.scans = 0
    assert machine.receive(packet[:1]) == machine.receive(packet[1:5]) == []
    buffer = machine._tail
    for at in range(5, len(packet) - 1, 7):
        assert machine.receive(packet[at : min(at + 7, len(packet) - 1)]) == []
        assert machine._tail is buffer
    assert machine.receive(packet[-1:]) == [run_of(b"t", [bytes(PACKET_BYTES_MAX - 7)])]
    assert machine.scans == 3  # the first byte, the whole header, the whole packet


def test_a_length_in_more_bytes_than_it_needs_is_not_passed_on():
    """Lawful in 3.1.1, but a subscriber may be stricter: it gets the frame in its shortest form."""
    machine = server_in("connected")
    (run,) = machine.receive(b"\x30\x85\x00\x00\x01t..")
    assert run == run_of(b"t", [b".."])
    assert run.frames == encode.publish(b"t", b"..")


def test_an_idle_machine_holds_no_buffer():
    machine = server_in("connected")
    machine.receive(encode.PINGREQ[:1])
    machine.receive(encode.PINGREQ[1:])
    assert machine.pending_bytes == 0
    assert machine._tail is None
    assert not hasattr(machine, "__dict__")


# ── The end ───────────────────────────────────────────────────────────────────────────────────


def test_a_closed_machine_is_deaf():
    machine = server_in("connected")
    assert machine.receive(encode.PINGREQ + encode.DISCONNECT + encode.PINGREQ)[0] == PingReq()
    assert machine.closed
    assert machine.receive(encode.PINGREQ) == []
    assert machine.pending_bytes == 0


def test_an_empty_chunk_changes_nothing():
    machine = server_in("connected")
    assert machine.receive(b"") == []
    machine.receive(b"\xc0")
    assert machine.receive(b"") == []
    assert machine.receive(b"\x00") == [PingReq()]


@pytest.mark.parametrize("make", [server_in, client_in])
@pytest.mark.parametrize("state", ["opening", "connected"])
def test_a_packet_type_outside_the_table_is_a_violation_at_its_first_byte(make, state):
    """Before and after the handshake, all sixteen types, both ends."""
    for packet_type in range(16):
        machine = make(state)
        allowed = machine.transitions[machine.state]
        flags = 2 if packet_type in {6, 8, 10} else 0
        seen = machine.receive(bytes((packet_type << 4 | flags,)))
        if packet_type in allowed:
            assert seen == []
        else:
            assert seen[0].reason is DisconnectReason.PROTOCOL_VIOLATION
            assert machine.closed


def test_the_detail_of_a_violation_is_one_short_line():
    for first in range(256):
        for event in server_in("connected").receive(bytes((first, 0x81, 0x80, 0x80, 0x80, 0x01))):
            assert len(event.detail) < 100
            assert event.detail.isprintable()


def test_the_tables_know_only_real_packet_types():
    for transitions in (
        SERVER_TRANSITIONS,
        SERVER_TRANSITIONS_5,
        CLIENT_TRANSITIONS,
        CLIENT_TRANSITIONS_5,
    ):
        assert {State.OPENING, State.CONNECTED, State.CLOSED} <= set(transitions) <= set(State)
        for row in transitions.values():
            assert set(row) <= set(PacketType)
        assert not transitions[State.CLOSED]


# ── Both ends ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("cut", [whole, byte_by_byte])
def test_a_conversation_from_connect_to_disconnect(cut):
    pair = Pair(cut)
    pair.connect()
    assert pair.client_sends(encode.subscribe(1, [(b"a/#", 2)])) == [["subscribe", 1, [["a/#", 2]]]]
    assert pair.server_sends(encode.suback(1, [2])) == [["suback", 1, [2]]]
    sent = encode.publish(b"a/b", b"hi", 2, packet_id=7)
    assert pair.client_sends(sent) == [["publish", "a/b", "hi", 2, False, False, 7]]
    assert pair.server_sends(encode.acks(5, [7])) == [["ack", 5, 7]]
    assert pair.client_sends(encode.acks(6, [7])) == [["ack", 6, 7]]
    assert pair.server_sends(encode.acks(7, [7])) == [["ack", 7, 7]]
    assert pair.server_sends(sent) == [["publish", "a/b", "hi", 2, False, False, 7]]
    assert pair.client_sends(encode.PINGREQ) == [["pingreq"]]
    assert pair.server_sends(encode.PINGRESP) == [["pingresp"]]
    assert pair.client_sends(encode.unsubscribe(2, [b"a/#"])) == [["unsubscribe", 2, ["a/#"]]]
    assert pair.server_sends(encode.unsuback(2)) == [["unsuback", 2]]
    assert pair.client_sends(encode.DISCONNECT) == [["disconnect"]]
    assert pair.server.closed
    assert not pair.client.closed
