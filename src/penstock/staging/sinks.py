"""Sinks: what was staged becomes messages, each once, whatever crashes.

A commit is decided by one entry of the journal (``SinkBegan``) and carried out by the broker alone,
piece by piece (``staged_blocks``). One entry has the messages of a piece and how far that is, so
after a crash the next incarnation continues with the first message that is not published. It cannot
be cancelled: a client that commits the same epoch again, even with other parts, waits for this one.

The next piece is read while the last is on its way to the disk, and there is never more than one of
them in the line: had the disk refused one and taken the next, messages would be missing between.

Commits of an earlier incarnation are **resumed before the broker listens**, so no request finds a
sink whose commit has begun and is not under way; but nothing waits for them to end. A large one
does not keep the broker from its clients. In a cluster it is the leader that drives them all: the
next one goes on with what it finds begun.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from penstock.commit.completion import Callback
from penstock.core.commands import SinkAdvanced, SinkBegan, SinkEnded, SinkForgotten
from penstock.core.sinks import SinkState
from penstock.dispatch.parts import RETRY_S
from penstock.errors import StorageError
from penstock.model.stages import Stage
from penstock.obs.log import get_logger, printable
from penstock.obs.reasons import DisconnectReason
from penstock.staging.blocks import Piece, Pieces
from penstock.staging.context import StagingContext
from penstock.staging.stages import Stages, StagingWaiter
from penstock.wire.queue.faults import BAD_REQUEST, LIMIT, Fault

WAIT_S = 2.0
"""How long one request waits for a commit to end; then it is told to ask again."""

_log = get_logger("sinks")


class Committed(NamedTuple):
    """What became of a commit."""

    epoch: int
    """The last that is committed."""
    is_repetition: bool
    messages: int
    is_under_way: bool = False


class Waiter(Protocol):
    """Who asked for a commit."""

    def committed(self, committed: Committed) -> None:
        """It is done, or was before, or takes longer than a request may."""

    def fail(self, fault: Fault) -> None:
        """It is refused, and nothing has happened."""

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        """The disk refused; whether it has begun, another request tells."""


class _Asked(NamedTuple):
    """A request for a commit."""

    sink: bytes
    epoch: int
    parts: list[tuple[bytes, int]]
    note: bytes
    waiter: Waiter


class SinkView(NamedTuple):
    """A sink as it is shown."""

    name: bytes
    state: SinkState
    staged_bytes: int
    staged_parts: int


class Sinks:
    """All sinks of a broker."""

    def __init__(self, context: StagingContext) -> None:
        self._context = context
        self.stages = Stages(context)
        self._commits: dict[bytes, _Commit] = {}
        """Those that are under way, or about to begin, by sink."""

    def resume(self) -> None:
        """When we begin to lead: go on with what had begun, let go of what is done with."""
        self.stages.load()
        for sink in self._context.broker.sinks:
            self._drop_settled(sink)
            if sink.committing is not None:
                _log.info("commit_resumed", sink=printable(sink.name), epoch=sink.committing.epoch)
                commit = self._commits[sink.name] = _Commit(
                    self._context, sink.name, sink.committing.epoch, self._ended
                )
                commit.go_on()

    def led(self, *, is_leader: bool) -> None:
        """We lead from now on, and go on with what has begun; or no longer.

        What is staged is known to the leader alone: the next one finds it in the journal.
        """
        for commit in self._commits.values():
            commit.stop(DisconnectReason.LEADERSHIP_LOST)
        self._commits = {}
        self.stages.retire(DisconnectReason.LEADERSHIP_LOST)
        self.stages = Stages(self._context)
        if is_leader:
            self.resume()

    def turn(self) -> None:
        """Now and then: let go of what was staged and forgotten."""
        expired = self.stages.expired(lambda stage: self._is_decided(stage.sink, stage.epoch))
        if expired:
            self._context.counters.stages_expired_total += self.stages.drop(expired)
            _log.warning("stages_expired", parts=len(expired), first=printable(expired[0].sink))

    # ── what clients ask for ──────────────────────────────────────────────────────────────────

    def stage(self, stage: Stage, number: int, block: bytes, waiter: StagingWaiter) -> None:
        """Put a block on disk. Of an epoch that is decided nothing more is needed."""
        if self._is_decided(stage.sink, stage.epoch):
            waiter.done(None)
        else:
            self.stages.stage(stage, number, block, waiter)

    def commit(
        self, sink: bytes, epoch: int, parts: list[tuple[bytes, int]], note: bytes, waiter: Waiter
    ) -> None:
        """Publish what was staged, unless this epoch was published before."""
        self._commit(_Asked(sink, epoch, parts, note, waiter))

    def _commit(self, asked: _Asked) -> None:
        """Begin, or join what is under way: that is not done before the disk has it."""
        commit = self._commits.get(asked.sink)
        known = self._context.broker.sinks.get(asked.sink)
        is_settled = commit is None or known is None or known.epoch < commit.epoch
        if known is not None and asked.epoch <= known.epoch and is_settled:
            self._context.counters.sink_repetitions_total += 1
            self._drop_settled(known)
            messages = known.epoch_messages if asked.epoch == known.epoch else 0
            asked.waiter.committed(Committed(known.epoch, is_repetition=True, messages=messages))
        elif commit is not None:
            commit.join(asked, lambda: self._commit(asked))
        elif (fault := self._fault(asked)) is not None:
            asked.waiter.fail(fault)
        else:
            self._begin(asked)

    def abort(self, sink: bytes, epoch: int, parts: list[bytes]) -> None:
        """Let parts go, all of the epoch if none is named; but a decision is a decision."""
        if self._is_decided(sink, epoch):
            return
        stages = [Stage(sink, epoch, part) for part in parts]
        stages = stages or [stage for stage in self.stages.of_sink(sink) if stage.epoch == epoch]
        self._context.counters.stages_aborted_total += self.stages.drop(stages)

    def forget(self, sink: bytes, waiter: StagingWaiter) -> None:
        """Let a sink be as if it had never been, and what it has staged as well."""
        commit = self._commits.get(sink)
        if commit is not None:
            what = f"epoch {commit.epoch} of sink {printable(sink)} is being committed"
            waiter.fail(Fault(BAD_REQUEST, f"{what}: forget the sink when that is done"))
            return
        self.stages.drop(self.stages.of_sink(sink))
        self._context.pipeline.submit(SinkForgotten(sink), waiter, durable=True)

    def names(self) -> set[bytes]:
        """All sinks that have published something, or have something staged."""
        return {*self._context.broker.sinks.by_name, *self.stages.sinks()}

    def view(self, name: bytes) -> SinkView | None:
        """A sink as it is shown; None if there is none of this name."""
        state, parts = self._context.broker.sinks.get(name), self.stages.parts_of(name)
        if state is None and not parts:
            return None
        return SinkView(name, state or SinkState(name), self.stages.bytes_of(name), parts)

    # ── committing ────────────────────────────────────────────────────────────────────────────

    def _is_decided(self, sink: bytes, epoch: int) -> bool:
        """Whether an epoch is published or about to be: nothing changes what it has."""
        known, commit = self._context.broker.sinks.get(sink), self._commits.get(sink)
        last = known.epoch if known else -1
        return epoch <= (max(last, commit.epoch) if commit else last)

    def _fault(self, asked: _Asked) -> Fault | None:
        sinks = self._context.broker.sinks
        limit = self._context.config.limits.sinks_max
        if sinks.get(asked.sink) is None and len(sinks) >= limit:
            return Fault(LIMIT, f"there are {limit} sinks (limits.sinks_max): forget some")
        if len({part for part, _ in asked.parts}) < len(asked.parts):
            return Fault(BAD_REQUEST, "a part is named twice")
        for part, blocks in asked.parts:
            known = self.stages.get(Stage(asked.sink, asked.epoch, part))
            stored = known.stored if known else 0
            if stored != blocks:
                what = f"part {printable(part)} has {stored} blocks on disk, not {blocks}"
                return Fault(BAD_REQUEST, f"{what}: stage it again, as another part")
        return None

    def _begin(self, asked: _Asked) -> None:
        commit = self._commits[asked.sink] = _Commit(
            self._context, asked.sink, asked.epoch, self._ended
        )
        commit.join(asked, lambda: self._answer(asked))
        command = SinkBegan(asked.sink, asked.epoch, asked.parts, asked.note)
        begun = Callback(
            lambda _value: commit.go_on(),
            lambda reason, detail: self._not_begun(commit, reason, detail),
        )
        with self._context.pipeline.as_leader():
            self._context.pipeline.submit(command, begun, durable=True)

    def _not_begun(self, commit: "_Commit", reason: DisconnectReason, detail: str) -> None:
        if self._commits.get(commit.sink) is commit:  # else another node leads
            del self._commits[commit.sink]
        commit.refuse(reason, detail)

    def _answer(self, asked: _Asked) -> None:
        known = self._context.broker.sinks.get(asked.sink)
        assert known is not None, "a sink cannot be forgotten while it commits"
        done = Committed(known.epoch, is_repetition=False, messages=known.epoch_messages)
        asked.waiter.committed(done)

    def _ended(self, commit: "_Commit") -> None:
        self._context.counters.sink_commits_total += 1
        del self._commits[commit.sink]
        known = self._context.broker.sinks.get(commit.sink)
        if known is not None:
            self._drop_settled(known)

    def _drop_settled(self, sink: SinkState) -> None:
        """Let go of what was staged for epochs that are published."""
        stages = self.stages.of_sink(sink.name)
        self.stages.drop([stage for stage in stages if stage.epoch <= sink.epoch])


class _Waiting:
    """A request that waits for a commit: told when that has ended, or that it takes longer."""

    __slots__ = ("_asked", "_timer", "act")

    def __init__(self, context: StagingContext, asked: _Asked, act: Callable[[], None]) -> None:
        self._asked = asked
        self.act = act
        self._timer = context.connections.loop.call_later(WAIT_S, self._still_under_way)

    def _still_under_way(self) -> None:
        self.act = _nothing
        self._asked.waiter.committed(
            Committed(0, is_repetition=False, messages=0, is_under_way=True)
        )

    def end(self) -> None:
        """The commit has ended."""
        self._timer.cancel()
        self.act()

    def refuse(self, reason: DisconnectReason, detail: str) -> None:
        """The disk refused something of it."""
        self._timer.cancel()
        if self.act is not _nothing:
            self._asked.waiter.close(reason, detail)


def _nothing() -> None:
    pass


class _Commit:
    """One epoch on its way from stages to topics."""

    def __init__(
        self, context: StagingContext, sink: bytes, epoch: int, ended: Callable[["_Commit"], None]
    ) -> None:
        self._context = context
        self.sink = sink
        self.epoch = epoch
        self._ended = ended
        self._waiting: list[_Waiting] = []
        self._pieces: Pieces | None = None
        self._ahead: Piece | None = None
        """The piece after the one in the line, once it is read."""
        self._is_in_line = False
        self._is_reading = False
        self._is_stopped = False

    def stop(self, reason: DisconnectReason) -> None:
        """Publish nothing more: somebody else will."""
        self._is_stopped = True
        self.refuse(reason, "")

    def join(self, asked: _Asked, act: Callable[[], None]) -> None:
        """Act when this has ended, if the one who asked still waits by then."""
        self._waiting.append(_Waiting(self._context, asked, act))

    def refuse(self, reason: DisconnectReason, detail: str) -> None:
        """Tell all who wait that the disk refused."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.refuse(reason, detail)

    def go_on(self) -> None:
        """Read from where the journal says that we are."""
        if self._is_stopped:
            return
        sink = self._context.broker.sinks.get(self.sink)
        committing = sink.committing if sink else None
        assert committing is not None, "what has begun has not ended"
        self._pieces = Pieces(
            self._context.store, self.sink, self.epoch, committing.parts, committing.place
        )
        self._read()

    def _read(self) -> None:
        assert self._pieces is not None
        self._is_reading = True
        self._context.readers.run(self._pieces.next, self._found, self._unreadable)

    def _unreadable(self, error: StorageError) -> None:
        """Say so, and try again: the operator may mend it, and to go on without would be a loss."""
        self._is_reading = False
        self.refuse(DisconnectReason.STORAGE_FAILED, error.message)
        if not self._is_in_line:
            self._context.connections.loop.call_later(RETRY_S, self.go_on)

    def _found(self, piece: Piece) -> None:
        self._is_reading = False
        if self._is_in_line:
            self._ahead = piece
        else:
            self._publish(piece)

    def _publish(self, piece: Piece) -> None:
        """Put a piece in the line, and that it is published: one commit has both."""
        if self._context.connections.is_stopping or self._is_stopped:
            return  # the next incarnation continues here, or the next leader
        context, now_ms = self._context, self._context.connections.wall_ms()
        self._is_in_line = True
        command: SinkEnded | SinkAdvanced
        if piece.is_last:
            command = SinkEnded(self.sink, self.epoch, piece.messages, now_ms)
        else:
            command = SinkAdvanced(self.sink, self.epoch, piece.messages, piece.place)
        published = Callback(
            lambda _value: self._published(piece),
            lambda reason, detail: self._refused(piece, reason, detail),
        )
        for topic, *_ in piece.lots:
            context.topics.ensure(topic)
        with context.pipeline.as_leader():
            for topic, payloads, marks, extras in piece.lots:
                context.pipeline.publish(
                    topic, payloads, now_ms, qos=1, retain=False, extras=extras, marks=marks
                )
            context.pipeline.submit(command, published, durable=True)
        if not (piece.is_last or self._ahead or self._is_reading):
            self._read()

    def _refused(self, piece: Piece, reason: DisconnectReason, detail: str) -> None:
        """The disk refused: nothing of the piece has happened, so it is tried again as it is."""
        self.refuse(reason, detail)
        self._context.connections.loop.call_later(RETRY_S, self._publish, piece)

    def _published(self, piece: Piece) -> None:
        self._context.counters.messages_in_total[1] += piece.messages
        if self._is_stopped:
            return
        if piece.is_last:
            self._end(self._context.broker.index)
            return
        self._is_in_line = False
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            self._publish(ahead)
        elif not self._is_reading:
            self.go_on()  # it could not be read

    def _end(self, index: int) -> None:
        """Tell that it is done when the disk has it, also where it is applied before."""
        if self._context.store.next_index <= index:
            self._context.pipeline.when_committed(lambda: self._end(index))
            return
        waiting, self._waiting = self._waiting, []
        self._ended(self)
        for one in waiting:
            one.end()
