"""Cutting a group of the line in two: what is void, and what still stands.

A batch can be refused although most of it is sound, and a sound batch can hold what must not be
written any more because something before it was refused. In both cases the group is divided by its
steps. Each part is a group of its own, with its own batch, and keeps the order that it had.

Messages that no step speaks for were captured; they stay with what still stands. This runs only
when a commit was refused, so it may take its time.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from penstock.commit.pending_batch import OVERHEAD_BYTES, PendingBatch, Step
from penstock.core.commands import Command, Published, Received, TopicGone, to_event
from penstock.store.batch import RUN_WIDTH, Batch, TopicBatch
from penstock.store.extras import extras_bytes
from penstock.store.producers import producer_run_bytes

Stretch = tuple[int, int]
"""Positions of messages: the first, and one past the last."""


def behind(refused: PendingBatch, group: PendingBatch) -> set[int]:
    """The steps of ``group`` that publish for those who published something that is refused.

    Only who is closed when a message is refused, and sends it again, waits for publishes as
    a waiter. The requests of other doors stand for themselves: each has its own answer.
    """
    publishers = {waiter for command, waiter, _ in refused.steps if type(command) is Published}
    publishers.discard(None)
    return {
        number
        for number, (command, waiter, _) in enumerate(group.steps)
        if type(command) in {Published, Received} and waiter in publishers
    }


def cut(group: PendingBatch, void: set[int]) -> tuple[PendingBatch, PendingBatch]:
    """Divide ``group``: the steps that still stand, and those whose numbers are in ``void``.

    Checkpoint rows are in neither part.
    """
    count = group.batch.count
    gone = [
        (command.position, command.position + len(command.payloads))
        for number, (command, _, _) in enumerate(group.steps)
        if number in void and isinstance(command, Published) and command.payloads
    ]
    kept = _part(group, _Selection(_others(gone, count)), lambda number: number not in void)
    return kept, _part(group, _Selection(gone), lambda number: number in void)


def _others(stretches: list[Stretch], count: int) -> list[Stretch]:
    """The stretches between these, up to ``count``."""
    starts = [0, *(end for _, end in stretches)]
    ends = [*(start for start, _ in stretches), count]
    return [(start, end) for start, end in zip(starts, ends, strict=True) if start < end]


class _Selection:
    """Some of the messages of a batch, by position."""

    def __init__(self, stretches: list[Stretch]) -> None:
        self._starts = [start for start, _ in stretches]
        self._ends = [end for _, end in stretches]
        self._before = [0]
        for start, end in stretches:
            self._before.append(self._before[-1] + end - start)

    def before(self, position: int) -> int:
        """How many selected messages stand before a position: what it is called in the part."""
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
    for topic, place, count, waiter, time_ms in group.tell:
        if place in places[topic]:
            part.tell.append((topic, places[topic][place], count, waiter, time_ms))
    batch.term = old.term if part.bound else 0
    part.overhead_bytes = _overhead(part.steps)
    return part


def _copy_messages(old: Batch, new: Batch, chosen: _Selection) -> dict[bytes, dict[int, int]]:
    """Copy the messages that are chosen; return by topic where each of them was, and is."""
    places: dict[bytes, dict[int, int]] = {}
    for topic, messages in old.groups.items():
        copied, moved = TopicBatch(), places.setdefault(topic, {})
        place = 0
        for first in range(0, len(messages.runs), RUN_WIDTH):
            position, count, time_ms, flags = messages.runs[first : first + RUN_WIDTH]
            taken = [n for n in range(count) if chosen.has(position + n)]
            if taken:
                copied.runs += (chosen.before(position), len(taken), time_ms, flags)
            for number in taken:
                moved[place + number] = len(copied.payloads)
                copied.payloads.append(messages.payloads[place + number])
            place += count
        if copied.payloads:
            new.groups[topic] = copied
            new.count += len(copied.payloads)
            new.payload_bytes += sum(map(len, copied.payloads))
            _copy_notes(old, new, topic, moved)
    return places


def _copy_notes(old: Batch, new: Batch, topic: bytes, moved: dict[int, int]) -> None:
    """Copy what stands beside the messages of a topic."""
    extras = {moved[n]: found for n, found in old.extras.get(topic, {}).items() if n in moved}
    if extras:
        new.extras[topic] = extras
        new.payload_bytes += sum(map(extras_bytes, extras.values()))
    notes = [
        (moved[place], count, producer, seq)
        for place, count, producer, seq in old.producers.get(topic, ())
        if place in moved
    ]
    if notes:
        new.producers[topic] = notes
        new.payload_bytes += sum(map(producer_run_bytes, notes))


def _copy_steps(
    group: PendingBatch, part: PendingBatch, chosen: _Selection, has_step: Callable[[int], bool]
) -> None:
    """Copy steps with their events. Not every durable step has one: some only live in memory."""
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
