"""Commits of sinks: what was staged becomes messages, exactly once.

One entry of the journal (``SinkBegan``) decides a commit. The broker then publishes it piece by
piece (``staging/blocks``). One entry has the messages of a piece and the position after it, so
after a crash the next incarnation continues with the first message that is not published. A commit
cannot be cancelled: a client that commits the epoch again, even with other parts, waits for it.

The next piece is read while the last one is being committed. Only one piece is in flight: if the
disk refused one and took the next, messages would be missing between them.

Commits of an earlier incarnation are **resumed before the broker listens**, so every commit that
has begun is running when a request comes. The broker does not wait for them to end. In a cluster
the leader runs all commits, and a new leader continues them.
"""

from collections.abc import Callable
from typing import NamedTuple

from penstock.commit.completion import Callback
from penstock.core.commands import SinkAdvanced, SinkBegan, SinkClaimed, SinkEnded, SinkForgotten
from penstock.core.owners import is_foreign
from penstock.core.sinks import SinkState
from penstock.dispatch.parts import RETRY_S
from penstock.errors import StorageError
from penstock.model.stages import Stage
from penstock.obs.log import get_logger
from penstock.obs.printable import printable
from penstock.obs.reasons import DisconnectReason
from penstock.staging.blocks import Piece, Pieces
from penstock.staging.context import StagingCompletion, StagingContext
from penstock.staging.stages import Stages
from penstock.trust.principal import Principal
from penstock.trust.rights import Coverage
from penstock.trust.rules import Action
from penstock.wire.queue.faults import BAD_REQUEST, LIMIT, NOT_AUTHORIZED, Fault

EVERYTHING = b"#"
WAIT_S = 2.0
"""How long a request waits for a commit before it is answered with "under way"."""

_log = get_logger("sinks")


class Committed(NamedTuple):
    """The result of a request to commit."""

    epoch: int  # the last one that is committed
    is_repetition: bool
    messages: int
    is_under_way: bool = False


class CommitRequest(NamedTuple):
    """A request to commit."""

    principal: Principal
    sink: bytes
    epoch: int
    parts: list[tuple[bytes, int]]
    note: bytes
    completion: StagingCompletion[Committed]
    is_judged: bool = False  # whether the user may publish to all topics that were staged
    renew: Callable[[], Principal] | None = None  # who asks, after the request has waited

    def renewed(self) -> "CommitRequest":
        if self.renew is None:
            return self
        return self._replace(principal=self.renew(), is_judged=False)


class SinkView(NamedTuple):
    """A sink as it is listed."""

    name: bytes
    state: SinkState
    staged_bytes: int
    staged_parts: int


