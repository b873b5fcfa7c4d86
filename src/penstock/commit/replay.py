"""What a batch says, to those who did not make it.

Our own commands are applied as the objects that joined the line, for somebody waits for each. Those
of other nodes come as a batch out of the log: events and messages in columns. Here they become
commands again, in the order in which they were given.
"""

from collections import deque
from collections.abc import Callable, Iterator

from penstock.core.commands import Command, Published, from_event
from penstock.model.message import FLAG_QOS, FLAG_RETAIN
from penstock.model.stages import is_staged
from penstock.store.batch import RUN_WIDTH, Batch

_RunOf = tuple[int, bytes, list[bytes], int, int]
"""Position, topic, payloads, time, flags."""


def commands_of(batch: Batch) -> Iterator[Command]:
    """Events, and messages that somebody must apply, in order. Events stand before their place.

    A run may go on across an event: it is cut there.
    """
    events = deque(batch.events)
    for position, topic, payloads, time_ms, flags in _runs(batch, lambda flags: flags != 0):
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


def live_of(batch: Batch) -> Iterator[tuple[bytes, list[bytes]]]:
    """Messages that their publisher's node has passed on already, without waiting for the log."""
    for _, topic, payloads, _, _ in _runs(batch, lambda flags: not flags & FLAG_QOS):
        if not is_staged(topic):
            yield topic, payloads


def _runs(batch: Batch, is_wanted: Callable[[int], bool]) -> list[_RunOf]:
    """Runs of all topics in the order in which they came."""
    found: list[_RunOf] = []
    for topic, group in batch.groups.items():
        first = 0
        for place in range(0, len(group.runs), RUN_WIDTH):
            position, count, time_ms, flags = group.runs[place : place + RUN_WIDTH]
            if is_wanted(flags):
                payloads = group.payloads[first : first + count]
                found.append((position, topic, payloads, time_ms, flags))
            first += count
    if len(batch.groups) > 1:
        found.sort(key=lambda run: run[0])
    return found
