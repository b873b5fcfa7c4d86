"""A minimal Redis client for the campaign: one request, one answer, no retries."""

import asyncio
from typing import Any, Self

import hiredis

__all__ = ["RespClient", "RespError"]

ANSWER_S = 6.0


class RespError(Exception):
    """The broker answered with an error."""


class RespClient:
    """One connection. After an OSError or TimeoutError the outcome of the last request is unknown."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._replies = hiredis.Reader()

    @classmethod
    async def open(cls, port: int) -> Self:
        """Connect to a node."""
        async with asyncio.timeout(ANSWER_S):
            return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, *words: bytes | str | int) -> Any:
        """Send a request; raises RespError, OSError, TimeoutError."""
        parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        head = b"*%d\r\n" % len(parts)
        self._writer.write(head + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
        async with asyncio.timeout(ANSWER_S):
            while (reply := self._replies.gets()) is False:
                data = await self._reader.read(65536)
                if not data:
                    raise ConnectionError
                self._replies.feed(data)
        if isinstance(reply, hiredis.ReplyError):
            raise RespError(str(reply))
        return reply

    def close(self) -> None:
        """Close the connection."""
        self._writer.transport.abort()
