"""The door of the queue protocol: makes a connection of a socket that speaks it."""

import asyncio

from penstock.doors.queue.connection import QueueConnection
from penstock.doors.queue.parts import QueueParts


class QueueDoor(QueueParts):
    """Takes in the clients of the queue protocol."""

    def accept(self, transport: asyncio.Transport, data: bytes, accepted_at: float) -> None:
        QueueConnection(self, transport, accepted_at).data_received(data)
