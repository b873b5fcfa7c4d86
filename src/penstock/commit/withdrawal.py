"""Splits a batch whose commands are void in part.

A batch can be refused although most of it is sound, and a sound batch can hold messages that must
not be written because earlier ones of the same publisher were refused. In both cases it is split by
its steps into two batches, each in the original order.

Captured messages belong to no step; they stay with the valid part. This runs only after a failed
commit, so it need not be fast.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from penstock.commit.pending_batch import OVERHEAD_BYTES, PendingBatch, Step
from penstock.core.commands import (
    Authored,
    Command,
    Published,
    PublishedBy,
    Received,
    TopicGone,
    to_event,
)
from penstock.store.batch import Batch
from penstock.store.extras import extras_bytes

# commands that belong to a message, and go with it
_OF_PUBLISHES = {Published, PublishedBy, Received, Authored}

PositionRange = tuple[int, int]  # of messages: the first, and one past the last


def withdraw(refused: PendingBatch, pending: PendingBatch) -> tuple[PendingBatch, PendingBatch]:
    """Split ``pending``: what stays, and what publishers sent after messages in ``refused``.

    They will send all of it again. If the later messages were written now, they would precede the
    earlier ones. Only connections that are closed on a refusal, or told which messages are refused
    (MQTT 5), wait for publishes as a waiter; requests of other protocols are independent, and each
    has its own reply.
    """
    publishers = {waiter for command, waiter, _ in refused.steps if type(command) is Published}
    publishers.discard(None)
    void = {
        number
        for number, (command, waiter, _) in enumerate(pending.steps)
        if type(command) in _OF_PUBLISHES and waiter in publishers
    }
    return cut(pending, void) if void else (pending, PendingBatch())


def cut(group: PendingBatch, void: set[int]) -> tuple[PendingBatch, PendingBatch]:
    """Split ``group``: the valid steps, and those whose numbers are in ``void``.

    Checkpoint rows are in neither part.
    """
    count = group.batch.count
    gone = [
        (command.position, command.position + len(command.payloads))
        for number, (command, _, _) in enumerate(group.steps)
        if number in void and isinstance(command, Published) and command.payloads
    ]
    kept = _part(group, _Selection(_gaps(gone, count)), lambda number: number not in void)
    return kept, _part(group, _Selection(gone), lambda number: number in void)


def _gaps(ranges: list[PositionRange], count: int) -> list[PositionRange]:
    """The gaps between these ranges, up to ``count``."""
    starts = [0, *(end for _, end in ranges)]
    ends = [*(start for start, _ in ranges), count]
    return [(start, end) for start, end in zip(starts, ends, strict=True) if start < end]


class _Selection:
    """Some of the messages of a batch, by position."""

    def __init__(self, ranges: list[PositionRange]) -> None:
        self._starts = [start for start, _ in ranges]
        self._ends = [end for _, end in ranges]
        self._before = [0]
        for start, end in ranges:
            self._before.append(self._before[-1] + end - start)

    def before(self, position: int) -> int:
        """How many selected messages precede a position: the position in the new batch."""
        number = bisect_right(self._starts, position)
        if not number:
            return 0
        return self._before[number] - max(0, self._ends[number - 1] - position)

    def has(self, position: int) -> bool:
        number = bisect_right(self._starts, position)
        return bool(number) and position < self._ends[number - 1]


def _part(group: PendingBatch, chosen: _Selection, has_step: Callable[[int], bool]) -> PendingBatch:
    part = PendingBatch()
    part.began_at, part.opened_at = group.began_at, group.opened_at
    part.is_patient, part.is_urgent = group.is_patient, group.is_urgent
    old, batch = group.batch, part.batch
    places = _copy_messages(old, batch, chosen)
    _copy_steps(group, part, chosen, has_step)
    gone = {step.topic for step, _, _ in part.steps if isinstance(step, TopicGone)}
    batch.drops = {topic: None for topic in old.drops if topic in gone}
    for topic, place, count, waiter, time_ms in group.offset_waiters:
        if place in places[topic]:
            part.offset_waiters.append((topic, places[topic][place], count, waiter, time_ms))
    batch.term = old.term if part.bound else 0
    part.overhead_bytes = _overhead(part.steps)
    return part


def _copy_messages(old: Batch, new: Batch, chosen: _Selection) -> dict[bytes, dict[int, int]]:
    """Copy the chosen messages; return, by topic, old index to new index."""
    topics = list(old.topics)
    places: dict[bytes, dict[int, int]] = {topic: {} for topic in topics}
    seen = [0] * len(topics)
    for position, group, count, time_ms, flags in old.each_run():
        topic, place = topics[group], seen[group]
        taken = [n for n in range(count) if chosen.has(position + n)]
        first = new.messages_of(topic)
        places[topic] |= {place + n: first + number for number, n in enumerate(taken)}
        payloads = old.payloads_between(position, position + count)
        new.append(topic, [payloads[n] for n in taken], time_ms, flags)
        seen[group] += count
    for topic in new.topics:
        _copy_notes(old, new, topic, places[topic])
    return places


def _copy_notes(old: Batch, new: Batch, topic: bytes, moved: dict[int, int]) -> None:
    extras = {moved[n]: found for n, found in old.extras.get(topic, {}).items() if n in moved}
    if extras:
        new.extras[topic] = extras
        new.payload_bytes += sum(map(extras_bytes, extras.values()))
    for place, count, producer, seq in old.producers.get(topic, ()):
        for n in range(count):  # runs of several connections may have been joined
            if place + n in moved:
                new.add_producer_run(topic, moved[place + n], 1, producer, seq + n)


def _copy_steps(
    group: PendingBatch, part: PendingBatch, chosen: _Selection, has_step: Callable[[int], bool]
) -> None:
    """Copy steps with their events; not every durable step has one."""
    events, next_event = group.batch.events, 0
    bound = group.bound_steps
    for number, (command, waiter, durable) in enumerate(group.steps):
        event = None
        if durable and command is not None and not isinstance(command, Published):
            rest = events[next_event : next_event + 1]
            if rest and rest[0][1] == to_event(command):
                event = rest[0]
                next_event += 1
        if not has_step(number):
            continue
        if event is not None:
            part.batch.events.append((chosen.before(event[0]), event[1]))
        if number in bound:
            part.bound.append(range(len(part.steps), len(part.steps) + 1))
        part.steps.append((_moved(command, chosen), waiter, durable))


def _moved(command: Command | None, chosen: _Selection) -> Command | None:
    if isinstance(command, Published):
        return replace(command, position=chosen.before(command.position))
    return command


def _overhead(steps: Iterable[Step]) -> int:
    overhead = 0
    for command, _, durable in steps:
        if isinstance(command, Published):
            overhead += (OVERHEAD_BYTES + len(command.topic)) * len(command.payloads)
        else:
            overhead += OVERHEAD_BYTES * durable
    return overhead
