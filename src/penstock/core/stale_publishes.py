"""What came by a connection that its client has left for another node.

A batch may be on its way for long: its node is cut off from the leader, and sends it when it is no
more. Meanwhile a client may have gone to another node. What it had not finished there, it repeats
here, by the same packet ids. For QoS 2 that must not be a second message, but nobody could tell any
more once the first copy is in the journal behind the second. So whoever leads looks before: all
that was decided is known then, and what is late is refused. Its clients, if they are still there,
repeat it.
"""

from collections.abc import Iterable, Mapping

from penstock.core.commands import Received, from_event, to_event
from penstock.core.session import Session

_RECEIVED = to_event(Received(b"", []))[0]  # the tag of such an event


def has_stale_publish(
    events: Iterable[tuple[int, tuple[object, ...]]], sessions: Mapping[bytes, Session]
) -> bool:
    """Whether QoS 2 messages are among what came, of a client that is elsewhere by now."""
    found = (from_event(event) for _, event in events if event[0] == _RECEIVED)
    return any(isinstance(event, Received) and _is_stale(event, sessions) for event in found)


def _is_stale(received: Received, sessions: Mapping[bytes, Session]) -> bool:
    """A session that is no more repeats nothing: whoever has the name now has another one."""
    session = sessions.get(received.client_id)
    return session is not None and received.connection not in {0, session.connection}
