"""A connection of the RESP door without a socket, in a real broker's loop."""

import asyncio
from typing import Any

import hiredis

from penstock.doors.resp.connection import RespConnection
from penstock.net.origin import Origin
from penstock.testing import AsyncBroker


class Transport:
    """Notes what is written; says that its buffer is as full as the test wants it to be."""

    def __init__(self) -> None:
        self.written = b""
        self.buffered = 0
        self.is_reading = True
        self.is_closed = False

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return self.buffered

    def get_extra_info(self, name: str) -> Any:
        return {"peername": ("192.0.2.7", 4711), "sockname": ("192.0.2.1", 6379)}.get(name)

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, pieces: list[bytes]) -> None:
        self.write(b"".join(pieces))

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    abort = close


class Client:
    """A client of ``broker``: ``send`` what it sends; ``replies`` is what it was sent, parsed."""

    def __init__(self, broker: AsyncBroker) -> None:
        self.parts = broker.server.parts
        self.transport: Any = Transport()
        self.connection = RespConnection(
            broker.server.parts.resp_door, self.transport, Origin(self.parts.monotonic())
        )

    def send(self, *arguments: bytes) -> None:
        self.connection.data_received(command(*arguments))

    def send_all(self, *commands: bytes) -> None:
        """Send commands, words between blanks, in one chunk."""
        self.connection.data_received(b"".join(command(*each.split()) for each in commands))

    @property
    def replies(self) -> list[Any]:
        reader = hiredis.Reader(replyError=lambda text: ("error", text))
        reader.feed(self.transport.written)
        replies = []
        while (reply := reader.gets()) is not False:
            replies.append(reply)
        return replies

    def payloads(self, kind: bytes = b"message") -> list[bytes]:
        """Payloads of the messages that it was sent."""
        return [reply[-1] for reply in self.replies if isinstance(reply, list) and reply[0] == kind]


def command(*arguments: bytes) -> bytes:
    bulks = b"".join(b"$%d\r\n%b\r\n" % (len(argument), argument) for argument in arguments)
    return b"*%d\r\n%b" % (len(arguments), bulks)


async def settle(broker: AsyncBroker, *clients: Client) -> None:
    """Wait until everything is on disk, every replay is over and everything is written."""
    while True:
        await broker.server.parts.pipeline.drain()
        await asyncio.sleep(0)
        if not any(_is_replaying(client) for client in clients):
            break
    for client in clients:
        client.connection.outbox.flush()


def _is_replaying(client: Client) -> bool:
    own = client.connection.subscriptions._own
    return own is not None and bool(own.replays.topics)
