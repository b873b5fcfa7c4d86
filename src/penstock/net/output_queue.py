"""What waits to be written to one client: gathered during a turn of the loop, one write at its end.

``_live`` has live messages, ``_out`` what must arrive, which goes first. Bounds are up to
``Outbox``, which is asked whenever something is not as usual: the client is paused, or the budget
of all connections is tight.

Most clients of a broker are idle: while nothing waits there is no list, only the one empty tuple.
"""

import asyncio
from typing import TYPE_CHECKING

from penstock import kernel
from penstock.net.connections import Connections

__all__ = ["OutputQueue"]

JOINED_BYTES_MAX = 512  # mean size of pieces up to which copying them into one costs least


class OutputQueue:
    """Gathers output and writes it."""

    __slots__ = (
        "_connections",
        "_is_closed",
        "_is_due",
        "_is_live_stale",
        "_is_paused",
        "_live",
        "_live_bytes",
        "_live_counts",
        "_out",
        "_out_bytes",
        "_transport",
        "counted",
        "frames_bytes_max",
        "frames_version",
    )

    def __init__(self, connections: Connections, transport: asyncio.Transport) -> None:
        self._connections = connections
        self._transport = transport
        self._live: list[bytes] | tuple[()] = ()
        self._live_counts: list[int] | tuple[()] = ()  # messages in each piece of ``_live``
        self._live_bytes = 0
        self._out: list[bytes] | tuple[()] = ()
        self._out_bytes = 0
        self._is_due = False
        self._is_live_stale = False  # whether live messages must be renewed before they are sent
        self._is_paused = False
        self._is_closed = False
        self.counted = 0  # bytes counted against the budget of all connections
        # packets of a publisher that the client can get as they are: version of MQTT, bytes at most
        self.frames_version = 0
        self.frames_bytes_max = 0

    def send(self, data: bytes) -> None:
        if self._is_closed:
            return
        if self._out:
            self._out.append(data)
        else:
            self._out = [data]
        self._out_bytes += len(data)
        if not self._is_due:
            self._is_due = True
            self._connections.flusher.flush_soon(self)

    def send_live(self, count: int, frames: bytes) -> None:
        if self._is_closed:
            return
        if self._live:
            self._live.append(frames)
            self._live_counts.append(count)  # type: ignore[union-attr]  # as long as ``_live``
        else:
            self._live = [frames]
            self._live_counts = [count]
        self._live_bytes += len(frames)
        if not self._is_due:
            self._is_due = True
            self._connections.flusher.flush_soon(self)

    def send_headed(self, count: int, head: bytes, owner: bytes, start: int, end: int) -> None:
        """``send_live`` a part of what was read, with a head before it."""
        self.send_live(count, head + owner[start:end])

    def flush(self) -> None:
        self._is_due = False
        if self._is_closed:
            return
        if self._is_paused or self._connections.budget.is_tight:
            self.flush_bounded()
        else:
            self._write()
        self.refresh()

    def flush_bounded(self) -> None:
        """Write what may be written while the client is paused or the budget is tight."""
        raise NotImplementedError

    def _write(self) -> None:
        if self._live:
            self.take_live()
        if self._out:
            pieces, self._out = self._out, ()
            self._out_bytes = 0
            size = sum(map(len, pieces))
            self._connections.counters.bytes_out_total += size
            if len(pieces) == 1:
                self._transport.write(pieces[0])
            elif size <= JOINED_BYTES_MAX * len(pieces):
                self._transport.write(b"".join(pieces))
            else:
                self._transport.writelines(pieces)

    def take_live(self) -> None:
        """Move live messages behind what must arrive: they will be sent, and count as such."""
        if self._is_live_stale:
            self._is_live_stale = False
            self.renew_live()
        self._connections.counters.messages_out_total[0] += sum(self._live_counts)
        if self._out:
            self._out += self._live
        else:
            self._out = self._live
        self._out_bytes += self._live_bytes
        self._live = self._live_counts = ()
        self._live_bytes = 0

    def renew_live(self) -> None:
        """Write live messages again that say something about this moment."""

    def live_pieces(self) -> tuple[list[bytes], list[int]]:
        """Live messages that wait, and how many are in each piece."""
        return list(self._live), list(self._live_counts)

    def replace_live(self, pieces: list[bytes], counts: list[int], size: int) -> None:
        """Let others wait instead, which count ``size`` bytes."""
        self._live = pieces or ()
        self._live_counts = counts or ()
        self._live_bytes = size

    def refresh(self) -> None:
        held = self._out_bytes + self._live_bytes + self._transport.get_write_buffer_size()
        if held != self.counted:
            self._connections.budget.note(self, held)  # type: ignore[arg-type]  # an outbox


if not TYPE_CHECKING and kernel.is_compiled:
    from penstock.kernel.output_queue import OutputQueue
