"""Fast paths: the few commands that make up nearly all traffic, read in tight loops.

A fast path starts at a frame of its command that the machine has found complete and within the
limits, so it always reads at least one. It reads on as long as the next frame is of the same
command, complete and within the limits, and returns where it stands. It never judges: whatever
stopped it, the machine looks at next.

Cost is the point here, so each loop spells out what it checks instead of calling a function per
frame. The header is unpacked in one go; what it announces is believed only after the bounds have
been checked.
"""

from collections.abc import Callable
from typing import Final

from penstock.wire.binary.events import Acked, BinaryAcks, BinaryPublishRun, Event, Ping
from penstock.wire.binary.frame import HEADER, VERSION, BinaryCommand, FrameLimits

FastPath = Callable[[bytes, int, FrameLimits, list[Event]], int]
"""``(data, position, limits, events)`` to the position of the first frame not read."""

# Plain numbers: looking up a member of an enumeration costs as much as reading a header.
_PUBLISH: Final = int(BinaryCommand.PUBLISH)
_ACK: Final = int(BinaryCommand.ACK)
_PING: Final = int(BinaryCommand.PING)


def publish_runs(data: bytes, position: int, limits: FrameLimits, events: list[Event]) -> int:
    """Read PUBLISH frames; those that follow one another to one topic become one event.

    A run is reported when it begins and filled while it lasts. Its topic is cut out once: the next
    frame's is only compared, where it lies.
    """
    frame_bytes_max, topic_bytes_max = limits
    header_bytes = HEADER.size
    unpack, startswith = HEADER.unpack_from, data.startswith
    size = len(data)
    last = size - header_bytes
    topic, topic_bytes = b"", -1
    payloads: list[bytes] = []
    sequences: list[int] = []
    while position <= last:
        version, command, sequence, topic_len, payload_len = unpack(data, position)
        start = position + header_bytes
        payload = start + topic_len
        end = payload + payload_len
        if command != _PUBLISH or version != VERSION:
            break
        if end > size or end - position > frame_bytes_max:
            break
        if topic_len != topic_bytes or not startswith(topic, start):
            if topic_len > topic_bytes_max:
                break
            topic, topic_bytes = data[start:payload], topic_len
            payloads, sequences = [], []
            events.append(BinaryPublishRun(topic, payloads, sequences))
        payloads.append(data[payload:end])
        sequences.append(sequence)
        position = end
    return position


def acks(data: bytes, position: int, _limits: FrameLimits, events: list[Event]) -> int:
    """Read ACK frames of a client; all that follow one another become one event."""
    sequences, following = _repetitions(data, position, _ACK)
    events.append(BinaryAcks(sequences))
    return following


def acked(data: bytes, position: int, _limits: FrameLimits, events: list[Event]) -> int:
    """Read ACK frames of a broker; all that follow one another become one event."""
    sequences, following = _repetitions(data, position, _ACK)
    events.append(Acked(sequences))
    return following


def pings(data: bytes, position: int, _limits: FrameLimits, events: list[Event]) -> int:
    """Read PING frames; all that follow one another become one event."""
    sequences, following = _repetitions(data, position, _PING)
    events.append(Ping(len(sequences)))
    return following


def _repetitions(data: bytes, position: int, expected: int) -> tuple[list[int], int]:
    """Return the sequences of frames of one command, and where the first frame not read begins.

    The first frame may have a topic and a payload, which mean nothing in these commands. Those that
    follow are taken only if they are bare headers, as all are in practice: then they lie at equal
    distances, and no size needs to be checked.
    """
    _, _, sequence, topic_len, payload_len = HEADER.unpack_from(data, position)
    sequences = [sequence]
    start = position + HEADER.size + topic_len + payload_len
    whole = (len(data) - start) // HEADER.size * HEADER.size
    headers = HEADER.iter_unpack(memoryview(data)[start : start + whole])
    for version, command, sequence, topic_len, payload_len in headers:
        if command != expected or version != VERSION or topic_len or payload_len:
            break
        sequences.append(sequence)
    return sequences, start + (len(sequences) - 1) * HEADER.size
