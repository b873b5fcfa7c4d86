"""MQTT clients for which messages are read from the journal, a few at a time.

If thousands of persistent sessions reconnect at once, their payloads would fill the memory. So each
client reads as much as it may hold and joins the queue again once that is sent.
"""

from collections import deque
from typing import Protocol

from penstock.net.connections import Connections

FETCHES_MAX = 4  # clients served at a time: twice as many as there are threads that read


class FetchingOutbox(Protocol):
    """An outbox with deferred deliveries."""

    counted: int  # bytes it holds

    @property
    def least_bytes(self) -> int: ...  # room that its next message needs
    def is_ready_to_fetch(self) -> bool: ...
    def fetch(self, room: int) -> bool: ...  # begin to read; False if there is no room for anything


class FetchQueue:
    """Calls ``fetch`` of each outbox when it may read from the journal."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._waiting: deque[FetchingOutbox] = deque()
        self._running = 0

    def join(self, outbox: FetchingOutbox) -> None:
        self._waiting.append(outbox)
        self.resume()

    def resume(self) -> None:
        budget = self._connections.budget
        while self._waiting and self._running < FETCHES_MAX:
            outbox = self._waiting[0]
            room = budget.room(outbox.counted)
            if outbox.is_ready_to_fetch() and room < outbox.least_bytes and not outbox.counted:
                budget.wait(self)
                return
            self._waiting.popleft()
            self._running += outbox.fetch(room)

    def done(self) -> None:
        self._running -= 1
        self._connections.loop.call_soon(self.resume)
