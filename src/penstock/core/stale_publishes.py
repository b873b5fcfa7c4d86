"""Messages that came too late, and would be there twice: QoS 2, numbered ones, and schedules.

**QoS 2**: publishes over a connection that its client has left for another node.

A batch may be delayed for long: its node is cut off from the leader, and sends it when it is back.
Meanwhile the client may have moved to another node and repeated what was unfinished, with the same
packet ids. For QoS 2 that must not become a second message, but nothing could tell once the first
copy is in the journal after the second. So the leader checks before it proposes a batch, when
everything committed is known, and refuses stale publishes. Clients that are still there repeat
them.

**Numbered publishes** of the binary protocol (``core.producers``) are repeated at another node in
the same way. What the node could not know, the leader does: whether a number is in the journal.

**Schedules**: a leader that was refused for lack of a quorum does not know whether its batch will
be in the log all the same, and publishes the same firing again. Of two such batches the later is
refused (``core.schedules.is_due``).
"""

from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec

from penstock.core.commands import (
    Received,
    ScheduleCancelled,
    ScheduleFired,
    ScheduleMade,
    SessionOpened,
    from_event,
)
from penstock.core.producers import Producers
from penstock.core.schedules import Schedules, is_due
from penstock.core.session import Session
from penstock.model.message import OWN_PRODUCERS

Moving = frozenset[tuple[bytes, int, int, int]]
"""Producers of numbered publishes, with node, incarnation and number of the batch they are in."""


ProducerRuns = Mapping[bytes, Sequence[tuple[int, int, bytes, int]]]
"""By topic: the place of some messages, their number, their producer, its first seq."""


def moving(runs: ProducerRuns, node: int, incarnation: int, number: int) -> Moving:
    """The producers that may have repeated their messages in another batch.

    Those of the queue protocol have not: the leader alone takes theirs.
    """
    return frozenset(
        (producer, node, incarnation, number)
        for of_topic in runs.values()
        for _, _, producer, _ in of_topic
        if producer.startswith(OWN_PRODUCERS)
    )


def meet(earlier: Moving, later: Moving, follows: int) -> bool:
    """Whether a producer of ``later`` is in ``earlier``, and its node may not know of that.

    That is another node, or the same, which has given up the earlier batch: then it is not among
    those up to ``follows``, which the node knew when it made the later one.
    """
    if not earlier or not later:
        return False
    places: dict[bytes, set[tuple[int, int, int]]] = {}
    for producer, *place in earlier:
        places.setdefault(producer, set()).add((place[0], place[1], place[2]))
    return any(
        (other, other_incarnation) != (node, incarnation) or number > follows
        for producer, node, incarnation, _ in later
        for other, other_incarnation, number in places.get(producer, ())
    )


def has_stored_number(runs: ProducerRuns, dropped: Container[bytes], producers: Producers) -> bool:
    """Whether the journal has one of these messages already. On any thread.

    ``dropped``: topics that are deleted before.
    """
    return any(
        producers.has_any_now(topic, producer, seq, count)
        for topic, of_topic in runs.items()
        if topic not in dropped
        for _, count, producer, seq in of_topic
        if producer.startswith(OWN_PRODUCERS)
    )


def _tag(event: type[msgspec.Struct]) -> object:
    return event.__struct_config__.tag


_RECEIVED, _FIRED = _tag(Received), _tag(ScheduleFired)
_MAY_BE_STALE = {_RECEIVED, _FIRED}
_MAKE_STALE = {_tag(SessionOpened), _FIRED, _tag(ScheduleMade), _tag(ScheduleCancelled)}

Events = Iterable[tuple[int, tuple[object, ...]]]


def may_be_stale(events: Events) -> bool:
    """Whether the events are about messages of which ``is_stale`` can tell."""
    return any(event[0] in _MAY_BE_STALE for _, event in events)


def makes_stale(events: Events) -> bool:
    """Whether the events include what may make other messages stale."""
    return any(event[0] in _MAKE_STALE for _, event in events)


def fires(events: Events) -> bool:
    """Whether the events include firings of schedules."""
    return any(event[0] == _FIRED for _, event in events)


def is_stale(events: Events, sessions: Mapping[bytes, Session], schedules: Schedules) -> bool:
    """Whether the messages of the events must not be written, because they were already."""
    return has_stale_publish(events, sessions) or _has_stale_firing(events, schedules)


def _has_stale_firing(events: Events, schedules: Schedules) -> bool:
    fired = (from_event(event) for _, event in events if event[0] == _FIRED)
    return any(isinstance(event, ScheduleFired) and _was_made(event, schedules) for event in fired)


def _was_made(fired: ScheduleFired, schedules: Schedules) -> bool:
    schedule = schedules.get(fired.name)
    return schedule is None or not is_due(schedule, fired)


def has_stale_publish(events: Events, sessions: Mapping[bytes, Session]) -> bool:
    """Whether the events include QoS 2 messages of a client that is at another node by now."""
    found = (from_event(event) for _, event in events if event[0] == _RECEIVED)
    return any(isinstance(event, Received) and _is_stale(event, sessions) for event in found)


def _is_stale(received: Received, sessions: Mapping[bytes, Session]) -> bool:
    """A session that no longer exists repeats nothing; one with its name is another."""
    session = sessions.get(received.client_id)
    return session is not None and received.connection not in {0, session.connection}
