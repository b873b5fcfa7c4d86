"""Idempotent producing: journal messages, report their offsets, write none twice.

A producer that numbers its messages (producer id and seq) may send them again after a lost reply.
Messages that the journal already has are not written again; the reply has the offset of the first
copy. For a message that is still in the pipeline the reply waits until that copy is journaled.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.commit.completion import JournaledCallback
from penstock.commit.pipeline import Pipeline
from penstock.core.broker import Broker
from penstock.core.completion import Completion, Journaled
from penstock.model.message import Extras
from penstock.obs.counters import Counters
from penstock.obs.reasons import DisconnectReason

OffsetRun = tuple[int, int]  # consecutive offsets: the first, and how many


class ProducedMessages(NamedTuple):
    """Messages of one topic with the same priority, content type and extras."""

    topic: bytes
    payloads: list[bytes]
    marks: int = 0  # flags for the priority and the content type
    extras: Extras | None = None
    producer: bytes = b""
    seqs: Sequence[int] = ()


class Producing:
    """Produces messages and recognizes repetitions; shared by all doors."""

    def __init__(self, broker: Broker, pipeline: Pipeline, counters: Counters) -> None:
        self.known = broker.producers
        self.pipeline = pipeline
        self._counters = counters
        # by topic and producer: seqs whose messages are not on disk yet
        self._pending: dict[tuple[bytes, bytes], dict[int, _NumberedProduce]] = {}

    def produce(
        self, messages: ProducedMessages, now_ms: int, waiter: Completion[list[OffsetRun]]
    ) -> None:
        """Journal the messages that are new; ``waiter`` gets the offsets of all."""
        if messages.producer:
            _NumberedProduce(self, self._pending, messages, waiter).start(now_ms)
            return
        self.publish(messages, messages.payloads, now_ms)
        count = len(messages.payloads)
        journaled = JournaledCallback(
            lambda first: waiter.done([(first.offset, count)]), waiter.refused
        )
        self.pipeline.tell_offsets(messages.topic, count, journaled, now_ms)

    def publish(self, messages: ProducedMessages, payloads: list[bytes], now_ms: int) -> None:
        self._counters.messages_in_total[1] += len(payloads)
        extras: list[Extras | None] | None = None
        if messages.extras is not None:
            extras = [messages.extras] * len(payloads)
        self.pipeline.publish(
            messages.topic,
            payloads,
            now_ms,
            qos=1,
            retain=False,
            extras=extras,
            marks=messages.marks,
        )


class _NumberedProduce:
    """One request with numbered messages, of which some may be known or pending already."""

    def __init__(
        self,
        producing: Producing,
        pending: dict[tuple[bytes, bytes], dict[int, "_NumberedProduce"]],
        messages: ProducedMessages,
        waiter: Completion[list[OffsetRun]],
    ) -> None:
        self._producing = producing
        self._pending = pending
        self._messages = messages
        self._waiter = waiter
        self.offsets: dict[int, int] = {}  # by seq, as far as known
        self._new: list[list[int]] = []  # seqs of the new messages, in consecutive runs
        self._waits = 0
        self.followers: list[_NumberedProduce] = []  # requests that repeat some of our messages
        self._reason: DisconnectReason | None = None

    def start(self, now_ms: int) -> None:
        topic, producer = self._messages.topic, self._messages.producer
        is_ending = self._producing.pipeline.is_dropping(topic)
        find = self._producing.known.find
        pending = self._pending.setdefault((topic, producer), {})
        new: list[int] = []
        payloads: list[bytes] = []
        first_copies: dict[_NumberedProduce, None] = {}
        for seq, payload in zip(self._messages.seqs, self._messages.payloads, strict=True):
            known = None if is_ending else find(topic, producer, seq)
            if known is not None:
                self.offsets[seq] = known
            elif seq in pending and seq in pending[seq].offsets:
                self.offsets[seq] = pending[seq].offsets[seq]  # acknowledged, not on disk yet
            elif seq in pending:
                first_copies[pending[seq]] = None
            else:
                pending[seq] = self
                new.append(seq)
                payloads.append(payload)
        first_copies.pop(self, None)
        for other in first_copies:
            other.followers.append(self)
            self._waits += 1
        if payloads:
            self._journal(new, payloads, now_ms)
        elif not pending:
            del self._pending[topic, producer]
        if not self._waits:
            self._answer()

    def _journal(self, new: list[int], payloads: list[bytes], now_ms: int) -> None:
        messages, pipeline = self._messages, self._producing.pipeline
        self._waits += 1
        self._new = _consecutive(new)
        start = 0
        with pipeline.as_leader():
            for seqs in self._new:
                part = payloads[start : start + len(seqs)]
                start += len(seqs)
                self._producing.publish(messages, part, now_ms)
                pipeline.add_producer_run(messages.topic, len(part), messages.producer, seqs[0])
        pipeline.tell_offsets(messages.topic, len(payloads), self, now_ms)
        pipeline.tell_offsets(messages.topic, len(payloads), _OnDisk(self), now_ms, on_disk=True)

    def done(self, result: Journaled) -> None:
        """The new messages have consecutive offsets from ``result.offset`` on."""
        new = [seq for seqs in self._new for seq in seqs]
        offsets = {seq: result.offset + number for number, seq in enumerate(new)}
        self.offsets.update(offsets)
        for follower in self.followers:
            follower.learn(offsets)
        self.followers = []
        self._settle()

    def learn(self, offsets: dict[int, int]) -> None:
        """The first copies that this request waited for have these offsets."""
        self.offsets.update((s, offsets[s]) for s in self._messages.seqs if s in offsets)
        self._settle()

    def refused(self, reason: DisconnectReason, _detail: str = "") -> None:
        self.forget_pending()
        for follower in self.followers:
            follower.fail(reason)
        self.fail(reason)

    def fail(self, reason: DisconnectReason) -> None:
        self._reason = reason
        self._settle()

    def forget_pending(self) -> None:
        """From now on the broker's table of producers recognizes repetitions."""
        key = (self._messages.topic, self._messages.producer)
        pending = self._pending.get(key, {})
        for seqs in self._new:
            for seq in seqs:
                pending.pop(seq, None)
        if not pending:
            self._pending.pop(key, None)

    def _settle(self) -> None:
        self._waits -= 1
        if not self._waits:
            self._answer()

    def _answer(self) -> None:
        if self._reason is not None:
            self._waiter.refused(self._reason)
            return
        self._waiter.done(_offset_runs([self.offsets[seq] for seq in self._messages.seqs]))


class _OnDisk:
    """Completes once the new messages of a request are on disk."""

    __slots__ = ("_request",)

    def __init__(self, request: _NumberedProduce) -> None:
        self._request = request

    def done(self, _result: Journaled) -> None:
        self._request.forget_pending()

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        """Nothing to do: the request itself is refused as well."""


def _consecutive(seqs: list[int]) -> list[list[int]]:
    """Split where a seq does not follow the one before."""
    if seqs[-1] - seqs[0] == len(seqs) - 1 and seqs == list(range(seqs[0], seqs[-1] + 1)):
        return [seqs]
    rows = [[seqs[0]]]
    for seq in seqs[1:]:
        if seq == rows[-1][-1] + 1:
            rows[-1].append(seq)
        else:
            rows.append([seq])
    return rows


def _offset_runs(offsets: list[int]) -> list[OffsetRun]:
    runs: list[OffsetRun] = []
    for offset in offsets:
        if runs and offset == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((offset, 1))
    return runs
