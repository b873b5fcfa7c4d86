"""The verbs of work queues: PUSH, PULL, ACK.

A queue is a topic with a prefix, and its workers are a group with a fixed name. With ``GROUP`` the
topic is used as named, without a prefix, and the group begins with its oldest message.

A PULL is a worker of the queue's dispatcher until it got something or its time is over. A job is
settled when it is sent, unless the client asks for ``WITHACK``: then each job comes with its
sequence and is settled by ACK; what is not acknowledged when the connection ends goes to others.
"""

import asyncio
from functools import partial
from typing import NamedTuple

from penstock.access.admission import Refusal
from penstock.commit.completion import JournaledCallback
from penstock.core.completion import Journaled
from penstock.dispatch.dispatcher import LeasedMessage
from penstock.doors.resp.access import OPEN, Used, admitted, on_parsed
from penstock.doors.resp.calls import OK, Call, Commands, RespClient, Spec, fail_unstored
from penstock.doors.resp.confirming import confirm
from penstock.doors.resp.faults import NOT_AN_INTEGER, no_permission, publish_fault
from penstock.doors.resp.pulled_jobs import JobSource, PulledJobs
from penstock.limits import GROUP_BYTES_MAX
from penstock.model.queue_names import PREFIX, WORKERS
from penstock.model.topic import topic_fault
from penstock.obs.reasons import DisconnectReason
from penstock.trust.rules import Action
from penstock.wire.resp import encode

COUNT_MAX = 1_024  # jobs that one PULL may ask for
PENDING_MAX = 100_000  # jobs without an ACK before PULL WITHACK gets no more: they are in memory
ON_ITS_WAY_MS = 30_000  # the lease of a job that is settled when it is sent
BLOCK_MS_MAX = 365 * 24 * 3600 * 1000  # longest time that a PULL may wait, short of for ever


def _push(call: Call) -> None:
    """Add a job to a queue: PUSH queue job. Answers with its number, once it is stored."""
    door, topic, jobs = call.door, PREFIX + call.args[1], call.tails
    route = door.admission.admit_unsigned(call.connection.principal, topic, len(jobs))
    if isinstance(route, Refusal):
        call.fail(publish_fault(route, Used.KEY))
        return
    door.counters.messages_in_total[1] += len(jobs)
    door.pipeline.publish(topic, jobs, call.now_ms, qos=1, retain=False)

    def stored(result: Journaled) -> None:
        if not call.closed:
            numbers = range(result.offset + 1, result.offset + 1 + len(jobs))
            call.reply(b"".join(map(encode.integer, numbers)))

    waiter = JournaledCallback(stored, partial(fail_unstored, call))
    door.pipeline.tell_offsets(topic, len(jobs), waiter, call.now_ms)


class _Options(NamedTuple):
    at_most: int = 1
    block_ms: int | None = None
    with_ack: bool = False
    group: bytes | None = None


def _pull(call: Call) -> None:
    """Take jobs of a queue: PULL queue [GROUP group] [COUNT n] [BLOCK ms] [WITHACK]."""
    options = _parsed(call.args[2:])
    if isinstance(options, str):
        call.fail(options)
        return
    if not call.may_block:
        options = options._replace(block_ms=None)
    door = call.door
    source = _source(call.args, options)
    fault = topic_fault(source.topic, door.limits.topic_bytes_max, door.limits.topic_levels_max)
    refusal = door.gate.admit_group(*source)
    if refusal is not None:
        call.fail(f"NOPERM {refusal.text}")
        return
    if fault and options.group is not None:
        call.fail(f"ERR {DisconnectReason.TOPIC_INVALID.value}: {fault}")
        return
    group = door.broker.groups.get(*source)
    if options.with_ack and group is not None and len(group.pending) >= PENDING_MAX:
        call.fail(f"ERR {len(group.pending)} jobs of this queue wait for an ACK, give some first")
        return
    if not door.dispatchers.groups.has_room_for(*source):
        call.fail("ERR There are too many groups, delete unused ones")
        return
    _Puller(call, source, options).start()


def _source(args: list[bytes], options: _Options) -> JobSource:
    if options.group is not None:
        return JobSource(args[1], options.group)
    return JobSource(PREFIX + args[1], WORKERS)


def _pulled_topics(args: list[bytes]) -> list[bytes]:
    options = _parsed(args[2:])
    return [] if isinstance(options, str) else [_source(args, options).topic]


def _parsed(arguments: list[bytes]) -> _Options | str:
    options = _Options()
    remaining = iter(arguments)
    for argument in remaining:
        name = argument.upper()
        if name == b"WITHACK":
            options = options._replace(with_ack=True)
        elif name == b"GROUP":
            group = next(remaining, b"")
            if not 0 < len(group) <= GROUP_BYTES_MAX:
                return f"ERR GROUP is a name of 1 to {GROUP_BYTES_MAX} bytes"
            options = options._replace(group=group)
        elif name == b"COUNT":
            count = _integer(next(remaining, b""), 1, COUNT_MAX)
            if count is None:
                return f"ERR COUNT is a number from 1 to {COUNT_MAX}"
            options = options._replace(at_most=count)
        elif name == b"BLOCK":
            block_ms = _integer(next(remaining, b""), 0, BLOCK_MS_MAX)
            if block_ms is None:
                return "ERR timeout is not an integer or out of range"
            options = options._replace(block_ms=block_ms)
        else:
            return "ERR syntax error"
    return options


def _integer(text: bytes, low: int, high: int) -> int | None:
    try:
        number = int(text)
    except ValueError:
        return None
    return number if low <= number <= high else None


