"""Turns an entry of the log back into commands, for recovery and for batches of other nodes.

This node's own commands are applied as the objects that were submitted, each with its waiter. In
the log they are events and messages; ``commands_of`` restores the commands in their order.
"""

from collections import deque
from collections.abc import Callable, Iterator

from penstock.core.commands import Command, Published, from_event
from penstock.model.message import FLAG_QOS, FLAG_RETAIN
from penstock.model.stages import is_staged
from penstock.store.batch import Batch
from penstock.store.entry import Entry

_Run = tuple[int, bytes, list[bytes], int, int]  # position, topic, payloads, time, flags


def commands_of(source: Batch | Entry) -> Iterator[Command]:
    """The commands in order, without captured messages, which are not applied.

    An event precedes the message at its position. A run that continues across an event is split.
    """
    runs = _batch_runs(source, _is_applied) if isinstance(source, Batch) else _entry_runs(source)
    events = deque(source.events)
    for position, topic, payloads, time_ms, flags in runs:
        qos, retain = flags & FLAG_QOS, bool(flags & FLAG_RETAIN)
        done, count = 0, len(payloads)
        while events and events[0][0] < position + count:
            place, event = events.popleft()
            if place > position + done:
                part = payloads[done : place - position]
                yield Published(topic, part, qos, retain, position + done, time_ms, [])
                done = place - position
            yield from_event(event)
        rest = payloads[done:] if done else payloads
        yield Published(topic, rest, qos, retain, position + done, time_ms, [])
    for _, event in events:
        yield from_event(event)


def _is_applied(flags: int) -> bool:
    return flags != 0


def _entry_runs(entry: Entry) -> Iterator[_Run]:
    for message in entry.messages(_is_applied):
        flags = message.qos | (FLAG_RETAIN if message.retain else 0)
        position = message.sequence - entry.base_sequence
        yield position, message.topic, [message.payload], message.time_ms, flags


def live_of(batch: Batch) -> Iterator[tuple[bytes, list[bytes]]]:
    """QoS 0 messages, which the publisher's node delivered live without waiting for the log."""
    for _, topic, payloads, _, _ in _batch_runs(batch, lambda flags: not flags & FLAG_QOS):
        if not is_staged(topic):
            yield topic, payloads


def _batch_runs(batch: Batch, is_wanted: Callable[[int], bool]) -> Iterator[_Run]:
    topics = list(batch.topics)
    for position, group, count, time_ms, flags in batch.each_run():
        if is_wanted(flags):
            payloads = batch.payloads[position : position + count]
            yield position, topics[group], payloads, time_ms, flags
