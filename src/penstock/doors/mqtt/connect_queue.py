"""MQTT clients whose CONNECT is to be answered.

If all clients of a broker reconnect at once, one commit with all of their sessions would block the
loop. So only ``OPENING_MAX`` are in the pipeline at a time; the others wait here, in order.

A client whose id has another CONNECT unanswered waits for that answer, so each client gets its
CONNACK before another takes its session over. Clients that fight for an id are delayed after their
first take-overs (``Takeovers.delay_s``).
"""

from collections import deque
from collections.abc import Mapping
from typing import Protocol

from penstock.core.session import Session
from penstock.net.connections import Connections
from penstock.obs.reasons import DisconnectReason

OPENING_MAX = 32  # clients whose session is being opened
SAME_ID_MAX = 16  # clients that wait for one id; of more, the first is closed


class ConnectingClient(Protocol):
    """A connection that has sent CONNECT."""

    reason: DisconnectReason | None

    @property
    def name(self) -> bytes: ...  # its client id
    def open(self) -> None: ...  # open the session
    def close(self, reason: DisconnectReason, detail: str = "") -> None: ...


class ConnectQueue:
    """Calls ``open`` of each connection when it may open its session."""

    def __init__(self, connections: Connections, sessions: Mapping[bytes, Session]) -> None:
        self._connections = connections
        self._sessions = sessions
        self._opening: dict[bytes, ConnectingClient] = {}
        self._rivals: dict[bytes, deque[ConnectingClient]] = {}  # wait for the one with their id
        self._waiting: deque[ConnectingClient] = deque()

    def join(self, client: ConnectingClient) -> None:
        client_id = client.name
        if client_id in self._opening:
            rivals = self._rivals.setdefault(client_id, deque())
            rivals.append(client)
            if len(rivals) > SAME_ID_MAX:
                rivals.popleft().close(DisconnectReason.SESSION_TAKEN_OVER)
        elif len(self._opening) >= OPENING_MAX or self._waiting:
            self._waiting.append(client)
        else:
            self._begin(client)

    def _begin(self, client: ConnectingClient) -> None:
        self._opening[client.name] = client
        session = self._sessions.get(client.name)
        is_taken = session is not None and session.connected
        delay_s = self._connections.takeovers.delay_s(client.name) if is_taken else 0.0
        if delay_s:
            self._connections.loop.call_later(delay_s, self._open, client)
        else:
            client.open()

    def _open(self, client: ConnectingClient) -> None:
        if client.reason is None:
            client.open()
        else:
            self.leave(client)

    def leave(self, client: ConnectingClient) -> None:
        if self._opening.get(client.name) is client:
            del self._opening[client.name]
            rivals = self._rivals.get(client.name)
            if rivals:
                self._waiting.appendleft(rivals.popleft())
            if not rivals:
                self._rivals.pop(client.name, None)
            if self._waiting:
                self._connections.loop.call_soon(self._begin_next)

    def _begin_next(self) -> None:
        while self._waiting and len(self._opening) < OPENING_MAX:
            client = self._waiting.popleft()
            if client.name in self._opening:
                self._rivals.setdefault(client.name, deque()).append(client)
            elif client.reason is None:
                self._begin(client)
            elif rivals := self._rivals.pop(client.name, None):
                self._waiting.extendleft(reversed(rivals))
