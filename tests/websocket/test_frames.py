"""MQTT in frames of every kind, and what the broker sends back."""

import pytest
from websockets.frames import Opcode

from penstock.net.websocket import FRAME_BYTES
from penstock.obs.reasons import DisconnectReason
from penstock.wire.mqtt.boundaries import pieces
from tests.conformance.wire_client import (
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    WireClient,
    connack,
    connect_packet,
    puback,
    publish,
    suback,
    subscribe,
    wait_until,
)
from tests.websocket.peer import Peer, connected, frame

ZERO = bytes(4)  # a mask that changes nothing


@pytest.fixture
def watcher(broker):
    """A client by TCP that sees wills, and shows that the broker serves others all the time."""
    with WireClient(broker.host, broker.port) as client:
        client.send(connect_packet("watcher"))
        client.expect(connack())
        client.subscribe(("wills/#", 0))
        yield client


def will(name):
    return {"will": (f"wills/{name}", b"gone", 0, False)}


def ended(broker, reason):
    return broker.metrics()[f'penstock_disconnects_total{{reason="{reason.value}"}}']


@pytest.mark.proves("MQTT-6.0.0-2")
@pytest.mark.proves5("MQTT-6.0.0-2")
def test_a_packet_may_be_cut_into_frames_of_single_bytes(broker):
    with Peer(broker) as peer:
        peer.send(*[bytes([byte]) for byte in connect_packet("bytes")])
        peer.expect(connack())


def test_a_packet_may_be_a_fragmented_message_with_pings_and_empty_frames_in_it(broker):
    first, *rest = connect_packet("fragments")
    with Peer(broker) as peer:
        peer.send_raw(frame(Opcode.BINARY, bytes([first]), fin=False))
        for byte in rest:
            peer.send_raw(frame(Opcode.CONT, b"", fin=False))
            peer.send_raw(frame(Opcode.CONT, bytes([byte]), fin=False), frame(Opcode.PONG, b"?"))
        peer.send_raw(frame(Opcode.CONT, b""))
        peer.expect(connack())


@pytest.mark.proves("MQTT-6.0.0-2")
@pytest.mark.proves5("MQTT-6.0.0-2")
def test_a_frame_may_have_many_packets_and_end_inside_one(broker):
    data = connect_packet("many") + PINGREQ * 100 + PINGREQ[:1]
    with Peer(broker) as peer:
        peer.send(data, PINGREQ[1:])
        peer.expect(connack(), PINGRESP * 101)


@pytest.mark.proves("MQTT-6.0.0-1")
@pytest.mark.proves5("MQTT-6.0.0-1")
def test_the_answers_to_a_read_are_one_frame(broker):
    with connected(broker, "one") as peer:
        peer.send(PINGREQ * 50)
        assert peer.next_data() == PINGRESP * 50


def test_large_messages_pass_both_ways(broker):
    payload = bytes(range(256)) * 800
    with connected(broker, "large") as peer:
        peer.send(subscribe(1, ("large", 1)))
        peer.expect(suback(1, 1))
        peer.send(publish("large", payload, qos=1, packet_id=1))
        expected = {puback(1), publish("large", payload, qos=1, packet_id=1)}
        received = b""
        while len(received) < sum(map(len, expected)):
            received += peer.next_data()
        assert received in {b"".join(sorted(expected)), b"".join(sorted(expected, reverse=True))}


