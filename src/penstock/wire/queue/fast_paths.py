"""Fast paths: similar requests, recognised without parsing.

The library parses the first request of a run (``server``); from its fields the fast path makes the
*prefix* that a writer puts before the part that differs, and then compares::

    length · tag · length · topic, priority, content type · length · payload · producer, seq · id
    u32                   └────────── prefix ──────────┘                       └ suffix ┘

    length · tag · length · topic, group · lease · id
    u32                   └── prefix ──┘

Requests encoded in another way are left to the library. **A fast path takes nothing in which the
library would see anything else**: all bytes of the frame are accounted for, each field is known to
the library, none occurs twice, and the names are those that it found to be valid UTF-8. The *head*
of a frame is compared with the next one before any length is read.

Fast paths are immutable. A machine keeps one of each kind, and the most recent ones of all
connections are cached, if their names are short.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from penstock import kernel
from penstock.wire.queue.events import AckRun, Event, NackRun, ProduceRun
from penstock.wire.queue.fields import BYTES, REQUEST_ID, blob, length_at, number, number_in, tag
from penstock.wire.queue.machine import LENGTH

NAMES_BYTES_MAX: Final = 512  # longer names, together, are not cached

PRODUCE: Final = tag(1, BYTES)  # first byte of a Produce request

_ACK: Final = tag(3, BYTES)
_NACK: Final = tag(4, BYTES)
_SEQ: Final = tag(6)

# payloads, seqs and request ids; of the last two, those that the run has
Columns: TypeAlias = tuple[list[bytes], list[int], list[int]]


class FastPath(Protocol):
    """A fast path of any kind."""

    def read(self, data: bytes, position: int, bytes_max: int, events: list[Event]) -> int:
        """Read as many similar frames as there are; return where the next frame begins."""


class ProduceFastPath:
    """Produce requests that differ in payload, seq and request id."""

    __slots__ = ("_prefix", "_suffix", "key")

    def __init__(
        self, topic: bytes, priority: int, content_type: int, producer: bytes, has_ids: bool
    ) -> None:
        self.key = (topic, priority, content_type, producer, has_ids)
        marks = number(tag(2), priority) + number(tag(3), content_type)
        self._prefix = blob(tag(1, BYTES), topic) + marks + bytes((tag(4, BYTES),))
        self._suffix = blob(tag(5, BYTES), producer)

    def add(self, columns: Columns, events: list[Event]) -> None:
        payloads, seqs, request_ids = columns
        last = events[-1] if events else None
        if isinstance(last, ProduceRun) and _produce_key(last) == self.key:
            last.payloads.extend(payloads)
            last.seqs.extend(seqs)
            if last.request_ids is not None:
                last.request_ids.extend(request_ids)
            return
        topic, priority, content_type, producer, has_ids = self.key
        ids = request_ids if has_ids else None
        events.append(ProduceRun(topic, priority, content_type, producer, payloads, seqs, ids))

    def read(self, data: bytes, position: int, bytes_max: int, events: list[Event]) -> int:
        columns: Columns = ([], [], [])
        is_bare = not self._suffix and not self.key[-1]
        read = _read_bare if is_bare else self._read_marked
        while parts := _parts(data, position, PRODUCE, self._prefix, bytes_max):
            prefix, message, frame = parts
            payload_bytes, at = length_at(data, position + prefix)
            payload = at + payload_bytes - position
            if payload_bytes < 0 or payload > message:
                break
            before = position
            position = read(data, position, (at - position, payload, message, frame), columns)
            if position == before:
                break
        if columns[0]:
            self.add(columns, events)
        return position

    def _read_marked(
        self, data: bytes, position: int, ends: tuple[int, int, int, int], columns: Columns
    ) -> int:
        payloads, seqs, request_ids = columns
        head, payload, message, frame = ends
        start = data[position : position + head]
        last = len(data) - frame
        has_ids = self.key[-1]
        while position <= last and data.startswith(start, position):
            seq = self._seq(data[position + payload : position + message])
            request_id = _request_id(data[position + message : position + frame])
            if seq < 0 or request_id < 0 or (request_id > 0) is not has_ids:
                break
            payloads.append(data[position + head : position + payload])
            if self._suffix:
                seqs.append(seq)
            request_ids.append(request_id)
            position += frame
        return position

    def _seq(self, piece: bytes) -> int:
        """The seq after the payload; -1 if the bytes are anything but this producer and a seq."""
        if piece == self._suffix:
            return 0
        names = len(self._suffix)
        if not piece.startswith(self._suffix) or piece[names] != _SEQ:
            return -1
        return number_in(piece[names + 1 :])


class SettleFastPath:
    """Ack or Nack requests of one group, which differ in lease and request id."""

    __slots__ = ("_prefix", "_run", "key", "tag")

    def __init__(
        self, run: type[AckRun | NackRun], topic: bytes, group: bytes, has_ids: bool
    ) -> None:
        self.key = (topic, group, has_ids)
        self._run = run
        self.tag = _ACK if run is AckRun else _NACK
        names = blob(tag(1, BYTES), topic) + blob(tag(2, BYTES), group)
        self._prefix = names + bytes((tag(3),))

    def add(self, leases: list[int], request_ids: list[int], events: list[Event]) -> None:
        last = events[-1] if events else None
        if isinstance(last, self._run) and _settle_key(last) == self.key:
            last.leases.extend(leases)
            if last.request_ids is not None:
                last.request_ids.extend(request_ids)
            return
        topic, group, has_ids = self.key
        events.append(self._run(topic, group, leases, request_ids if has_ids else None))

    def read(self, data: bytes, position: int, bytes_max: int, events: list[Event]) -> int:
        leases: list[int] = []
        request_ids: list[int] = []
        while parts := _parts(data, position, self.tag, self._prefix, bytes_max):
            before = position
            position = read_leases(data, position, parts, self.key[-1], leases, request_ids)
            if position == before:
                break
        if leases:
            self.add(leases, request_ids, events)
        return position


def read_leases(
    data: bytes,
    position: int,
    parts: tuple[int, int, int],
    has_ids: bool,
    leases: list[int],
    request_ids: list[int],
) -> int:
    """Read frames that have the same head and size; return where the first other one begins."""
    head, message, frame = parts
    start = data[position : position + head]
    last = len(data) - frame
    upper, above = b"", -1
    while position <= last and data.startswith(start, position):
        at, end = position + head, position + message
        # Leases come in rows: all but the lowest byte is mostly that of the one before.
        if upper and data[at] > 127 and data.startswith(upper, at + 1):
            lease = above | data[at] & 127
        else:
            lease = number_in(data[at:end])
            upper, above = data[at + 1 : end], lease & ~127
        request_id = _request_id(data[end : position + frame]) if message < frame else 0
        if lease < 0 or request_id < 0 or (request_id > 0) is not has_ids:
            break
        leases.append(lease)
        request_ids.append(request_id)
        position += frame
    return position


@lru_cache(maxsize=1024)
def produce_fast_path(
    topic: bytes, priority: int, content_type: int, producer: bytes, has_ids: bool
) -> ProduceFastPath:
    return ProduceFastPath(topic, priority, content_type, producer, has_ids)


@lru_cache(maxsize=1024)
def settle_fast_path(
    run: type[AckRun | NackRun], topic: bytes, group: bytes, has_ids: bool
) -> SettleFastPath:
    return SettleFastPath(run, topic, group, has_ids)


def _parts(
    data: bytes, position: int, tag: int, prefix: bytes, bytes_max: int
) -> tuple[int, int, int] | None:
    """Ends of prefix, message and frame within the frame; None if it is not similar."""
    start = position + LENGTH.size
    if start >= len(data) or data[start] != tag:
        return None
    (length,) = LENGTH.unpack_from(data, position)
    end = start + length
    message_bytes, at = length_at(data, start + 1)
    message = at + message_bytes
    if message_bytes < 0 or message > end or end > len(data) or length > bytes_max:
        return None
    if not data.startswith(prefix, at, message):
        return None
    return at + len(prefix) - position, message - position, end - position


def _read_bare(
    data: bytes, position: int, ends: tuple[int, int, int, int], columns: Columns
) -> int:
    head, payload, _, frame = ends
    if payload != frame:
        return position
    start = data[position : position + head]
    last = len(data) - frame
    append, startswith = columns[0].append, data.startswith
    while position <= last and startswith(start, position):
        append(data[position + head : position + frame])
        position += frame
    return position


def _request_id(piece: bytes) -> int:
    """The request id after the message, 0 if there is none; -1 if it is something else."""
    if not piece:
        return 0
    return number_in(piece[1:]) if piece[0] == REQUEST_ID else -1


def _produce_key(run: ProduceRun) -> tuple[bytes, int, int, bytes, bool]:
    has_ids = run.request_ids is not None
    return run.topic, run.priority, run.content_type, run.producer, has_ids


def _settle_key(run: AckRun | NackRun) -> tuple[bytes, bytes, bool]:
    return run.topic, run.group, run.request_ids is not None


if not TYPE_CHECKING and kernel.is_compiled:
    from penstock.kernel.jobs import read_leases
