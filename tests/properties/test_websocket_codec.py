"""Laws of the WebSocket codec that hold for all frames, all cuts and all bytes.

The oracle is the library ``websockets``: it makes frames, and judges those that break a rule.
"""

from hypothesis import example, given
from hypothesis import strategies as st
from websockets.exceptions import ProtocolError
from websockets.frames import Close, Frame, Opcode
from websockets.protocol import OPEN, Protocol, Side

from penstock.wire.websocket import (
    Closed,
    Fault,
    Ping,
    WebSocketClientMachine,
    WebSocketServerMachine,
    binary_frame,
    close_frame,
    masked_frame,
    ping_frame,
    pong_frame,
)
from penstock.wire.websocket.frames import head, repeated, xor

LARGE = bytes(range(256)) * 17 + b"xyz"  # unmasked by itself
payloads = st.sampled_from((b"", b"x", bytes(125), bytes(126), LARGE, bytes(65_536))) | st.binary()
small = st.binary(max_size=125)
masks = st.binary(min_size=4, max_size=4)
cuts = st.lists(st.integers(0, 300) | st.integers(4090, 4200), max_size=20)


@st.composite
def messages(draw):
    """Frames of a few messages, fragmented at will, with pings and pongs between them."""
    frames = []
    for payload in draw(st.lists(payloads, max_size=4)):
        pieces = [payload, *draw(st.lists(small, max_size=3))]
        for number, piece in enumerate(pieces):
            if draw(st.booleans()):
                frames.append(Frame(draw(st.sampled_from((Opcode.PING, Opcode.PONG))), draw(small)))
            opcode = Opcode.CONT if number else Opcode.BINARY
            frames.append(Frame(opcode, piece, fin=number == len(pieces) - 1))
    return frames


def payload_of(frames):
    return b"".join(bytes(f.data) for f in frames if f.opcode in (Opcode.BINARY, Opcode.CONT))


def feed(machine, data, at):
    """Everything the machine reports of ``data``, read in pieces."""
    payload, events, position = b"", [], 0
    for length in [*at, len(data)]:
        part, more = machine.receive(data[position : position + length])
        payload += part
        events += more
        position += length
    return payload, events


@given(messages(), cuts)
def test_any_cut_of_a_clients_frames_gives_the_same_bytes(frames, at):
    wire = b"".join(frame.serialize(mask=True) for frame in frames)

    payload, events = feed(WebSocketServerMachine(), wire, at)

    assert payload == payload_of(frames)
    assert all(type(event) is Ping for event in events)


@given(messages(), cuts)
def test_any_cut_of_a_servers_frames_gives_the_same_bytes(frames, at):
    wire = b"".join(frame.serialize(mask=False) for frame in frames)

    assert feed(WebSocketClientMachine(), wire, at)[0] == payload_of(frames)


@given(messages())
def test_of_the_pings_of_a_read_the_last_is_reported(frames):
    wire = b"".join(frame.serialize(mask=True) for frame in frames)
    pings = [Ping(bytes(frame.data)) for frame in frames if frame.opcode is Opcode.PING]

    assert WebSocketServerMachine().receive(wire)[1] == pings[-1:]


@given(payloads, small, st.sampled_from((1000, 1001, 1002, 1008, 1011, 4999)), st.text(max_size=80))
def test_the_library_reads_what_a_server_sends(payload, data, code, reason):
    library = Protocol(Side.CLIENT, state=OPEN, max_size=None)
    library.receive_data(binary_frame(payload) + ping_frame(data) + pong_frame(data))
    library.receive_data(close_frame(code, reason))

    binary, ping, pong, close = library.events_received()

    assert (binary.opcode, bytes(binary.data)) == (Opcode.BINARY, payload)
    assert [bytes(frame.data) for frame in (ping, pong)] == [data, data]
    told = Close.parse(bytes(close.data))
    assert told.code == code
    assert reason.startswith(told.reason)


@given(payloads, masks)
def test_the_library_reads_what_a_client_sends(payload, mask):
    library = Protocol(Side.SERVER, state=OPEN, max_size=None)
    library.receive_data(masked_frame(Opcode.BINARY, payload, mask))

    (frame,) = library.events_received()

    assert bytes(frame.data) == payload


@st.composite
def strange_frames(draw):
    """A complete frame whose head may break any rule but the one of minimal lengths."""
    first = draw(st.sampled_from((0x82, 0x02, 0x80, 0x00, 0x88, 0x89)) | st.integers(0, 255))
    payload = draw(
        small | st.sampled_from((b"\x03\xe8", b"\x03\xe8bye", bytes(126), bytes(70_000)))
    )
    is_masked, mask = draw(st.sampled_from((True, True, True, False))), draw(masks)
    start = head(0, len(payload))
    if not is_masked:
        return bytes((first,)) + start[1:] + payload
    masked = xor(payload, repeated(mask, len(payload)))
    return bytes((first, start[1] | 0x80)) + start[2:] + mask + masked


def judged_by_library(wire):
    """Payload before the end, and how it ends: the code of a Close that came or must be sent."""
    library = Protocol(Side.SERVER, state=OPEN, max_size=None)
    library.receive_data(wire)
    frames = library.events_received()
    return frames, library.parser_exc, library.close_sent


@given(st.lists(strange_frames(), max_size=4), cuts)
@example([bytes((0x88, 0x80, 0, 0, 0, 0))], [1])
@example([b"\x88\x83\0\0\0\0\0\0\x80"], [])
def test_the_library_and_the_machine_agree_on_what_is_forbidden(parts, at):
    wire = b"".join(parts)
    frames, fault, close = judged_by_library(wire)

    payload, events = feed(WebSocketServerMachine(), wire, at)

    ends = [event for event in events if type(event) is not Ping]
    if ends and ends[0] == Fault(1003, "text; MQTT is binary"):
        return  # the library takes text; this machine is for MQTT alone
    if isinstance(fault, ProtocolError) and str(fault) == "incomplete fragmented message":
        assert type(ends[0]) is Closed  # the client goes away; that it owes a frame is no matter
        return
    assert payload == payload_of(frames)
    assert [end.code for end in ends] == ([] if close is None else [close.code])
    assert any(type(end) is Fault for end in ends) == (fault is not None)


@given(st.binary(max_size=400), cuts)
def test_no_bytes_make_the_machine_raise_or_keep_much(data, at):
    machine = WebSocketServerMachine()
    feed(machine, data, at)

    assert len(machine._tail) <= 138
