"""Staging: blocks of rows on their way to the journal, where they wait for their commit.

Each part of an epoch of a sink is a topic of its own that nobody can see, and block number *n* lies
at offset *n*. That is what makes a block that is sent again harmless: its number tells whether it
is there. To keep it so, blocks of a part are taken in order, and the next ones join the line only
when those before them are on disk; if the disk refuses some, those that wait behind them are
refused as well. Blocks of other parts do not wait for them, and a commit has those of many.

What is staged is known from the journal's own list of topics, so nothing needs to be written down
about it. What is too much is refused: of one sink, and of all together, for retention cannot remove
any of it and would take everything else instead.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Protocol

from penstock.commit.completion import Callback
from penstock.core.commands import TopicGone
from penstock.core.completion import Completion, Journaled
from penstock.dispatch.parts import RETRY_S
from penstock.errors import StorageError
from penstock.limits import (
    MIB,
    STAGED_BLOCK_BYTES_MAX,
    STAGED_BLOCK_COST,
    STAGED_BLOCKS_MAX,
    STAGES_MAX,
)
from penstock.model.stages import PREFIX, Stage, stage_of, stage_topic
from penstock.obs.log import get_logger, printable
from penstock.obs.reasons import DisconnectReason
from penstock.staging.blocks import Verdict, examined
from penstock.staging.context import StagingContext
from penstock.wire.queue.faults import BAD_REQUEST, LIMIT, Fault

RUN_BYTES = 8 * MIB
RUN_BLOCKS = 32
"""Blocks of one part that are looked at, and journaled, together; one at least."""

WAITING_BYTES_MAX = 64 * MIB
"""Blocks that are not on disk, of all parts: whoever sends more has to wait for its own."""

DROPPED_AT_ONCE = 256
"""Topics that one commit ends: each takes a little time of the loop."""

_log = get_logger("sinks")


class StagingWaiter(Completion[object], Protocol):
    """Waits for a block to be staged; a fault of the block itself has its own text."""

    def fail(self, fault: Fault) -> None: ...


class _Block:
    """A block on its way; whoever sends it again meanwhile waits for the first copy."""

    __slots__ = ("content", "waiters")

    def __init__(self, content: bytes, waiter: StagingWaiter) -> None:
        self.content = content
        self.waiters = [waiter]


class Part:
    """What one attempt of one task has staged."""

    __slots__ = (
        "busy",
        "bytes",
        "is_ending",
        "is_leaving",
        "stage",
        "stored",
        "topic",
        "touched_at",
        "waiting",
    )

    def __init__(self, stage: Stage, stored: int, size: int, now: float) -> None:
        self.stage = stage
        self.topic = stage_topic(stage)
        self.stored = stored
        """How many blocks are on disk: the first so many."""
        self.bytes = size
        """Of blocks on disk and on their way, and what each of them costs beside."""
        self.touched_at = now
        self.waiting: deque[_Block] = deque()
        """Blocks that follow those."""
        self.busy = 0
        """How many of them, the first ones, are looked at or in the line."""
        self.is_ending = False
        """Whether all of it is to go."""
        self.is_leaving = False
        """Whether nothing of it is on its way any more, so that it can."""


class Stages:
    """All parts that are staged."""

    def __init__(self, context: StagingContext) -> None:
        self._context = context
        self._parts: dict[Stage, Part] = {}
        """Those first that were left alone for longest."""
        self._by_sink: dict[bytes, dict[Stage, None]] = {}
        self._bytes: dict[bytes, int] = {}
        """By sink, as in ``Part``."""
        self._waiting_bytes = 0
        self._to_drop: deque[Part] = deque()
        self._dropping = 0
        """How many topics of the last lot are not gone yet."""
        self._is_retired = False
        """Whether another node leads, and what comes of what was begun is not ours to know."""

    def load(self) -> None:
        """After a start: find what an earlier incarnation has left."""
        now = self._context.connections.monotonic()
        for info in self._context.store.topics(PREFIX):
            stage = stage_of(info.name)
            if stage is not None:
                size = info.bytes + info.next_offset * STAGED_BLOCK_COST
                self._add(Part(stage, info.next_offset, size, now))

    def retire(self, reason: DisconnectReason) -> None:
        """Another node leads: whoever waits must ask it. Parts are counted no more."""
        for part in list(self._parts.values()):
            for waiter in (o for block in self._taken_back(part) for o in block.waiters):
                waiter.refused(reason)
            self._remove(part)
        self._to_drop.clear()
        self._is_retired = True

    # ── what there is ─────────────────────────────────────────────────────────────────────────

    def get(self, stage: Stage) -> Part | None:
        """A part, unless it is about to go."""
        part = self._parts.get(stage)
        return part if part is not None and not part.is_ending else None

    def of_sink(self, sink: bytes) -> list[Stage]:
        """All parts of a sink."""
        return list(self._by_sink.get(sink, ()))

    def parts_of(self, sink: bytes) -> int:
        """How many that are."""
        return len(self._by_sink.get(sink, ()))

    def sinks(self) -> Iterable[bytes]:
        """All sinks that have something staged."""
        return self._by_sink.keys()

    def bytes_of(self, sink: bytes) -> int:
        """How much a sink has staged."""
        return self._bytes.get(sink, 0)

    def _add(self, part: Part) -> None:
        self._parts[part.stage] = part
        self._by_sink.setdefault(part.stage.sink, {})[part.stage] = None
        self._context.counters.staged_parts += 1
        self._grow(part, part.bytes, is_counted=True)

    def _grow(self, part: Part, size: int, *, is_counted: bool = False) -> None:
        sink = part.stage.sink
        part.bytes += 0 if is_counted else size
        self._bytes[sink] = self._bytes.get(sink, 0) + size
        self._context.counters.staged_bytes += size

    def _remove(self, part: Part) -> None:
        sink = part.stage.sink
        if self._parts.pop(part.stage, None) is None:
            return
        self._grow(part, -part.bytes)
        self._context.counters.staged_parts -= 1
        del self._by_sink[sink][part.stage]
        if not self._by_sink[sink]:
            del self._by_sink[sink], self._bytes[sink]

    # ── staging ───────────────────────────────────────────────────────────────────────────────

    @property
    def is_full(self) -> bool:
        """Whether so much waits for the disk that no more should be read."""
        return self._waiting_bytes > WAITING_BYTES_MAX

    def stage(self, stage: Stage, number: int, content: bytes, waiter: StagingWaiter) -> None:
        """Put a block on disk, unless it is there already."""
        part = self._parts.get(stage)
        if part is not None and part.is_ending:
            waiter.fail(Fault(BAD_REQUEST, f"{_name(stage)} was aborted: stage another part"))
            return
        stored = part.stored if part else 0
        coming = len(part.waiting) if part else 0
        if part is not None and number < stored:
            waiter.done(None)
        elif part is not None and number < stored + coming:
            part.waiting[number - stored].waiters.append(waiter)
        elif (fault := self._fault(stage, number, stored + coming, len(content))) is not None:
            waiter.fail(fault)
        else:
            self._append(part or self._begin(stage), content, waiter)

    def _fault(self, stage: Stage, number: int, expected: int, size: int) -> Fault | None:
        if size > STAGED_BLOCK_BYTES_MAX:
            return Fault(BAD_REQUEST, f"a block may have {STAGED_BLOCK_BYTES_MAX} bytes; cut it")
        if number != expected:
            what = f"block {number} of {_name(stage)}, but {expected} is next"
            return Fault(BAD_REQUEST, f"{what}: blocks of a part come in order")
        if number >= STAGED_BLOCKS_MAX:
            return Fault(LIMIT, f"a part may have {STAGED_BLOCKS_MAX} blocks; make more parts")
        if stage not in self._parts and len(self._parts) >= STAGES_MAX:
            return Fault(LIMIT, f"{STAGES_MAX} parts are staged: commit or abort some")
        return self._size_fault(stage.sink, size)

    def _size_fault(self, sink: bytes, size: int) -> Fault | None:
        limit = self._context.config.limits.staged_bytes_max
        if self.bytes_of(sink) + size > limit:
            what = f"sink {printable(sink)} has as much staged as limits.staged_bytes_max allows"
            return Fault(LIMIT, f"{what}, {limit} bytes: commit or abort some, or make more epochs")
        total = self._context.config.journal.total_bytes_max // 2
        if self._context.counters.staged_bytes + size > total:
            what = f"what is staged takes half of journal.total_bytes_max, {total} bytes"
            return Fault(LIMIT, f"{what}: commit or abort some, or let the journal have more")
        return None

    def _begin(self, stage: Stage) -> Part:
        part = Part(stage, 0, 0, self._context.connections.monotonic())
        self._add(part)
        return part

    def _append(self, part: Part, content: bytes, waiter: StagingWaiter) -> None:
        part.waiting.append(_Block(content, waiter))
        self._waiting_bytes += len(content)
        self._grow(part, len(content) + STAGED_BLOCK_COST)
        part.touched_at = self._context.connections.monotonic()
        self._parts[part.stage] = self._parts.pop(part.stage)
        self._go_on(part)

    def _go_on(self, part: Part) -> None:
        """Look at the next blocks, if those before them are on disk."""
        if part.busy or self._is_retired:
            return
        if part.is_ending or not part.waiting:
            self._rest(part)
            return
        contents: list[bytes] = []
        size = 0
        for block in islice(part.waiting, RUN_BLOCKS):
            size += len(block.content)
            if contents and size > RUN_BYTES:
                break
            contents.append(block.content)
        part.busy = len(contents)
        self._context.readers.run(
            lambda: [examined(content) for content in contents],
            lambda verdicts: self._context.connections.turns.run(self._judge(part, verdicts)),
            lambda error: self._failed(part, error),
        )

    def _rest(self, part: Part) -> None:
        if part.is_ending:
            _answer(self._taken_back(part), Fault(BAD_REQUEST, f"{_name(part.stage)} was aborted"))
        if not part.stored:
            self._remove(part)  # nothing of it was any good
        elif part.is_ending and not part.is_leaving:
            part.is_leaving = True
            self._to_drop.append(part)
            self._drop_some()

    def _judge(self, part: Part, verdicts: list[Verdict]) -> Iterator[None]:
        """Ask whether topics may be published to: a block can name thousands, each another."""
        good = 0
        for verdict in verdicts:
            fault = Fault(BAD_REQUEST, verdict.fault) if verdict.fault else None
            for topic, count in verdict.counts.items():
                fault = self._context.produce_fault(topic.encode(), count)
                if fault is not None:
                    break
                yield
            if fault is not None:
                self._refuse_bad(part, good, fault)
                break
            good += 1
        self._journal(part, good)

    def _journal(self, part: Part, count: int) -> None:
        """Journal the first blocks that wait; none: see what is left."""
        if self._is_retired:
            return
        part.busy = count
        if not count:
            self._go_on(part)
            return
        pipeline, now_ms = self._context.pipeline, self._context.connections.wall_ms()
        blocks = [block.content for block in islice(part.waiting, count)]
        with pipeline.as_leader():
            pipeline.publish(part.topic, blocks, now_ms, qos=0, retain=False)
        pipeline.tell_offsets(part.topic, count, _InLine(self, part), now_ms, on_disk=True)

    def _refuse_bad(self, part: Part, place: int, fault: Fault) -> None:
        """Refuse a block, and those behind it, which have nothing to follow."""
        number = part.stored + place
        behind = Fault(fault.code, f"block {number}, before this one, was refused: {fault.text}")
        if self._is_retired:
            return
        first, *others = self._taken_back(part, place)
        _answer([first], fault)
        _answer(others, behind)

    def stored(self, part: Part) -> None:
        """Blocks are on disk. Whoever is told may stage the next at once: all of them go before."""
        if self._is_retired:
            return
        count, part.busy = part.busy, 0
        part.stored += count
        blocks = [part.waiting.popleft() for _ in range(count)]
        self._waiting_bytes -= sum([len(block.content) for block in blocks])
        for waiter in (waiter for block in blocks for waiter in block.waiters):
            waiter.done(None)
        self._go_on(part)

    def refused(self, part: Part, reason: DisconnectReason, detail: str) -> None:
        """The disk refused blocks: those behind them have nothing to follow either."""
        if self._is_retired:
            return
        part.busy = 0
        for waiter in (waiter for block in self._taken_back(part) for waiter in block.waiters):
            waiter.refused(reason, detail)
        self._go_on(part)

    def _failed(self, part: Part, error: StorageError) -> None:
        self.refused(part, DisconnectReason.INTERNAL_ERROR, error.message)

    def _taken_back(self, part: Part, place: int = 0) -> list[_Block]:
        """The blocks that wait, from a place on, which will not be stored."""
        blocks = [part.waiting.pop() for _ in range(len(part.waiting) - place)]
        size = sum([len(block.content) for block in blocks])
        self._waiting_bytes -= size
        self._grow(part, -size - len(blocks) * STAGED_BLOCK_COST)
        return blocks[::-1]

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    def drop(self, stages: Iterable[Stage]) -> int:
        """Let parts go; what of them is in the line goes when it has arrived. Tell how many."""
        parts = [part for part in map(self.get, stages) if part is not None]
        for part in parts:
            part.is_ending = True
        self._context.connections.turns.run(self._end(parts))
        return len(parts)

    def _end(self, parts: list[Part]) -> Iterator[None]:
        for part in parts:
            self._go_on(part)
            yield

    def expired(self, is_needed: Callable[[Stage], bool]) -> list[Stage]:
        """Parts that nobody has touched for too long, some of them."""
        due_at = self._context.connections.monotonic() - self._context.config.limits.stage_expiry_s
        found: list[Stage] = []
        for part in self._parts.values():
            if part.touched_at > due_at or len(found) == DROPPED_AT_ONCE:
                break
            if not (part.is_ending or is_needed(part.stage)):
                found.append(part.stage)
        return found

    def _drop_some(self) -> None:
        """End some topics with one commit, and the next ones when they are gone."""
        if self._dropping or self._context.connections.is_stopping or self._is_retired:
            return  # the next incarnation finds what is left
        while self._to_drop and self._dropping < DROPPED_AT_ONCE:
            self._dropping += 1
            self._drop(self._to_drop.popleft())

    def _drop(self, part: Part) -> None:
        gone = Callback(
            lambda _value: self._gone(part),
            lambda _reason, _detail: self._not_gone(part),
        )
        self._context.pipeline.drop_topic(part.topic, TopicGone(part.topic), gone)

    def _gone(self, part: Part) -> None:
        self._dropping -= 1
        self._remove(part)
        self._drop_some()

    def _not_gone(self, part: Part) -> None:
        """The disk refused it: what was staged stays a little longer."""
        self._dropping -= 1
        self._to_drop.append(part)
        self._context.connections.loop.call_later(RETRY_S, self._drop_some)


class _InLine:
    """Blocks that are on their way to the disk."""

    __slots__ = ("_part", "_stages")

    def __init__(self, stages: Stages, part: Part) -> None:
        self._stages = stages
        self._part = part

    def done(self, result: Journaled) -> None:
        """They have arrived."""
        if result.offset != self._part.stored:
            _log.error("stage_misplaced", topic=printable(self._part.topic), offset=result.offset)
        self._stages.stored(self._part)

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        """The disk refused them."""
        self._stages.refused(self._part, reason, detail)


def _answer(blocks: list[_Block], fault: Fault) -> None:
    for waiter in (waiter for block in blocks for waiter in block.waiters):
        waiter.fail(fault)


def _name(stage: Stage) -> str:
    return f"part {printable(stage.part)} of sink {printable(stage.sink)}, epoch {stage.epoch}"
