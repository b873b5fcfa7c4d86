"""The lane of HTTP answers without end: event streams.

Other answers have one timer: whoever does not read an answer in time is cut off. A stream lasts as
long as its reader takes something: a reader that takes nothing for ``STREAM_SILENCE_S`` is cut. The
source of a stream has to write more often than that, or a quiet stream would end.

What was written counts as taken when it has left our buffer; the kernel's is bounded, and
``TCP_USER_TIMEOUT`` ends connections whose other end does not acknowledge. Streams do not count as
connections of the door: at most ``STREAMS_MAX`` beside them.
"""

import asyncio
import socket
from collections.abc import Callable

STREAMS_MAX = 32  # a few people with consoles; each may have four
STREAM_SILENCE_S = 30.0
LOOK_S = 5.0  # between two looks at how much a reader has taken
STREAM = "penstock.stream"  # key of a request's scope: ``begin``


class StreamWatch:
    """Looks at one stream, and calls ``on_silent`` once its reader has taken nothing for long."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        silence_s: float,
        on_silent: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._silence_s = silence_s
        self._on_silent = on_silent
        self._look_s = min(LOOK_S, silence_s / 4)
        self._written = 0
        self._taken = 0
        self._took_at = loop.time()
        self._timer = loop.call_later(self._look_s, self._look)

    def wrote(self, count: int) -> None:
        self._written += count

    def _look(self) -> None:
        taken = self._written - self._transport.get_write_buffer_size()
        now = self._loop.time()
        if taken > self._taken:
            self._taken, self._took_at = taken, now
        if now - self._timer.when() > self._look_s:  # the whole broker was stopped: look again
            self._took_at = now
        if now - self._took_at >= self._silence_s:
            self._on_silent()
            return
        self._timer = self._loop.call_later(self._look_s, self._look)

    def cancel(self) -> None:
        self._timer.cancel()


def end_if_unacknowledged(transport: asyncio.Transport, silence_s: float) -> None:
    """Let the kernel end a connection whose other end is gone without a word."""
    opened = transport.get_extra_info("socket")
    if opened is not None and opened.family in {socket.AF_INET, socket.AF_INET6}:
        milliseconds = int(silence_s * 1000)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
