"""Staged blocks: validated when they arrive, cut into pieces when they are published.

A block is untrusted input. It is parsed in full **when it is staged**, in a thread, and refused if
anything is wrong with it. So the writer of a bad row learns it at once, and a commit that has begun
cannot fail because of its content. Whether the topics may be published to is checked then, too.

To publish, blocks are read one at a time, however large the table. A **piece** is published by one
commit. It is bounded by bytes for the disk, and by weight for the event loop, which publishes and
routes it: a lot costs about as much as eight messages, a message with headers as much as two
without, and more if there are many. A piece takes the loop a millisecond, and four more for each
QoS 1 subscriber that gets all of it.

A lot has its headers once, and each of its messages gets them: few staged bytes can become many
published ones. So the expanded headers of a block are bounded, and count for the size of a piece.
"""

from collections import deque
from collections.abc import Iterable
from itertools import islice, repeat
from typing import NamedTuple

from google.protobuf.message import DecodeError

from penstock.core.sinks import SinkPosition
from penstock.errors import StorageError
from penstock.limits import (
    HEADERS_BYTES_MAX,
    HEADERS_MAX,
    MIB,
    STAGED_BLOCK_BYTES_MAX,
    STAGED_HEADERS_BYTES_MAX,
    STAGED_LOTS_MAX,
    STAGED_MESSAGES_MAX,
)
from penstock.model.message import (
    CONTENT_TYPE_MAX,
    CONTENT_TYPE_SHIFT,
    PRIORITY_MAX,
    PRIORITY_SHIFT,
    Extras,
)
from penstock.model.stages import Stage, stage_topic
from penstock.store.extras import Headers
from penstock.store.store import Store
from penstock.wire.queue._generated.queue_pb2 import StagedBlock, StagedLot
from penstock.wire.queue.weight import is_block_too_heavy

PIECE_BYTES = 4 * MIB
PIECE_WEIGHT = 4_096
"""The size of a piece; the message that reaches the bound is still part of it."""

LOT_WEIGHT = 8
EXTRAS_WEIGHT = 2
HEADERS_OF_WEIGHT = 4
"""The weight of a lot and of a message with headers, in plain messages; one more for every four
headers."""

TIME = b"time"
"""The header that has a row's own time."""
TIME_BYTES_MAX = len(TIME) + 20


# ── validating ────────────────────────────────────────────────────────────────────────────────


class Validation(NamedTuple):
    """What is in a block, or what is wrong with it."""

    counts: dict[str, int]  # messages by topic
    fault: str = ""


def validate(block: bytes) -> Validation:
    """Check everything in a block except whether its topics may be published to."""
    if len(block) > STAGED_BLOCK_BYTES_MAX:
        return _bad(f"a block may have {STAGED_BLOCK_BYTES_MAX} bytes; cut it")
    if is_block_too_heavy(block):
        bounds = f"{STAGED_LOTS_MAX} lots, and messages {HEADERS_MAX} headers"
        return _bad(f"the bytes are not those of a StagedBlock, which may have {bounds}")
    try:
        lots = StagedBlock.FromString(block).lots
    except DecodeError:
        return _bad("the bytes are not those of a StagedBlock")
    counts: dict[str, int] = {}
    for number, lot in enumerate(lots):
        fault = _lot_fault(lot)
        if fault:
            return _bad(f"lot {number}: {fault}")
        counts[lot.topic] = counts.get(lot.topic, 0) + len(lot.payloads)
    fault = _sum_fault(lots, sum(counts.values()))
    return _bad(fault) if fault else Validation(counts)


def _sum_fault(lots: Iterable[StagedLot], messages: int) -> str:
    if not messages:
        return "a block without a message; leave it out"
    if messages > STAGED_MESSAGES_MAX:
        return f"a block may have {STAGED_MESSAGES_MAX} messages; cut it"
    if sum([_header_bytes(lot) * len(lot.payloads) for lot in lots]) > STAGED_HEADERS_BYTES_MAX:
        most = STAGED_HEADERS_BYTES_MAX
        return f"the headers of all messages of a block may have {most} bytes together; cut it"
    return ""


def _header_bytes(lot: StagedLot) -> int:
    """The maximum size of the headers of each message of a lot."""
    size = sum([len(header.name.encode()) + len(header.value) for header in lot.headers])
    return size + TIME_BYTES_MAX * bool(lot.times_ms)


def _bad(fault: str) -> Validation:
    return Validation({}, fault)


def _lot_fault(lot: StagedLot) -> str:
    for times in (lot.times_ms, lot.expires_ms):
        if times and len(times) != len(lot.payloads):
            return f"{len(times)} times for {len(lot.payloads)} payloads"
    if not lot.headers:
        return ""
    count = len(lot.headers) + bool(lot.times_ms)
    if count > HEADERS_MAX:
        return f"a message may have {HEADERS_MAX} headers"
    if _header_bytes(lot) > HEADERS_BYTES_MAX:
        return f"the headers of a message may have {HEADERS_BYTES_MAX} bytes together"
    return ""


# ── cutting ───────────────────────────────────────────────────────────────────────────────────


