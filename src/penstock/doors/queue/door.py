"""The door of the queue protocol: makes a connection of a socket that speaks it."""

import asyncio

from penstock.doors.queue.connection import QueueConnection
from penstock.doors.queue.parts import QueueParts
from penstock.net.origin import Origin


class QueueDoor(QueueParts):
    """Takes in the clients of the queue protocol."""

    def accept(self, transport: asyncio.Transport, data: bytes, origin: Origin) -> None:
        QueueConnection(self, transport, origin).data_received(data)