class SinkCommits:
    """All sinks of a broker: what they staged and which commits run."""

    def __init__(self, context: StagingContext) -> None:
        self._context = context
        self.stages = Stages(context)
        self._commits: dict[bytes, _Commit] = {}  # running or about to begin, by sink

    def resume(self) -> None:
        """Continue commits that had begun, and drop what is settled."""
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
        """Continue all commits as the leader, or stop.

        Only the leader keeps track of what is staged: a new one finds it in the journal.
        """
        for commit in self._commits.values():
            commit.stop(DisconnectReason.LEADERSHIP_LOST)
        self._commits = {}
        self.stages.retire(DisconnectReason.LEADERSHIP_LOST)
        self.stages = Stages(self._context)
        if is_leader:
            self.resume()

    def turn(self) -> None:
        """Drop what was staged and has expired."""
        expired = self.stages.expired(lambda stage: self._is_decided(stage.sink, stage.epoch))
        if expired:
            self._context.counters.stages_expired_total += self.stages.drop(expired)
            _log.warning("stages_expired", parts=len(expired), first=printable(expired[0].sink))

    # ── requests ──────────────────────────────────────────────────────────────────────────────

    def stage(
        self,
        principal: Principal,
        stage: Stage,
        number: int,
        block: bytes,
        completion: StagingCompletion[object],
    ) -> None:
        """Store a block. Blocks of an epoch that is decided are not needed."""
        fault = self.owner_fault(principal, stage.sink)
        if fault is not None:
            completion.fail(fault)
        elif self._is_decided(stage.sink, stage.epoch):
            completion.done(None)
        elif self._is_unclaimed(principal, stage.sink):
            self._claim(principal, stage, number, block, completion)
        else:
            self.stages.stage(principal, stage, number, block, completion)

    def _is_unclaimed(self, principal: Principal, sink: bytes) -> bool:
        known = self._context.broker.sinks.get(sink)
        return bool(principal.user) and (known is None or not known.user)

    def _claim(
        self,
        principal: Principal,
        stage: Stage,
        number: int,
        block: bytes,
        completion: StagingCompletion[object],
    ) -> None:
        """Make the sink the user's, then stage. Others may claim it meanwhile: the fold decides."""
        fault = self._room_fault(stage.sink)
        if principal.rights.coverage(Action.PUBLISH, EVERYTHING) is Coverage.NONE:
            fault = Fault(NOT_AUTHORIZED, f"user {principal.user} may not publish to any topic")
        if fault is not None:
            completion.fail(fault)
            return

        def claimed(is_own: object) -> None:
            if is_own:
                self.stages.stage(principal, stage, number, block, completion)
            else:
                completion.fail(_foreign(stage.sink))

        command = SinkClaimed(stage.sink, principal.user)
        with self._context.pipeline.as_leader():
            self._context.pipeline.submit(
                command, Callback(claimed, completion.refused), durable=True
            )

    def owner_fault(self, principal: Principal, sink: bytes) -> Fault | None:
        """Why somebody may not use a sink: it is another user's."""
        if self.is_seen(principal, sink, Action.ADMIN):
            return None
        return _foreign(sink)

    def is_seen(self, principal: Principal, sink: bytes, or_by: Action) -> bool:
        """Whether a sink is nobody's or one's own, or an action is allowed that opens all."""
        known = self._context.broker.sinks.get(sink)
        owner = known.user if known else ""
        return not is_foreign(owner, principal.user) or principal.rights.may(or_by, b"")

    def commit(self, request: CommitRequest) -> None:
        """Publish what was staged, unless this epoch was published before.

        Begin, or join the commit that is running: it has not ended before it is on disk.
        """
        fault = self.owner_fault(request.principal, request.sink)
        if fault is not None:
            request.completion.fail(fault)
            return
        commit = self._commits.get(request.sink)
        known = self._context.broker.sinks.get(request.sink)
        is_settled = commit is None or known is None or known.epoch < commit.epoch
        if known is not None and request.epoch <= known.epoch and is_settled:
            self._context.counters.sink_repetitions_total += 1
            self._drop_settled(known)
            messages = known.epoch_messages if request.epoch == known.epoch else 0
            request.completion.done(Committed(known.epoch, is_repetition=True, messages=messages))
        elif commit is not None:
            commit.join(request, lambda: self.commit(request.renewed()))
        elif (fault := self._fault(request)) is not None:
            request.completion.fail(fault)
        elif self._must_judge(request):
            _Judging(self._context, request, self.commit).go_on()
        else:
            self._begin(request)

    def abort(self, sink: bytes, epoch: int, parts: list[bytes]) -> None:
        """Drop parts, or all of the epoch; too late if the epoch is decided."""
        if self._is_decided(sink, epoch):
            return
        stages = [Stage(sink, epoch, part) for part in parts]
        stages = stages or [stage for stage in self.stages.of_sink(sink) if stage.epoch == epoch]
        self._context.counters.stages_aborted_total += self.stages.drop(stages)

    def forget(self, sink: bytes, completion: StagingCompletion[object]) -> None:
        """Delete the state of a sink and what it has staged."""
        commit = self._commits.get(sink)
        if commit is not None:
            what = f"epoch {commit.epoch} of sink {printable(sink)} is being committed"
            completion.fail(Fault(BAD_REQUEST, f"{what}: forget the sink when that is done"))
            return
        self.stages.drop(self.stages.of_sink(sink))
        self._context.pipeline.submit(SinkForgotten(sink), completion, durable=True)

    def names(self) -> set[bytes]:
        return {*self._context.broker.sinks.by_name, *self.stages.sinks()}

    def view(self, name: bytes) -> SinkView | None:
        state, parts = self._context.broker.sinks.get(name), self.stages.parts_of(name)
        if state is None and not parts:
            return None
        return SinkView(name, state or SinkState(name), self.stages.bytes_of(name), parts)

    # ── committing ────────────────────────────────────────────────────────────────────────────

    def _is_decided(self, sink: bytes, epoch: int) -> bool:
        """Whether an epoch is published or being published."""
        known, commit = self._context.broker.sinks.get(sink), self._commits.get(sink)
        last = known.epoch if known else -1
        return epoch <= (max(last, commit.epoch) if commit else last)

    def _fault(self, request: CommitRequest) -> Fault | None:
        if fault := self._room_fault(request.sink):
            return fault
        if len({part for part, _ in request.parts}) < len(request.parts):
            return Fault(BAD_REQUEST, "a part is named twice")
        for part, blocks in request.parts:
            known = self.stages.get(Stage(request.sink, request.epoch, part))
            stored = known.stored if known else 0
            if stored != blocks:
                what = f"part {printable(part)} has {stored} blocks on disk, not {blocks}"
                return Fault(BAD_REQUEST, f"{what}: stage it again, as another part")
        return None

    def _room_fault(self, sink: bytes) -> Fault | None:
        sinks, limit = self._context.broker.sinks, self._context.config.limits.sinks_max
        if sinks.get(sink) is not None or len(sinks) < limit:
            return None
        return Fault(LIMIT, f"there are {limit} sinks (limits.sinks_max): forget some")

    def _must_judge(self, request: CommitRequest) -> bool:
        """Whether topics must be looked at again: not if the same rights admitted all blocks."""
        rights = request.principal.rights
        if request.is_judged or rights.publishable is None:
            return False
        parts = [self.stages.get(Stage(request.sink, request.epoch, p)) for p, _ in request.parts]
        return any(part is None or part.rights is not rights for part in parts)

    def _begin(self, request: CommitRequest) -> None:
        commit = self._commits[request.sink] = _Commit(
            self._context, request.sink, request.epoch, self._ended
        )
        commit.join(request, lambda: self._answer(request))
        known = self._context.broker.sinks.get(request.sink)
        user = (known.user if known else "") or request.principal.user
        command = SinkBegan(request.sink, request.epoch, request.parts, request.note, user)
        begun = Callback(
            lambda is_begun: self._begun(commit, is_begun=bool(is_begun)),
            lambda reason, detail: self._not_begun(commit, reason, detail),
        )
        with self._context.pipeline.as_leader():
            self._context.pipeline.submit(command, begun, durable=True)

    def _begun(self, commit: "_Commit", *, is_begun: bool) -> None:
        if is_begun:
            commit.go_on()
        else:
            reason = DisconnectReason.NOT_AUTHORIZED
            self._not_begun(commit, reason, _foreign(commit.sink).text)

    def _not_begun(self, commit: "_Commit", reason: DisconnectReason, detail: str) -> None:
        if self._commits.get(commit.sink) is commit:  # else another node leads
            del self._commits[commit.sink]
        commit.refuse(reason, detail)

    def _answer(self, request: CommitRequest) -> None:
        known = self._context.broker.sinks.get(request.sink)
        assert known is not None, "a sink cannot be forgotten while it commits"
        done = Committed(known.epoch, is_repetition=False, messages=known.epoch_messages)
        request.completion.done(done)

    def _ended(self, commit: "_Commit") -> None:
        self._context.counters.sink_commits_total += 1
        del self._commits[commit.sink]
        known = self._context.broker.sinks.get(commit.sink)
        if known is not None:
            self._drop_settled(known)

    def _drop_settled(self, sink: SinkState) -> None:
        """Drop what was staged for epochs that are published."""
        stages = self.stages.of_sink(sink.name)
        self.stages.drop([stage for stage in stages if stage.epoch <= sink.epoch])


