"""The line of MQTT clients for which messages are read from the journal, a few at a time.

When four thousand persistent sessions come back at once, each is unacked messages that lie in the
journal. Were all read at once, the payloads would wait in memory for the loop to pass them on. So
clients stand in a line; a few are served at a time, each gets as much as it may hold, and joins the
line again once it has passed that on.
"""

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.doors.mqtt.outbox import MqttOutbox
    from penstock.node.hub import Hub


FETCHES_MAX = 4
"""Clients served at a time: twice as many as there are threads that read."""


class FetchQueue:
    """Whoever has deliveries put off, and room for them."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._line: deque[MqttOutbox] = deque()
        self._running = 0

    def join(self, outbox: "MqttOutbox") -> None:
        """Serve this client when its turn comes; once, however often it is asked for."""
        self._line.append(outbox)
        self.resume()

    def resume(self) -> None:
        """Serve those who are next, if there is room for what they get."""
        budget = self._hub.connections.budget
        while self._line and self._running < FETCHES_MAX:
            outbox = self._line[0]
            room = budget.room(outbox.counted)
            if outbox.is_ready_to_fetch() and room < outbox.least_bytes and not outbox.counted:
                budget.wait(self)
                return
            self._line.popleft()
            self._running += outbox.fetch(room)

    def done(self) -> None:
        """One client was served."""
        self._running -= 1
        self._hub.loop.call_soon(self.resume)
