"""Fast paths: tight loops for the few commands that are nearly all traffic.

A fast path starts at a complete frame of its command within the limits, and continues while the
next frame is one too. It never judges: the machine examines whatever stopped it. Each loop checks
inline instead of calling a function per frame.
"""

from collections.abc import Callable
from typing import Final

from penstock.wire.binary.events import (
    Acked,
    BinaryAcks,
    BinaryPublishRun,
    Event,
    Malformed,
    Ping,
)
from penstock.wire.binary.frame import HEADER, PUBLISH_FLAGS, VERSION, BinaryCommand, FrameLimits

# ``(data, position, limits, events)`` → the position of the first frame not read
FastPath = Callable[[bytes, int, FrameLimits, list[Event]], int]

# Plain numbers: looking up a member of an enumeration costs as much as reading a header.
_PUBLISH: Final = int(BinaryCommand.PUBLISH)
_PUBLISH_2: Final = int(BinaryCommand.PUBLISH_2)
_ACK: Final = int(BinaryCommand.ACK)
_PING: Final = int(BinaryCommand.PING)


def publish_runs(data: bytes, position: int, limits: FrameLimits, events: list[Event]) -> int:
    """Read PUBLISH frames; consecutive ones to one topic become one event, filled meanwhile."""
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


def flagged_runs(data: bytes, position: int, limits: FrameLimits, events: list[Event]) -> int:
    """``publish_runs`` for PUBLISH_2, whose payload begins with a byte of flags."""
    frame_bytes_max, topic_bytes_max = limits
    size = len(data)
    key = (b"", -1)
    payloads: list[bytes] = []
    sequences: list[int] = []
    while position <= size - HEADER.size:
        version, command, sequence, topic_len, payload_len = HEADER.unpack_from(data, position)
        payload = position + HEADER.size + topic_len
        end = payload + payload_len
        if command != _PUBLISH_2 or version != VERSION or topic_len > topic_bytes_max:
            break
        if end > size or end - position > frame_bytes_max:
            break
        flags = data[payload] if payload_len else PUBLISH_FLAGS + 1
        topic = data[payload - topic_len : payload]
        position = end
        if flags & ~PUBLISH_FLAGS:
            events.append(Malformed(sequence, "PUBLISH_2", "flags that are not known"))
            key = (b"", -1)
            continue
        if (topic, flags) != key:
            key = (topic, flags)
            payloads, sequences = [], []
            events.append(BinaryPublishRun(topic, payloads, sequences, flags))
        payloads.append(data[payload + 1 : end])
        sequences.append(sequence)
    return position


def acks(data: bytes, position: int, _limits: FrameLimits, events: list[Event]) -> int:
    sequences, following = _repetitions(data, position, _ACK)
    events.append(BinaryAcks(sequences))
    return following


def acked(data: bytes, position: int, _limits: FrameLimits, events: list[Event]) -> int:
    sequences, following = _repetitions(data, position, _ACK)
    events.append(Acked(sequences))
    return following


def pings(data: bytes, position: int, _limits: FrameLimits, events: list[Event]) -> int:
    sequences, following = _repetitions(data, position, _PING)
    events.append(Ping(len(sequences)))
    return following


def _repetitions(data: bytes, position: int, expected: int) -> tuple[list[int], int]:
    """Sequences of consecutive frames of one command, and the position of the next frame."""
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
