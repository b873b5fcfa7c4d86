"""The line of MQTT clients whose CONNECT is to be answered.

**A few at a time.** Opening a persistent session is a command that is journaled, and applying it
sends what waited for the client. If all clients of a broker come back at once, so many commands in
one commit would be one long turn of the loop. So few are in the line to the disk at a time, and the
others wait here, in order.

**One of each id.** A client that presents an id whose last CONNECT is still unanswered waits until
it is answered. Each client thus gets its CONNACK before another takes its session over.

**A fight for an id** is two clients that throw each other out as fast as they can. The first
take-overs of an id are free; after those, a newcomer waits a little (``Takeovers.delay_s``).
"""

from collections import deque
from typing import TYPE_CHECKING

from penstock.obs.reasons import DisconnectReason

if TYPE_CHECKING:
    from penstock.doors.mqtt.connection import MqttConnection
    from penstock.node.hub import Hub


OPENING_MAX = 32
"""Clients whose session is being opened at a time."""

SAME_ID_MAX = 16
"""Clients that wait for one id; of more, the one that came first goes."""


class ConnectQueue:
    """Who is being let in, and who waits for that."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._opening: dict[bytes, MqttConnection] = {}
        """By client id, those who are being let in."""
        self._rivals: dict[bytes, deque[MqttConnection]] = {}
        """By client id, those who wait for the one with the same id."""
        self._waiting: deque[MqttConnection] = deque()

    def join(self, connection: "MqttConnection") -> None:
        """Have ``connection.open`` called when it is its turn, at once if nothing is before it."""
        client_id = connection.name
        if client_id in self._opening:
            rivals = self._rivals.setdefault(client_id, deque())
            rivals.append(connection)
            if len(rivals) > SAME_ID_MAX:
                rivals.popleft().close(DisconnectReason.SESSION_TAKEN_OVER)
        elif len(self._opening) >= OPENING_MAX or self._waiting:
            self._waiting.append(connection)
        else:
            self._begin(connection)

    def _begin(self, connection: "MqttConnection") -> None:
        self._opening[connection.name] = connection
        session = self._hub.broker.sessions.get(connection.name)
        is_taken = session is not None and session.connected
        delay_s = self._hub.connections.takeovers.delay_s(connection.name) if is_taken else 0.0
        if delay_s:
            self._hub.loop.call_later(delay_s, self._open, connection)
        else:
            connection.open()

    def _open(self, connection: "MqttConnection") -> None:
        if connection.reason is None:
            connection.open()
        else:
            self.left(connection)

    def left(self, connection: "MqttConnection") -> None:
        """Its CONNECT was answered, or nobody waits for the answer any more: let others in."""
        if self._opening.get(connection.name) is connection:
            del self._opening[connection.name]
            rivals = self._rivals.get(connection.name)
            if rivals:
                self._waiting.appendleft(rivals.popleft())
            if not rivals:
                self._rivals.pop(connection.name, None)
            if self._waiting:
                self._hub.loop.call_soon(self._let_in)

    def _let_in(self) -> None:
        while self._waiting and len(self._opening) < OPENING_MAX:
            connection = self._waiting.popleft()
            if connection.name in self._opening:
                self._rivals.setdefault(connection.name, deque()).append(connection)
            elif connection.reason is None:
                self._begin(connection)
            elif rivals := self._rivals.pop(connection.name, None):
                self._waiting.extendleft(reversed(rivals))
