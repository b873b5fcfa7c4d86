"""The RESP door: makes a connection of each transport that turned out to speak RESP."""

import asyncio

from penstock.doors.resp.connection import RespConnection
from penstock.doors.resp.parts import RespParts


class RespDoor(RespParts):
    """Accepts the Redis clients of one broker."""

    def accept(self, transport: asyncio.Transport, data: bytes, accepted_at: float) -> None:
        RespConnection(self, transport, accepted_at).data_received(data)
