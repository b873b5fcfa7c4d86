"""Publishes over a connection that its client has left for another node.

A batch may be delayed for long: its node is cut off from the leader, and sends it when it is back.
Meanwhile the client may have moved to another node and repeated what was unfinished, with the same
packet ids. For QoS 2 that must not become a second message, but nothing could tell once the first
copy is in the journal after the second. So the leader checks before it proposes a batch, when
everything committed is known, and refuses stale publishes. Clients that are still there repeat
them.
"""

from collections.abc import Iterable, Mapping

from penstock.core.commands import Received, SessionOpened, from_event, to_event
from penstock.core.session import Session

_RECEIVED = to_event(Received(b"", []))[0]  # tag of these events
_OPENED = to_event(SessionOpened(b"", 0, clean=True, will=None))[0]

Events = Iterable[tuple[int, tuple[object, ...]]]


def has_publish(events: Events) -> bool:
    """Whether the events include QoS 2 messages, of which ``has_stale_publish`` can tell."""
    return any(event[0] == _RECEIVED for _, event in events)


def opens_sessions(events: Events) -> bool:
    """Whether the events include what may make other publishes stale."""
    return any(event[0] == _OPENED for _, event in events)


def has_stale_publish(events: Events, sessions: Mapping[bytes, Session]) -> bool:
    """Whether the events include QoS 2 messages of a client that is at another node by now."""
    found = (from_event(event) for _, event in events if event[0] == _RECEIVED)
    return any(isinstance(event, Received) and _is_stale(event, sessions) for event in found)


def _is_stale(received: Received, sessions: Mapping[bytes, Session]) -> bool:
    """A session that no longer exists repeats nothing; one with its name is another."""
    session = sessions.get(received.client_id)
    return session is not None and received.connection not in {0, session.connection}
