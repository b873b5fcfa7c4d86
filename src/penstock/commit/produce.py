"""Producing: journal messages, tell where they lie, and take none twice.

Whoever gives its messages a producer id and numbers may send them again if it got no answer. What
the journal has already is not written once more; the answer is the place of the first copy. What
is in the line, not yet on disk, is waited for.
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

Stretch = tuple[int, int]
"""Messages side by side: the first one's offset, and how many."""


class Lot(NamedTuple):
    """Messages of one topic that are alike."""

    topic: bytes
    payloads: list[bytes]
    marks: int = 0
    """Flags for the priority and the content type."""
    extras: Extras | None = None
    producer: bytes = b""
    seqs: Sequence[int] = ()


class Producing:
    """What is being produced under numbers; one for all doors."""

    def __init__(self, broker: Broker, pipeline: Pipeline, counters: Counters) -> None:
        self.known = broker.producers
        self.pipeline = pipeline
        self._counters = counters
        self._in_line: dict[tuple[bytes, bytes], dict[int, _Numbered]] = {}
        """By topic and producer: numbers whose messages are in the line."""

    def produce(self, lot: Lot, now_ms: int, waiter: Completion[list[Stretch]]) -> None:
        """Journal messages, except those that are known, and tell ``waiter`` where they lie."""
        if lot.producer:
            _Numbered(self, self._in_line, lot, waiter).start(now_ms)
        else:
            self.publish(lot, lot.payloads, now_ms)
            count = len(lot.payloads)
            journaled = JournaledCallback(
                lambda first: waiter.done([(first.offset, count)]), waiter.refused
            )
            self.pipeline.tell_offsets(lot.topic, count, journaled, now_ms)

    def publish(self, lot: Lot, payloads: list[bytes], now_ms: int) -> None:
        self._counters.messages_in_total[1] += len(payloads)
        extras: list[Extras | None] | None = None
        if lot.extras is not None:
            extras = [lot.extras] * len(payloads)
        self.pipeline.publish(
            lot.topic, payloads, now_ms, qos=1, retain=False, extras=extras, marks=lot.marks
        )


class _Numbered:
    """One lot of numbered messages: some new, some known, some in the line already."""

    def __init__(
        self,
        producing: Producing,
        in_line: dict[tuple[bytes, bytes], dict[int, "_Numbered"]],
        lot: Lot,
        waiter: Completion[list[Stretch]],
    ) -> None:
        self._producing = producing
        self._in_line = in_line
        self._lot = lot
        self._waiter = waiter
        self.offsets: dict[int, int] = {}
        """By seq, as far as it is known."""
        self._fresh: list[list[int]] = []
        """Seqs of the messages that were new, in the stretches in which they were published."""
        self._waits = 0
        self.followers: list[_Numbered] = []
        """Lots that sent some of the same messages again."""
        self._reason: DisconnectReason | None = None

    def start(self, now_ms: int) -> None:
        """Find out which messages are new, and journal those."""
        lot = self._lot
        is_ending = self._producing.pipeline.is_dropping(lot.topic)
        find = self._producing.known.find
        line = self._in_line.setdefault((lot.topic, lot.producer), {})
        fresh: list[int] = []
        payloads: list[bytes] = []
        first_copies: dict[_Numbered, None] = {}
        for seq, payload in zip(lot.seqs, lot.payloads, strict=True):
            known = None if is_ending else find(lot.topic, lot.producer, seq)
            if known is not None:
                self.offsets[seq] = known
            elif seq in line and seq in line[seq].offsets:
                self.offsets[seq] = line[seq].offsets[seq]  # acknowledged, and not on disk yet
            elif seq in line:
                first_copies[line[seq]] = None
            else:
                line[seq] = self
                fresh.append(seq)
                payloads.append(payload)
        first_copies.pop(self, None)
        for other in first_copies:
            other.followers.append(self)
            self._waits += 1
        if payloads:
            self._journal(fresh, payloads, now_ms)
        elif not line:
            del self._in_line[lot.topic, lot.producer]
        if not self._waits:
            self._answer()

    def _journal(self, fresh: list[int], payloads: list[bytes], now_ms: int) -> None:
        lot, pipeline = self._lot, self._producing.pipeline
        self._waits += 1
        self._fresh = _rows(fresh)
        start = 0
        with pipeline.as_leader():
            for seqs in self._fresh:
                part = payloads[start : start + len(seqs)]
                start += len(seqs)
                self._producing.publish(lot, part, now_ms)
                pipeline.add_producer_run(lot.topic, len(part), lot.producer, seqs[0])
        pipeline.tell_offsets(lot.topic, len(payloads), self, now_ms)
        pipeline.tell_offsets(lot.topic, len(payloads), _Leaving(self), now_ms, on_disk=True)

    def done(self, result: Journaled) -> None:
        """What was new is in the pipeline, side by side, or on disk already."""
        fresh = [seq for seqs in self._fresh for seq in seqs]
        places = {seq: result.offset + number for number, seq in enumerate(fresh)}
        self.offsets.update(places)
        for follower in self.followers:
            follower.learn(places)
        self.followers = []
        self._settle()

    def learn(self, places: dict[int, int]) -> None:
        """Messages that were sent before are on disk by now."""
        self.offsets.update((s, places[s]) for s in self._lot.seqs if s in places)
        self._settle()

    def refused(self, reason: DisconnectReason, _detail: str = "") -> None:
        """The disk refused what was new."""
        self.leave_line()
        for follower in self.followers:
            follower.fail(reason)
        self.fail(reason)

    def fail(self, reason: DisconnectReason) -> None:
        """Something that was waited for was refused."""
        self._reason = reason
        self._settle()

    def leave_line(self) -> None:
        """Repetitions are recognised without this: by what was noted with the commit."""
        key = (self._lot.topic, self._lot.producer)
        line = self._in_line.get(key, {})
        for seqs in self._fresh:
            for seq in seqs:
                line.pop(seq, None)
        if not line:
            self._in_line.pop(key, None)

    def _settle(self) -> None:
        self._waits -= 1
        if not self._waits:
            self._answer()

    def _answer(self) -> None:
        if self._reason is not None:
            self._waiter.refused(self._reason)
            return
        self._waiter.done(_stretches([self.offsets[seq] for seq in self._lot.seqs]))


class _Leaving:
    """Waits for numbered messages to be on disk: by then it is noted where they lie."""

    __slots__ = ("_numbered",)

    def __init__(self, numbered: _Numbered) -> None:
        self._numbered = numbered

    def done(self, _result: Journaled) -> None:
        self._numbered.leave_line()

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        """The disk refused them: who waits for them is told, and sees to it."""


def _rows(seqs: list[int]) -> list[list[int]]:
    """Seqs, cut where they are not in a row."""
    if seqs[-1] - seqs[0] == len(seqs) - 1 and seqs == list(range(seqs[0], seqs[-1] + 1)):
        return [seqs]
    rows = [[seqs[0]]]
    for seq in seqs[1:]:
        if seq == rows[-1][-1] + 1:
            rows[-1].append(seq)
        else:
            rows.append([seq])
    return rows


def _stretches(offsets: list[int]) -> list[Stretch]:
    """Offsets as stretches, in their order."""
    stretches: list[Stretch] = []
    for offset in offsets:
        if stretches and offset == sum(stretches[-1]):
            stretches[-1] = (stretches[-1][0], stretches[-1][1] + 1)
        else:
            stretches.append((offset, 1))
    return stretches
