"""Turns an entry of the log back into commands, for recovery and for batches of other nodes.

This node's own commands are applied as the objects that were submitted, each with its waiter. In
the log they are events and messages; ``commands_of`` restores the commands in their order.
"""

from collections import deque
from collections.abc import Callable, Iterator

from penstock.core.commands import Command, Published, from_event
from penstock.model.message import (
    FLAG_CONTENT_TYPE,
    FLAG_QOS,
    FLAG_RETAIN,
    FLAG_RETAIN_UNKEPT,
    Extras,
)
from penstock.model.stages import is_staged
from penstock.store.batch import Batch
from penstock.store.entry import Entry

_Extras = list[Extras | None] | None

_Run = tuple[int, bytes, list[bytes], int, int, _Extras]
"""Position, topic, payloads, time, flags, extras."""

_MARKS = FLAG_CONTENT_TYPE | FLAG_RETAIN_UNKEPT


def commands_of(source: Batch | Entry) -> Iterator[Command]:
    """The commands in order, without captured messages, which are not applied.

    An event precedes the message at its position. A run that continues across an event is split.
    """
    runs = _batch_runs(source, _is_applied) if isinstance(source, Batch) else _entry_runs(source)
    events = deque(source.events)
    for run in runs:
        position, payloads = run[0], run[2]
        done, count = 0, len(payloads)
        while events and events[0][0] < position + count:
            place, event = events.popleft()
            if place > position + done:
                yield _published(run, done, place - position)
                done = place - position
            yield from_event(event)
        yield _published(run, done, count)
    for _, event in events:
        yield from_event(event)


def _published(run: _Run, start: int, end: int) -> Published:
    """The messages of a run from ``start`` to ``end``."""
    position, topic, payloads, time_ms, flags, extras = run
    if end - start < len(payloads):
        payloads = payloads[start:end]
        extras = extras and extras[start:end]
    qos, retain, marks = flags & FLAG_QOS, bool(flags & FLAG_RETAIN), flags & _MARKS
    return Published(
        topic, payloads, qos, retain, position + start, time_ms, [], False, extras, marks
    )


def _is_applied(flags: int) -> bool:
    return flags != 0


def _entry_runs(entry: Entry) -> Iterator[_Run]:
    for message in entry.messages(_is_applied):
        position = message.sequence - entry.base_sequence
        extras: _Extras = [message.extras] if message.extras is not None else None
        yield position, message.topic, [message.payload], message.time_ms, message.flags, extras


def live_of(batch: Batch) -> Iterator[tuple[bytes, list[bytes], _Extras, int]]:
    """QoS 0 messages, which the publisher's node delivered live without waiting for the log."""
    for _, topic, payloads, _, flags, extras in _batch_runs(batch, lambda f: not f & FLAG_QOS):
        if not is_staged(topic):
            yield topic, payloads, extras, flags


def _batch_runs(batch: Batch, is_wanted: Callable[[int], bool]) -> Iterator[_Run]:
    topics = list(batch.topics)
    seen = [0] * len(topics)  # messages of each topic so far; extras are found by that number
    for position, group, count, time_ms, flags in batch.each_run():
        topic, first = topics[group], seen[group]
        seen[group] += count
        if is_wanted(flags):
            payloads = batch.payloads_between(position, position + count)
            known = batch.extras.get(topic) if batch.extras else None
            extras: _Extras = None
            if known:
                extras = [known.get(number) for number in range(first, first + count)]
            yield position, topic, payloads, time_ms, flags, extras
