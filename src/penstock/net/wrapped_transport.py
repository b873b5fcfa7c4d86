"""A transport around another: what TLS and WebSocket have in common.

Such a transport is the protocol of the one below it, and looks like a socket's to the connection
above. Reading, flow control and the end are the lower one's; what is between differs.
"""

import asyncio


class WrappedTransport(asyncio.Transport, asyncio.Protocol):
    """Passes on to ``raw`` whatever does not depend on the bytes."""

    __slots__ = ("_is_closing", "_raw")

    def __init__(self, raw: asyncio.Transport) -> None:
        self._raw = raw
        self._is_closing = False

    def abort(self) -> None:
        self._is_closing = True
        self._raw.abort()

    def is_closing(self) -> bool:
        return self._is_closing or self._raw.is_closing()

    def pause_reading(self) -> None:
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._raw.resume_reading()

    def is_reading(self) -> bool:
        return self._raw.is_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._raw.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._raw.get_write_buffer_limits()

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._raw.get_extra_info(name, default)