def test_much_output_is_cut_between_packets(broker):
    """Every frame has whole packets, and ends with the one that brings it to 64 KiB."""
    packet = publish("cut", bytes(1000))
    with connected(broker, "cut") as peer, WireClient(broker.host, broker.port) as sender:
        peer.send(subscribe(1, ("cut", 0)))
        peer.expect(suback(1, 0))
        sender.send(connect_packet("cutter"))
        sender.expect(connack())
        sender.send(packet * 500)
        count = 0
        while count < 500:
            data = peer.next_data()
            assert data == packet * (len(data) // len(packet))
            assert len(data) < FRAME_BYTES + len(packet)
            count += len(data) // len(packet)


def test_pieces_end_where_packets_end():
    packets = [
        PINGRESP,
        publish("a", bytes(100)),
        publish("a", bytes(20_000)),
        publish("b", bytes(3)),
    ]
    data = b"".join(packets)

    assert list(pieces(data, 1)) == packets
    assert list(pieces(data, 50)) == [packets[0] + packets[1], packets[2], packets[3]]
    assert list(pieces(data, len(data))) == [data]


# ── control frames ────────────────────────────────────────────────────────────────────────────


def test_of_the_pings_of_a_read_the_last_is_answered_with_its_data(broker):
    with connected(broker, "ping") as peer:
        peer.send_raw(frame(Opcode.PING, b"first") + frame(Opcode.PING, b"last"))
        answers = [peer.next_frame()]
        if answers[0].data == b"first":  # the network may cut the write in two
            answers.append(peer.next_frame())
        assert (answers[-1].opcode, answers[-1].data) == (Opcode.PONG, b"last")


def test_pings_do_not_keep_a_client_alive(own_broker):
    broker = own_broker()
    with connected(broker, "quiet", connect={"keep_alive": 10}) as peer:
        broker.clock.advance(10)
        peer.send_raw(frame(Opcode.PING, b"still here"), frame(Opcode.PONG))
        assert peer.next_frame().opcode is Opcode.PONG
        broker.clock.advance(6)
        close = peer.expect_close()
        assert (close.code, close.reason) == (1008, "keep_alive_timeout")


def test_a_close_is_no_goodbye_of_mqtt(broker, watcher):
    with connected(broker, "closer", connect=will("closer")) as peer:
        peer.send_raw(frame(Opcode.CLOSE, b"\x03\xe8done"))
        watcher.expect(publish("wills/closer", b"gone"))
        assert peer.expect_close().code == 1000


def test_disconnect_is_answered_by_a_close_and_there_is_no_will(broker, watcher):
    with connected(broker, "polite", connect=will("polite")) as peer:
        peer.send_raw(frame(Opcode.BINARY, DISCONNECT) + frame(Opcode.CLOSE, b"\x03\xe8"))
        assert peer.expect_close().code == 1000
    watcher.expect_nothing()


def test_the_end_of_the_socket_without_a_close_is_a_lost_connection(broker, watcher):
    with connected(broker, "cable", connect=will("cable")):
        pass
    watcher.expect(publish("wills/cable", b"gone"))


def test_who_does_not_answer_a_close_is_cut_off_after_five_seconds(own_broker):
    broker = own_broker()
    with connected(broker, "deaf") as peer:
        peer.send(DISCONNECT)
        assert peer.next_frame().opcode is Opcode.CLOSE
        peer.send(PINGREQ)  # ignored
        broker.clock.advance(6)
        peer.expect_end()


def test_a_broker_that_stops_says_so(own_broker):
    broker = own_broker(shutdown={"timeout_s": 1})
    with connected(broker, "last") as peer:
        broker.stop()
        close = peer.next_frame()
        assert (close.opcode, bytes(close.data)) == (Opcode.CLOSE, b"\x03\xe9server_shutdown")
        peer.expect_end()


# ── what is not allowed ───────────────────────────────────────────────────────────────────────


@pytest.mark.proves("MQTT-6.0.0-1")
@pytest.mark.proves5("MQTT-6.0.0-1")
@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x82\x02" + PINGREQ, 1002),  # no mask
        (b"\xc2\x82" + ZERO + PINGREQ, 1002),  # compressed
        (b"\x83\x80" + ZERO, 1002),
        (b"\x80\x80" + ZERO, 1002),
        (b"\x02\x80" + ZERO + b"\x82\x80" + ZERO, 1002),
        (b"\x09\x80" + ZERO, 1002),
        (b"\x89\xfe\x00\x7e", 1002),
        (b"\x82\xfe\x00\x02" + ZERO + PINGREQ, 1002),
        (b"\x82\xff" + b"\xff" * 8 + ZERO, 1002),
        (b"\x81\x82" + ZERO + b"hi", 1003),
        ((b"\x82\x80" + ZERO) * 1001, 1008),
        (b"\x88\x81" + ZERO + b"x", 1002),
        (b"\x88\x83" + ZERO + b"\x03\xe8\xff", 1007),
    ],
)
def test_a_broken_rule_ends_this_connection_with_its_code(broker, watcher, data, code):
    before = ended(broker, DisconnectReason.WEBSOCKET_VIOLATION)
    with connected(broker, "rude", connect=will("rude")) as peer:
        peer.send_raw(data)
        close = peer.expect_close()
    assert (close.code, close.reason) == (code, "websocket_violation")
    watcher.expect(publish("wills/rude", b"gone"))
    assert ended(broker, DisconnectReason.WEBSOCKET_VIOLATION) == before + 1


@pytest.mark.parametrize(
    ("packet", "code", "reason"),
    [
        (b"\xf0\x00", 1002, "protocol_violation"),
        (b"\x36\x03\x00\x01a", 1002, "malformed_packet"),
        (b"\x30\xff\xff\xff\x7f", 1009, "packet_too_large"),
        (publish("$SYS/x", b""), 1008, "topic_reserved"),
    ],
)
def test_a_fault_of_mqtt_has_a_code_too(broker, watcher, packet, code, reason):
    with connected(broker, f"faulty-{reason}") as peer:
        peer.send(packet)
        close = peer.expect_close()
    assert (close.code, close.reason) == (code, reason)
    watcher.ping()


@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\n\r\n", PINGREQ])
def test_only_mqtt_is_spoken_inside(broker, first):
    with Peer(broker) as peer:
        peer.send(first)
        assert peer.expect_close().code == 1002


def test_connect_must_come_in_time_from_the_beginning(own_broker):
    broker = own_broker(limits={"connect_timeout_s": 10})
    with Peer(broker) as peer:
        peer.send_raw(frame(Opcode.PING, b"x"))
        peer.next_frame()
        broker.clock.advance(11)
        close = peer.expect_close()
        assert (close.code, close.reason) == (1008, "connect_timeout")


def test_to_who_pings_without_reading_only_the_last_pong_waits(broker, watcher):
    with connected(broker, "pinger") as peer:
        (transport,) = [
            client._transport
            for client in list(broker.server.parts.connections.clients)
            if client.name == b"pinger"
        ]
        broker.call(transport.pause_writing)  # as when its buffer is full
        for data in (b"first", b"second", b"third"):
            peer.send_raw(frame(Opcode.PING, data))
            wait_until(lambda data=data: transport._pong == data)
        broker.call(transport.resume_writing)
        peer.send(PINGREQ)
        assert peer.next_frame().data == b"third"
        peer.expect(PINGRESP)


def test_a_slow_reader_is_bounded_as_by_tcp(own_broker):
    broker = own_broker(limits={"outbound_bytes_max": "1MiB", "packet_bytes_max": "64KiB"})
    with connected(broker, "sleeper") as peer, WireClient(broker.host, broker.port) as sender:
        peer.send(subscribe(1, ("flood", 0)))
        peer.expect(suback(1, 0))
        sender.send(connect_packet("flooder"))
        sender.expect(connack())
        for _ in range(40):
            sender.send(publish("flood", bytes(60_000)) * 10)
            sender.ping()
        metrics = broker.metrics()
        assert metrics['penstock_dropped_total{reason="slow_reader"}'] > 0
