"""Staging: blocks of rows are journaled, where they wait for their commit.

Each part of an epoch of a sink is a hidden topic of its own, and block number *n* lies at offset
*n*. So a block that is sent again is recognised by its number. To keep that true, blocks of a part
are taken in order, and the next ones are journaled only when those before them are on disk; if the
disk refuses some, those behind them are refused, too. Parts do not wait for each other, and one
commit of the journal has blocks of many.

The journal's own list of topics tells what is staged. Staging is limited per sink and in total:
retention cannot remove staged blocks and would remove everything else instead.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from penstock.commit.completion import Callback
from penstock.core.commands import TopicGone
from penstock.core.completion import Journaled
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
from penstock.obs.log import get_logger
from penstock.obs.printable import printable
from penstock.obs.reasons import DisconnectReason
from penstock.staging.blocks import Validation, validate
from penstock.staging.context import StagingCompletion, StagingContext
from penstock.trust.principal import Principal
from penstock.trust.rights import Rights
from penstock.wire.queue.faults import BAD_REQUEST, LIMIT, Fault

RUN_BYTES = 8 * MIB
RUN_BLOCKS = 32
"""Blocks of one part that are validated and journaled together; at least one."""

WAITING_BYTES_MAX = 64 * MIB
"""Blocks of all parts that are not on disk; senders of more have to wait."""

DROPPED_AT_ONCE = 256
"""Topics deleted by one commit; each takes some time of the loop."""

_log = get_logger("sinks")


class _Block:
    """A block that is not on disk; a repetition of it waits for the first copy."""

    __slots__ = ("completions", "content", "principal")

    def __init__(
        self, principal: Principal, content: bytes, completion: StagingCompletion[object]
    ) -> None:
        self.principal = principal
        self.content = content
        self.completions = [completion]


class PartState:
    """What one attempt of one task has staged."""

    __slots__ = (
        "busy",
        "bytes",
        "is_ending",
        "is_leaving",
        "rights",
        "stage",
        "stored",
        "topic",
        "touched_at",
        "waiting",
    )

    def __init__(
        self, stage: Stage, stored: int, size: int, now: float, rights: Rights | None = None
    ) -> None:
        self.stage = stage
        self.rights = rights  # that admitted all of its topics; None: unknown, or several
        self.topic = stage_topic(stage)
        self.stored = stored  # number of blocks on disk
        self.bytes = size  # of all blocks, with what each of them costs beside
        self.touched_at = now
        self.waiting: deque[_Block] = deque()  # blocks that follow the stored ones
        self.busy = 0  # how many of them are being validated or journaled
        self.is_ending = False  # to be dropped
        self.is_leaving = False  # being dropped: nothing of it is in flight


class Stages:
    """All parts that are staged."""

    def __init__(self, context: StagingContext) -> None:
        self._context = context
        self._parts: dict[Stage, PartState] = {}  # least recently touched first
        self._by_sink: dict[bytes, dict[Stage, None]] = {}
        self._bytes: dict[bytes, int] = {}  # by sink, as in ``PartState``
        self._waiting_bytes = 0
        self._to_drop: deque[PartState] = deque()
        self._dropping = 0  # topics that are being deleted
        self._is_retired = False  # another node leads: results of what was begun do not count

    def load(self) -> None:
        """Find what an earlier incarnation has staged."""
        now = self._context.connections.monotonic()
        for info in self._context.store.topics(PREFIX):
            stage = stage_of(info.name)
            if stage is not None:
                size = info.bytes + info.next_offset * STAGED_BLOCK_COST
                self._add(PartState(stage, info.next_offset, size, now))

    def retire(self, reason: DisconnectReason) -> None:
        """Another node leads: refuse what waits, and stop counting parts."""
        for part in list(self._parts.values()):
            for completion in (o for block in self._taken_back(part) for o in block.completions):
                completion.refused(reason)
            self._remove(part)
        self._to_drop.clear()
        self._is_retired = True

    # ── parts and sizes ──────────────────────────────────────────────────────────────────────

    def get(self, stage: Stage) -> PartState | None:
        """A part, unless it is being dropped."""
        part = self._parts.get(stage)
        return part if part is not None and not part.is_ending else None

    def of_sink(self, sink: bytes) -> list[Stage]:
        return list(self._by_sink.get(sink, ()))

    def parts_of(self, sink: bytes) -> int:
        return len(self._by_sink.get(sink, ()))

    def sinks(self) -> Iterable[bytes]:
        return self._by_sink.keys()

    def bytes_of(self, sink: bytes) -> int:
        return self._bytes.get(sink, 0)

    def _add(self, part: PartState) -> None:
        self._parts[part.stage] = part
        self._by_sink.setdefault(part.stage.sink, {})[part.stage] = None
        self._context.counters.staged_parts += 1
        self._grow(part, part.bytes, is_counted=True)

    def _grow(self, part: PartState, size: int, *, is_counted: bool = False) -> None:
        sink = part.stage.sink
        part.bytes += 0 if is_counted else size
        self._bytes[sink] = self._bytes.get(sink, 0) + size
        self._context.counters.staged_bytes += size

    def _remove(self, part: PartState) -> None:
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
        """Whether no more blocks should be read until some are on disk."""
        return self._waiting_bytes > WAITING_BYTES_MAX

    def stage(
        self,
        principal: Principal,
        stage: Stage,
        number: int,
        content: bytes,
        completion: StagingCompletion[object],
    ) -> None:
        """Store a block, unless it is stored already."""
        part = self._parts.get(stage)
        if part is not None and part.is_ending:
            completion.fail(Fault(BAD_REQUEST, f"{_name(stage)} was aborted: stage another part"))
            return
        stored = part.stored if part else 0
        coming = len(part.waiting) if part else 0
        if part is not None and number < stored:
            completion.done(None)
        elif part is not None and number < stored + coming:
            part.waiting[number - stored].completions.append(completion)
        elif (fault := self._fault(stage, number, stored + coming, len(content))) is not None:
            completion.fail(fault)
        else:
            block = _Block(principal, content, completion)
            self._append(part or self._begin(stage, principal), block)

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

    def _begin(self, stage: Stage, principal: Principal) -> PartState:
        now = self._context.connections.monotonic()
        part = PartState(stage, 0, 0, now, principal.rights)
        self._add(part)
        return part

    def _append(self, part: PartState, block: _Block) -> None:
        if block.principal.rights is not part.rights:
            part.rights = None
        part.waiting.append(block)
        self._waiting_bytes += len(block.content)
        self._grow(part, len(block.content) + STAGED_BLOCK_COST)
        part.touched_at = self._context.connections.monotonic()
        self._parts[part.stage] = self._parts.pop(part.stage)
        self._go_on(part)

    def _go_on(self, part: PartState) -> None:
        """Validate the next blocks, if those before them are on disk."""
        if part.busy or self._is_retired:
            return
        if part.is_ending or not part.waiting:
            self._rest(part)
            return
        contents: list[bytes] = []
        principals: list[Principal] = []
        size = 0
        for block in islice(part.waiting, RUN_BLOCKS):
            size += len(block.content)
            if contents and size > RUN_BYTES:
                break
            contents.append(block.content)
            principals.append(block.principal)
        part.busy = len(contents)
        self._context.readers.run(
            lambda: [validate(content) for content in contents],
            lambda results: self._context.connections.turns.run(
                self._check(part, results, principals)
            ),
            lambda error: self._failed(part, error),
        )

    def _rest(self, part: PartState) -> None:
        if part.is_ending:
            _answer(self._taken_back(part), Fault(BAD_REQUEST, f"{_name(part.stage)} was aborted"))
        if not part.stored:
            self._remove(part)  # no block of it was valid
        elif part.is_ending and not part.is_leaving:
            part.is_leaving = True
            self._to_drop.append(part)
            self._drop_some()

    def _check(
        self, part: PartState, results: list[Validation], principals: list[Principal]
    ) -> Iterator[None]:
        """Check whether topics may be published to, in turns: a block can name thousands."""
        good = 0
        for result, principal in zip(results, principals, strict=True):
            fault = Fault(BAD_REQUEST, result.fault) if result.fault else None
            for topic, count in result.counts.items():
                fault = self._context.produce_fault(principal, topic.encode(), count)
                if fault is not None:
                    break
                yield
            if fault is not None:
                self._refuse_bad(part, good, fault)
                break
            good += 1
        self._journal(part, good)

    def _journal(self, part: PartState, count: int) -> None:
        """Journal the first ``count`` blocks that wait."""
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
        pipeline.tell_offsets(part.topic, count, _InFlight(self, part), now_ms, on_disk=True)

    def _refuse_bad(self, part: PartState, place: int, fault: Fault) -> None:
        """Refuse a block and those behind it."""
        number = part.stored + place
        behind = Fault(fault.code, f"block {number}, before this one, was refused: {fault.text}")
        if self._is_retired:
            return
        first, *others = self._taken_back(part, place)
        _answer([first], fault)
        _answer(others, behind)

    def stored(self, part: PartState) -> None:
        """Blocks are on disk. They are removed before completions run, which may stage the next."""
        if self._is_retired:
            return
        count, part.busy = part.busy, 0
        part.stored += count
        blocks = [part.waiting.popleft() for _ in range(count)]
        self._waiting_bytes -= sum([len(block.content) for block in blocks])
        for completion in (completion for block in blocks for completion in block.completions):
            completion.done(None)
        self._go_on(part)

    def refused(self, part: PartState, reason: DisconnectReason, detail: str) -> None:
        """The disk refused blocks; those behind them are refused, too."""
        if self._is_retired:
            return
        part.busy = 0
        for completion in (
            completion for block in self._taken_back(part) for completion in block.completions
        ):
            completion.refused(reason, detail)
        self._go_on(part)

    def _failed(self, part: PartState, error: StorageError) -> None:
        self.refused(part, DisconnectReason.INTERNAL_ERROR, error.message)

    def _taken_back(self, part: PartState, place: int = 0) -> list[_Block]:
        """Remove the blocks that wait, from a place on."""
        blocks = [part.waiting.pop() for _ in range(len(part.waiting) - place)]
        size = sum([len(block.content) for block in blocks])
        self._waiting_bytes -= size
        self._grow(part, -size - len(blocks) * STAGED_BLOCK_COST)
        return blocks[::-1]

    # ── dropping ──────────────────────────────────────────────────────────────────────────────

    def drop(self, stages: Iterable[Stage]) -> int:
        """Drop parts, once nothing of them is in flight; returns how many."""
        parts = [part for part in map(self.get, stages) if part is not None]
        for part in parts:
            part.is_ending = True
        self._context.connections.turns.run(self._end(parts))
        return len(parts)

    def _end(self, parts: list[PartState]) -> Iterator[None]:
        for part in parts:
            self._go_on(part)
            yield

    def expired(self, is_needed: Callable[[Stage], bool]) -> list[Stage]:
        """Some of the parts that were not touched for too long."""
        due_at = self._context.connections.monotonic() - self._context.config.limits.stage_expiry_s
        found: list[Stage] = []
        for part in self._parts.values():
            if part.touched_at > due_at or len(found) == DROPPED_AT_ONCE:
                break
            if not (part.is_ending or is_needed(part.stage)):
                found.append(part.stage)
        return found

    def _drop_some(self) -> None:
        """Delete some topics with one commit, and the next ones after that."""
        if self._dropping or self._context.connections.is_stopping or self._is_retired:
            return  # the next incarnation finds what is left
        while self._to_drop and self._dropping < DROPPED_AT_ONCE:
            self._dropping += 1
            self._drop(self._to_drop.popleft())

    def _drop(self, part: PartState) -> None:
        gone = Callback(
            lambda _value: self._gone(part),
            lambda _reason, _detail: self._not_gone(part),
        )
        self._context.pipeline.drop_topic(part.topic, TopicGone(part.topic), gone)

    def _gone(self, part: PartState) -> None:
        self._dropping -= 1
        self._remove(part)
        self._drop_some()

    def _not_gone(self, part: PartState) -> None:
        self._dropping -= 1
        self._to_drop.append(part)
        self._context.connections.loop.call_later(RETRY_S, self._drop_some)


class _InFlight:
    """Blocks of one part that are being committed."""

    __slots__ = ("_part", "_stages")

    def __init__(self, stages: Stages, part: PartState) -> None:
        self._stages = stages
        self._part = part

    def done(self, result: Journaled) -> None:
        if result.offset != self._part.stored:
            _log.error("stage_misplaced", topic=printable(self._part.topic), offset=result.offset)
        self._stages.stored(self._part)

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        self._stages.refused(self._part, reason, detail)


def _answer(blocks: list[_Block], fault: Fault) -> None:
    for completion in (completion for block in blocks for completion in block.completions):
        completion.fail(fault)


def _name(stage: Stage) -> str:
    return f"part {printable(stage.part)} of sink {printable(stage.sink)}, epoch {stage.epoch}"
