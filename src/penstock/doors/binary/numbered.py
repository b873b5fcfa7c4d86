"""Publishes that are stored once although the client sends them again.

A client that has agreed on it (``terms``) numbers its publishes with the sequences of its requests.
They are remembered as those of producers of queues are (``core.producers``): by topic and producer,
in the journal, the last 100,000 of a topic. So a repetition is recognised after kill -9 and by the
next leader. It is acknowledged like the first copy, and not stored again.

A repetition may also overtake its first copy: the connection broke, and what it brought is still on
its way to the disk. Then the answer waits for the first copy, and so does its failure.

In a cluster another node may have the first copy on its way; the leader finds that out
(``core.stale_publishes``).
"""

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from typing import NamedTuple, Protocol

from penstock.commit.pipeline import Pipeline
from penstock.core.broker import Broker
from penstock.core.completion import Journaled
from penstock.core.producers import Producers
from penstock.obs.reasons import DisconnectReason


class FirstCopy(Enum):
    """Where the first copy of a publish is."""

    NONE = "none"  # this is the first
    PENDING = "pending"
    STORED = "stored"


class Stretch(NamedTuple):
    """Consecutive publishes of a run, from one place up to another, that fare alike."""

    copy: FirstCopy
    start: int
    end: int


class Repeater(Protocol):
    """A connection that has sent a publish whose first copy is pending."""

    def close(self, reason: DisconnectReason, detail: str = "") -> None: ...


class _Pending:
    """Numbered publishes on their way to the disk. Implements ``Completion``."""

    __slots__ = ("_forget", "_sequences", "repeaters")

    def __init__(self, sequences: range, forget: Callable[[range], None]) -> None:
        self._sequences = sequences
        self._forget = forget
        self.repeaters: list[Repeater] = []

    def done(self, _result: Journaled) -> None:
        """From now on the broker's table of producers knows them."""
        self._forget(self._sequences)

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        self._forget(self._sequences)
        for repeater in self.repeaters:
            repeater.close(reason, detail)


class NumberedPublishes:
    """Of all connections of the door."""

    def __init__(self, broker: Broker, pipeline: Pipeline) -> None:
        self._known: Producers = broker.producers
        self._pipeline = pipeline
        self._pending: dict[tuple[bytes, bytes], dict[int, _Pending]] = {}

    def stretches(
        self, topic: bytes, producer: bytes, sequences: Sequence[int]
    ) -> Iterator[Stretch]:
        """Which publishes are new, each stretch with consecutive sequences."""
        start, end = 0, len(sequences)
        pending = self._pending.get((topic, producer), {})
        is_ending = self._pipeline.is_dropping(topic)
        if self._all_new(topic, producer, sequences, pending):
            yield Stretch(FirstCopy.NONE, 0, end)
            return
        copies: list[FirstCopy] = []
        seen: set[int] = set()
        for one in sequences:
            copy = self._copy(topic, producer, one, pending, is_ending)
            is_twice = copy is FirstCopy.NONE and one in seen  # in this run
            copies.append(FirstCopy.PENDING if is_twice else copy)
            seen.add(one)
        for place in range(1, end + 1):
            is_continued = (
                place < end
                and copies[place] is copies[start]
                and sequences[place] == sequences[place - 1] + 1
            )
            if not is_continued:
                yield Stretch(copies[start], start, place)
                start = place

    def _all_new(
        self,
        topic: bytes,
        producer: bytes,
        sequences: Sequence[int],
        pending: dict[int, _Pending],
    ) -> bool:
        """Whether all are, as nearly always; else each is looked at."""
        first, count = sequences[0], len(sequences)
        if count > 1 and list(sequences) != list(range(first, first + count)):
            return False
        if self._known.has_any(topic, producer, first, count):
            return False
        return not pending or pending.keys().isdisjoint(range(first, first + count))

    def _copy(
        self,
        topic: bytes,
        producer: bytes,
        sequence: int,
        pending: dict[int, _Pending],
        is_ending: bool,
    ) -> FirstCopy:
        if sequence in pending:
            return FirstCopy.PENDING
        if is_ending or self._known.find(topic, producer, sequence) is None:
            return FirstCopy.NONE
        return FirstCopy.STORED

    def published(self, topic: bytes, producer: bytes, sequences: range, now_ms: int) -> None:
        """These were published just now, in this order, with nothing behind them in the topic."""
        count = len(sequences)
        key = (topic, producer)
        batch = _Pending(sequences, partial(self._forget, key))
        self._pending.setdefault(key, {}).update(dict.fromkeys(sequences, batch))
        self._pipeline.add_producer_run(topic, count, producer, sequences[0])
        self._pipeline.tell_offsets(topic, count, batch, now_ms, on_disk=True)

    def _forget(self, key: tuple[bytes, bytes], sequences: range) -> None:
        pending = self._pending[key]
        for sequence in sequences:
            del pending[sequence]
        if not pending:
            del self._pending[key]

    def await_first(
        self, topic: bytes, producer: bytes, sequences: Sequence[int], repeater: Repeater
    ) -> None:
        """End the repeater's connection if the first copies are refused."""
        pending = self._pending.get((topic, producer), {})
        firsts = [pending[one] for one in sequences if one in pending]
        for first in {id(first): first for first in firsts}.values():
            first.repeaters.append(repeater)