def _foreign(sink: bytes) -> Fault:
    what = f"sink {printable(sink)} belongs to another user"
    return Fault(NOT_AUTHORIZED, f"{what}: choose another name, or ask an administrator")


class _Judging:
    """Looks whether a user may publish all that was staged, by others or under other rules.

    The topics are read from the blocks, piece by piece, as they will be when they are published.
    """

    def __init__(
        self,
        context: StagingContext,
        request: CommitRequest,
        commit: Callable[[CommitRequest], None],
    ) -> None:
        self._context = context
        self._request = request
        self._commit = commit
        _principal, sink, epoch, parts, *_ = request
        self._pieces = Pieces(context.store, sink, epoch, parts, (0, 0, 0))

    def go_on(self) -> None:
        self._context.readers.run(self._pieces.next, self._found, self._unreadable)

    def _found(self, piece: Piece) -> None:
        request = self._request
        counts: dict[bytes, int] = {}
        for run in piece.runs:
            counts[run.topic] = counts.get(run.topic, 0) + len(run.payloads)
        for topic, count in counts.items():
            fault = self._context.produce_fault(request.principal, topic, count)
            if fault is not None:
                request.completion.fail(fault)
                return
        if piece.is_last:
            self._commit(request._replace(is_judged=True))
        else:
            self.go_on()

    def _unreadable(self, error: StorageError) -> None:
        self._request.completion.refused(DisconnectReason.STORAGE_FAILED, error.message)


