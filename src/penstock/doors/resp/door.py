"""The RESP door: makes a connection of each transport that turned out to speak RESP."""

import asyncio

from penstock.doors.resp.connection import RespConnection
from penstock.doors.resp.parts import RespParts
from penstock.net.origin import Origin


class RespDoor(RespParts):
    """Accepts the Redis clients of one broker."""

    def accept(self, transport: asyncio.Transport, data: bytes, origin: Origin) -> None:
        RespConnection(self, transport, origin).data_received(data)