class _Puller:
    """One PULL: a worker that takes jobs once."""

    takes_turns = True

    def __init__(self, call: Call, source: JobSource, options: _Options) -> None:
        self._call = call
        self._source = source
        self._options = options
        self._door = call.door
        self._pulled = _pulled_by(call.connection)
        self.consumer = self._pulled.next_name()
        self._timer: asyncio.TimerHandle | None = None
        self._is_answered = False

    def start(self) -> None:
        self._call.connection.on_close(self._leave)
        if self._options.block_ms is not None:
            self._call.connection.unblock = self._unblock
        if self._options.block_ms:
            delay_s = self._options.block_ms / 1000
            self._timer = self._door.loop.call_later(delay_s, self._give_up)
        self._door.dispatchers.join(*self._source, self)

    def room(self) -> int:
        return 0 if self._is_answered else self._options.at_most

    @property
    def visibility_ms(self) -> int:
        """A job is leased until the connection ends, or just while it is on its way."""
        return 0 if self._options.with_ack else ON_ITS_WAY_MS

    @property
    def settles(self) -> bool:
        return not self._options.with_ack

    def work(self, jobs: list[LeasedMessage]) -> None:
        messages = [job.message for job in jobs]
        self._door.counters.messages_out_total[1] += len(messages)
        if self._options.with_ack:
            self._pulled.keep(self._source, self.consumer, jobs)
        answer: encode.Value = [
            [message.sequence, message.payload] if self._options.with_ack else message.payload
            for message in messages
        ]
        self._end()
        if not self._call.closed:
            self._call.value(answer)

    def idle(self) -> None:
        if self._options.block_ms is None:
            self._give_up()

    def limited(self, _retry_ms: int) -> None:
        self.idle()

    def refused(self, reason: DisconnectReason, _detail: str = "") -> None:
        if not self._is_answered:
            self._end()
            if not self._call.closed:
                self._call.fail(f"ERR {reason.value}: nothing was pulled, try again later")

    def _give_up(self) -> None:
        """The wait is over; what is on its way is still taken."""
        if self._is_answered or self._door.dispatchers.is_serving(*self._source, self.consumer):
            return
        self._end()
        confirm(self._call, self._answer_with_nothing)

    def _answer_with_nothing(self, refusal: str) -> None:
        if refusal:
            self._call.fail(refusal)
        else:
            self._call.reply(encode.null_array(self._call.connection.protocol))

    def _unblock(self, fault: str) -> None:
        if not fault:
            self._give_up()
        elif not self._door.dispatchers.is_serving(*self._source, self.consumer):
            self._end()
            self._call.fail(fault)

    def _leave(self) -> None:
        if not self._is_answered:
            self._end()
            self._door.dispatchers.leave(*self._source, self.consumer)

    def _end(self) -> None:
        self._is_answered = True
        self._call.connection.off_close(self._leave)
        self._call.connection.unblock = None
        if self._timer is not None:
            self._timer.cancel()
        self._door.dispatchers.rest(*self._source, self.consumer)


class _Acked:
    """Answers a run of ACKs once all of them are on disk."""

    __slots__ = ("_answer", "_call", "_reason", "_waits")

    def __init__(self, call: Call, answer: bytes, waits: int) -> None:
        self._call = call
        self._answer = answer
        self._reason: DisconnectReason | None = None
        self._waits = waits

    def ended(self, reason: DisconnectReason | None = None) -> None:
        self._waits -= 1
        self._reason = self._reason or reason
        if self._waits or self._call.closed:
            return
        if self._reason is None:
            self._call.reply(self._answer)
        else:
            self._call.fail(f"ERR {self._reason.value}: not stored, acknowledge again later")


def _pulled_by(client: RespClient) -> PulledJobs:
    if client.pulled is None:
        client.pulled = PulledJobs(client.door.dispatchers, client.number)
        client.on_close(client.pulled.return_all)
    return client.pulled


def _ack(call: Call) -> None:
    """Acknowledge a job that was pulled WITHACK: ACK sequence."""
    sequences = [_integer(tail, 0, (1 << 64) - 1) for tail in call.tails]
    answers = [OK if s is not None else encode.error(NOT_AN_INTEGER) for s in sequences]
    pulled = _pulled_by(call.connection)
    jobs_of = pulled.take(sequence for sequence in sequences if sequence is not None)
    if not all(_may_settle(call, source) for source in jobs_of):
        pulled.hold(jobs_of)
        call.fail(no_permission(Used.KEY))
        return
    acked = _Acked(call, b"".join(answers), len(jobs_of) + 1)
    for source, jobs in jobs_of.items():
        pulled.settle(source, jobs, acked.ended)
    acked.ended()


def _may_settle(call: Call, source: JobSource) -> bool:
    """Whether the client, which may have pulled as another user, may still work on this queue."""
    judge = call.door.admission.judge
    return judge(call.connection.principal, Action.WORK, source.topic) is None


_PUSHING = admitted(lambda args: [PREFIX + args[1]], Used.KEY)
_PULLING = on_parsed(Action.WORK, _pulled_topics)

COMMANDS: Commands = {
    b"PUSH": Spec(_push, 3, _PUSHING, is_pipelined=True, flags=("write", "fast"), keys=(1, 1, 1)),
    b"PULL": Spec(_pull, -2, _PULLING, flags=("write", "blocking"), keys=(1, 1, 1)),
    b"ACK": Spec(_ack, 2, OPEN, is_pipelined=True, flags=("fast",)),
}