class _Waiting:
    """A request that waits for a commit, for a limited time."""

    __slots__ = ("_request", "_timer", "act")

    def __init__(
        self, context: StagingContext, request: CommitRequest, act: Callable[[], None]
    ) -> None:
        self._request = request
        self.act = act
        self._timer = context.connections.loop.call_later(WAIT_S, self._still_under_way)

    def _still_under_way(self) -> None:
        self.act = _nothing
        self._request.completion.done(
            Committed(0, is_repetition=False, messages=0, is_under_way=True)
        )

    def end(self) -> None:
        self._timer.cancel()
        self.act()

    def refuse(self, reason: DisconnectReason, detail: str) -> None:
        self._timer.cancel()
        if self.act is not _nothing:
            self._request.completion.refused(reason, detail)


def _nothing() -> None:
    pass


class _Commit:
    """One epoch while it is moved from stages to topics."""

    def __init__(
        self, context: StagingContext, sink: bytes, epoch: int, ended: Callable[["_Commit"], None]
    ) -> None:
        self._context = context
        self.sink = sink
        self.epoch = epoch
        self._ended = ended
        self._waiting: list[_Waiting] = []
        self._pieces: Pieces | None = None
        self._ahead: Piece | None = None  # the piece after the one in flight
        self._is_in_flight = False
        self._is_reading = False
        self._is_stopped = False

    def stop(self, reason: DisconnectReason) -> None:
        """Publish nothing more: another node will."""
        self._is_stopped = True
        self.refuse(reason, "")

    def join(self, request: CommitRequest, act: Callable[[], None]) -> None:
        """Call ``act`` when this has ended, if the request still waits."""
        self._waiting.append(_Waiting(self._context, request, act))

    def refuse(self, reason: DisconnectReason, detail: str) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.refuse(reason, detail)

    def go_on(self) -> None:
        """Read on from the position in the journal."""
        if self._is_stopped:
            return
        sink = self._context.broker.sinks.get(self.sink)
        committing = sink.committing if sink else None
        assert committing is not None, "a commit that has begun has not ended"
        self._pieces = Pieces(
            self._context.store, self.sink, self.epoch, committing.parts, committing.place
        )
        self._read()

    def _read(self) -> None:
        assert self._pieces is not None
        self._is_reading = True
        self._context.readers.run(self._pieces.next, self._found, self._unreadable)

    def _unreadable(self, error: StorageError) -> None:
        """Report it and retry: the operator may repair the disk; skipping would lose messages."""
        self._is_reading = False
        self.refuse(DisconnectReason.STORAGE_FAILED, error.message)
        if not self._is_in_flight:
            self._context.connections.loop.call_later(RETRY_S, self.go_on)

    def _found(self, piece: Piece) -> None:
        self._is_reading = False
        if self._is_in_flight:
            self._ahead = piece
        else:
            self._publish(piece)

    def _publish(self, piece: Piece) -> None:
        """Publish a piece and advance the position, in one commit."""
        if self._context.connections.is_stopping or self._is_stopped:
            return  # the next incarnation continues here, or the next leader
        context, now_ms = self._context, self._context.connections.wall_ms()
        self._is_in_flight = True
        command: SinkEnded | SinkAdvanced
        if piece.is_last:
            command = SinkEnded(self.sink, self.epoch, piece.messages, now_ms)
        else:
            command = SinkAdvanced(self.sink, self.epoch, piece.messages, piece.place)
        published = Callback(
            lambda _value: self._published(piece),
            lambda reason, detail: self._refused(piece, reason, detail),
        )
        for topic, *_ in piece.runs:
            context.topics.ensure(topic)
        with context.pipeline.as_leader():
            for topic, payloads, marks, extras in piece.runs:
                context.pipeline.publish(
                    topic, payloads, now_ms, qos=1, retain=False, extras=extras, marks=marks
                )
            context.pipeline.submit(command, published, durable=True)
        if not (piece.is_last or self._ahead or self._is_reading):
            self._read()

    def _refused(self, piece: Piece, reason: DisconnectReason, detail: str) -> None:
        """Nothing of the piece was published, so it is retried as it is."""
        self.refuse(reason, detail)
        self._context.connections.loop.call_later(RETRY_S, self._publish, piece)

    def _published(self, piece: Piece) -> None:
        self._context.counters.messages_in_total[1] += piece.messages
        if self._is_stopped:
            return
        if piece.is_last:
            self._end(self._context.broker.index)
            return
        self._is_in_flight = False
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            self._publish(ahead)
        elif not self._is_reading:
            self.go_on()  # it could not be read

    def _end(self, index: int) -> None:
        """Answer when the end is on disk; it may be applied before that."""
        if self._context.store.next_index <= index:
            self._context.pipeline.when_committed(lambda: self._end(index))
            return
        waiting, self._waiting = self._waiting, []
        self._ended(self)
        for one in waiting:
            one.end()
