"""Staged blocks: judged when they come, and cut into pieces when they are published.

A block is bytes of a stranger. It is read in full **when it is staged**, in a thread, and refused
there and then if anything is wrong with it: so whoever wrote a bad row learns it where it was
written, and a commit that has begun meets nothing that could keep it from its end. What a client
may publish to is judged at that moment too, as it is with Produce: to commit is to show what was
taken already.

To publish, blocks are read one after the other, never more than one at a time, however long the
table. A **piece** is what goes into the journal at once. It is bounded by bytes for the disk, and
by weight for the event loop, on which it is published and routed: a lot costs about as much as
eight messages, one with headers as much as two without, and more if there are many of them. A piece
takes the loop a millisecond, and four more for each subscriber of QoS 1 that gets all of it.

A lot has its headers once, and each of its messages gets them: few bytes staged can be many
published. So both count: those of a block are bounded, and a piece has fewer such messages.
"""

from collections import deque
from collections.abc import Iterable
from itertools import islice
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
from penstock.store.store import Store
from penstock.wire.queue._generated.queue_pb2 import StagedBlock, StagedLot
from penstock.wire.queue.weight import is_block_too_heavy

PIECE_BYTES = 4 * MIB
PIECE_WEIGHT = 4_096
"""What goes into one commit; the message that reaches the bound still does."""

LOT_WEIGHT = 8
EXTRAS_WEIGHT = 2
HEADERS_OF_WEIGHT = 4
"""What a lot, and a message with headers, take of the loop's time, counted in plain messages: one
more for each so many headers."""

TIME = b"time"
"""The header that has a row's own time."""
TIME_BYTES_MAX = len(TIME) + 20


# ── judging ───────────────────────────────────────────────────────────────────────────────────


class Verdict(NamedTuple):
    """What is in a block, or what is wrong with it."""

    counts: dict[str, int]
    """Messages by topic."""
    fault: str = ""


def examined(block: bytes) -> Verdict:
    """Look at every part of a block, save whether its topics may be published to."""
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
    return _bad(fault) if fault else Verdict(counts)


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
    """How large the headers of each message of a lot are, at most."""
    size = sum([len(header.name.encode()) + len(header.value) for header in lot.headers])
    return size + TIME_BYTES_MAX * bool(lot.times_ms)


def _bad(fault: str) -> Verdict:
    return Verdict({}, fault)


def _lot_fault(lot: StagedLot) -> str:
    if lot.times_ms and len(lot.times_ms) != len(lot.payloads):
        return f"{len(lot.times_ms)} times for {len(lot.payloads)} payloads"
    if not lot.headers:
        return ""
    count = len(lot.headers) + bool(lot.times_ms)
    if count > HEADERS_MAX:
        return f"a message may have {HEADERS_MAX} headers"
    if _header_bytes(lot) > HEADERS_BYTES_MAX:
        return f"the headers of a message may have {HEADERS_BYTES_MAX} bytes together"
    return ""


# ── cutting ───────────────────────────────────────────────────────────────────────────────────


class Lot(NamedTuple):
    """Messages of one topic, ready to be published."""

    topic: bytes
    payloads: list[bytes]
    marks: int
    """Flags for the priority and the content type."""
    extras: list[Extras | None] | None


class Piece(NamedTuple):
    """What is published by one commit."""

    lots: list[Lot]
    messages: int
    """How many they have."""
    place: SinkPosition
    """Where the next piece begins."""
    is_last: bool


class Pieces:
    """Reads the parts of an epoch in their order, piece by piece; for one thread at a time."""

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
        self._lots: deque[StagedLot] | None = None
        """What is left of the block that is being cut; None: it is not read yet."""
        self._first = 0
        """The message of the first of these lots that is next."""

    def next(self) -> Piece:
        """Take the next piece; the last one says so, and may be empty. Raises StorageError."""
        lots: list[Lot] = []
        weight, size = PIECE_WEIGHT, PIECE_BYTES
        while weight > 0 and size > 0 and (staged := self._find()) is not None:
            lot = self._take(weight, size)
            lots.append(lot)
            weight -= LOT_WEIGHT + len(lot.payloads) * _weight(staged)
            size -= sum(map(len, lot.payloads)) + len(lot.payloads) * _header_bytes(staged)
        messages = sum([len(lot.payloads) for lot in lots])
        is_last = self._find() is None
        return Piece(lots, messages, (self._part, self._block, self._message), is_last)

    def _find(self) -> StagedLot | None:
        """See to it that there is a message to be taken, of this lot; None: that was the last."""
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

    def _take(self, weight: int, size: int) -> Lot:
        """Some of the messages of the lot that is next."""
        assert self._lots
        lot, first = self._lots[0], self._first
        payloads = _payloads(lot, first, weight, size)
        self._first += len(payloads)
        self._message += len(payloads)
        return _ready(lot, first, payloads)


def _payloads(lot: StagedLot, first: int, weight: int, size: int) -> list[bytes]:
    """So many payloads of a lot as fit, one at least; each comes with its headers."""
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
    """What a message of a lot takes of the loop's time."""
    if not lot.headers and not lot.times_ms:
        return 1
    return EXTRAS_WEIGHT + len(lot.headers) // HEADERS_OF_WEIGHT


def _ready(lot: StagedLot, first: int, payloads: list[bytes]) -> Lot:
    content_type = lot.content_type if lot.content_type <= CONTENT_TYPE_MAX else 0
    priority = min(lot.priority, PRIORITY_MAX)
    marks = priority << PRIORITY_SHIFT | content_type << CONTENT_TYPE_SHIFT
    return Lot(lot.topic.encode(), payloads, marks, _extras(lot, first, len(payloads)))


def _extras(lot: StagedLot, first: int, count: int) -> list[Extras | None] | None:
    """Headers: the same ones for all, unless each has its own time."""
    headers = tuple((header.name.encode(), header.value) for header in lot.headers)
    if lot.times_ms:
        times = islice(lot.times_ms, first, first + count)
        return [Extras(headers=(*headers, (TIME, b"%d" % time_ms))) for time_ms in times]
    return [Extras(headers=headers)] * count if headers else None


def _lost(stage: Stage, number: int) -> StorageError:
    name = f"{stage.sink.decode()}, epoch {stage.epoch}, part {stage.part.decode()}"
    return StorageError(
        f"block {number} that was staged for {name} cannot be read",
        "penstock store verify tells how far the damage goes",
    )