class PublishRun(NamedTuple):
    """Messages of one topic, ready to be published."""

    topic: bytes
    payloads: list[bytes]
    marks: int  # flags for the priority and the content type
    extras: list[Extras | None] | None


class Piece(NamedTuple):
    """What is published by one commit."""

    runs: list[PublishRun]
    messages: int
    place: SinkPosition  # where the next piece begins
    is_last: bool


class Pieces:
    """Reads the parts of an epoch in order, piece by piece; for one thread at a time."""

    def __init__(
        self,
        store: Store,
        sink: bytes,
        epoch: int,
        parts: list[tuple[bytes, int]],
        place: SinkPosition,
    ) -> None:
        self._store = store
        self._stages = [(Stage(sink, epoch, part), blocks) for part, blocks in parts]
        self._part, self._block, self._message = place
        self._lots: deque[StagedLot] | None = None  # left of the current block; None: not read yet
        self._first = 0  # the next message of the first of these lots

    def next(self) -> Piece:
        """Read the next piece; the last one may be empty. Raises StorageError."""
        runs: list[PublishRun] = []
        weight, size = PIECE_WEIGHT, PIECE_BYTES
        while weight > 0 and size > 0 and (staged := self._find()) is not None:
            run = self._take(weight, size)
            runs.append(run)
            weight -= LOT_WEIGHT + len(run.payloads) * _weight(staged)
            size -= sum(map(len, run.payloads)) + len(run.payloads) * _header_bytes(staged)
        messages = sum([len(run.payloads) for run in runs])
        is_last = self._find() is None
        return Piece(runs, messages, (self._part, self._block, self._message), is_last)

    def _find(self) -> StagedLot | None:
        """Advance to the lot with the next message; None at the end."""
        while self._part < len(self._stages):
            stage, blocks = self._stages[self._part]
            if self._block == blocks:
                self._part, self._block = self._part + 1, 0
                continue
            if self._lots is None:
                self._lots, self._first = self._read(stage), self._message
            while self._lots and self._first >= len(self._lots[0].payloads):
                self._first -= len(self._lots.popleft().payloads)
            if self._lots:
                return self._lots[0]
            self._lots, self._message, self._block = None, 0, self._block + 1
        return None

    def _read(self, stage: Stage) -> deque[StagedLot]:
        found = self._store.read_topic(stage_topic(stage), self._block, 1, 1)
        part = found.slices[0] if found.slices else None
        if part is None or part.first_offset != self._block:
            raise _lost(stage, self._block)
        try:
            return deque(StagedBlock.FromString(part.blob).lots)
        except DecodeError as error:
            raise _lost(stage, self._block) from error

    def _take(self, weight: int, size: int) -> PublishRun:
        assert self._lots
        lot, first = self._lots[0], self._first
        payloads = _payloads(lot, first, weight, size)
        self._first += len(payloads)
        self._message += len(payloads)
        return _ready(lot, first, payloads)


def _payloads(lot: StagedLot, first: int, weight: int, size: int) -> list[bytes]:
    """As many payloads of a lot as fit with their headers, at least one."""
    extra = _header_bytes(lot)
    count = weight // _weight(lot)
    if extra:
        count = min(count, size // extra)
    payloads = list(lot.payloads[first : first + max(count, 1)])
    if sum(map(len, payloads)) + len(payloads) * extra <= size:
        return payloads
    end = 0
    while end < len(payloads) and size > 0:
        size -= len(payloads[end]) + extra
        end += 1
    return payloads[:end]


def _weight(lot: StagedLot) -> int:
    if not lot.headers and not lot.times_ms and not lot.expires_ms:
        return 1
    return EXTRAS_WEIGHT + len(lot.headers) // HEADERS_OF_WEIGHT


def _ready(lot: StagedLot, first: int, payloads: list[bytes]) -> PublishRun:
    content_type = lot.content_type if lot.content_type <= CONTENT_TYPE_MAX else 0
    priority = min(lot.priority, PRIORITY_MAX)
    marks = priority << PRIORITY_SHIFT | content_type << CONTENT_TYPE_SHIFT
    return PublishRun(lot.topic.encode(), payloads, marks, _extras(lot, first, len(payloads)))


def _extras(lot: StagedLot, first: int, count: int) -> list[Extras | None] | None:
    """The same for all messages, unless each has its own times."""
    headers = tuple((header.name.encode(), header.value) for header in lot.headers)
    if not lot.times_ms and not lot.expires_ms:
        return [Extras(headers=headers)] * count if headers else None
    times = islice(lot.times_ms or repeat(-1), first, first + count)
    expiries = islice(lot.expires_ms or repeat(0), first, first + count)
    return [
        Extras(headers=_with_time(headers, time_ms), expires_ms=expires_ms)
        for time_ms, expires_ms in zip(times, expiries, strict=True)
    ]


def _with_time(headers: Headers, time_ms: int) -> Headers:
    return headers if time_ms < 0 else (*headers, (TIME, b"%d" % time_ms))


def _lost(stage: Stage, number: int) -> StorageError:
    name = f"{stage.sink.decode()}, epoch {stage.epoch}, part {stage.part.decode()}"
    return StorageError(
        f"block {number} that was staged for {name} cannot be read",
        "penstock store verify tells how far the damage goes",
    )
