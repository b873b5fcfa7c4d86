"""Output that waits to be written to one client, within bounds; one write per turn of the loop.

``_live`` has live messages: if the client reads slowly, the oldest are dropped and counted.
``_out`` has what must arrive. Senders check ``is_full`` and read the rest from the journal later;
only answers remain, and a client that sends without ever reading those is closed.

Most clients of a broker are idle: while nothing waits there is no list, only the one empty tuple.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from penstock.limits import KIB, STRANGER_OUTPUT_BYTES_MAX
from penstock.net.connections import Connections
from penstock.obs.reasons import DisconnectReason, DropReason

WRITE_BUFFER_HIGH = 256 * KIB  # bytes in the transport above which it calls ``pause``


class OutboxClient(Protocol):
    """The connection, as its outgoing half sees it."""

    def close(self, reason: DisconnectReason, detail: str = "") -> None: ...


class Outbox:
    """The outgoing half of a connection, which it ends if the client does not read."""

    __slots__ = (
        "_client",
        "_connections",
        "_is_closed",
        "_is_due",
        "_is_live_stale",
        "_is_paused",
        "_is_restricted",
        "_is_squeezed",
        "_live",
        "_live_bytes",
        "_live_counts",
        "_out",
        "_out_bytes",
        "_room",
        "_transport",
        "counted",
        "when_resumed",
    )

    def __init__(
        self,
        connections: Connections,
        transport: asyncio.Transport,
        client: OutboxClient,
    ) -> None:
        self._connections = connections
        self._transport = transport
        self._client = client
        self._live: list[bytes] | tuple[()] = ()
        self._live_counts: list[int] | tuple[()] = ()  # messages in each piece of ``_live``
        self._live_bytes = 0
        self._out: list[bytes] | tuple[()] = ()
        self._out_bytes = 0
        self._is_due = False
        self._is_live_stale = False  # whether live messages must be renewed before they are sent
        self._is_paused = False
        self._is_closed = False
        self._is_restricted = False  # whether the client has yet to log in
        self._is_squeezed = False  # whether the transport calls ``resume`` only when it is empty
        self.when_resumed: Callable[[], None] | None = None  # for readers that found no room
        self.counted = 0  # bytes counted against the budget of all connections
        self._room = min(WRITE_BUFFER_HIGH, connections.limits.outbound_bytes_max // 2)
        """Bytes that may gather, here and again in the transport, before messages are deferred.

        The transport pauses at the same mark: deferred messages are fetched when it has drained.
        """
        transport.set_write_buffer_limits(high=self._room)

    def restrict(self, *, is_stranger: bool) -> None:
        """Hold little for a client that has yet to log in; hold as much as usual once it has."""
        if is_stranger != self._is_restricted:
            self._is_restricted = is_stranger
            self._transport.set_write_buffer_limits(
                high=STRANGER_OUTPUT_BYTES_MAX if is_stranger else self._room
            )

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

    def flush(self) -> None:
        self._is_due = False
        if self._is_closed:
            return
        if self._live and self._connections.budget.is_tight and not self._is_paused:
            self._squeeze_live()
        if self._is_paused:
            self._keep_bounds()
        else:
            self._write()
        self.refresh()

    def _write(self) -> None:
        if self._live:
            self.take_live()
        if self._out:
            data = b"".join(self._out) if len(self._out) > 1 else self._out[0]
            self._out = ()
            self._out_bytes = 0
            self._connections.counters.bytes_out_total += len(data)
            self._transport.write(data)

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

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        if self._is_squeezed:
            self._is_squeezed = False
            self._transport.set_write_buffer_limits(high=self._room)
        self.flush()
        if self.when_resumed is not None:
            self.when_resumed()

    def close(self) -> None:
        if not self._is_closed:
            self._is_paused = False
            self.flush()
            self._is_closed = True
        self._live = self._live_counts = ()
        self._live_bytes = 0
        self.refresh()

    def _keep_bounds(self) -> None:
        bound = self._connections.limits.outbound_bytes_max
        budget = self._connections.budget
        if budget.is_tight:
            others = self._out_bytes + self._transport.get_write_buffer_size()
            left = budget.bytes_max - budget.used + self.counted
            bound = max(0, min(bound, left - others))
            if self._is_paused:
                bound = max(0, min(bound, budget.share - others))
        is_strange = self._is_restricted and self._out_bytes > STRANGER_OUTPUT_BYTES_MAX
        if is_strange or self._is_beyond_bound():
            detail = f"{self._out_bytes} bytes of answers unread"
            self._client.close(DisconnectReason.SLOW_READER, detail)
        elif self._live_bytes > bound:
            # Down to three quarters, so that the next drop is a while away.
            self._drop_oldest(self._live_bytes - bound * 3 // 4)

    def refresh(self) -> None:
        held = self._out_bytes + self._live_bytes + self._transport.get_write_buffer_size()
        if held != self.counted:
            self._connections.budget.note(self, held)

    def forget(self) -> None:
        self._connections.budget.forget(self)

    def give_up(self) -> None:
        detail = f"{self.counted} bytes unread, and other clients wait for the room"
        self._client.close(DisconnectReason.SLOW_READER, detail)

    def _is_beyond_share(self) -> bool:
        """Whether the budget has no room; if so, ``resume`` is called later."""
        self.refresh()
        if self._connections.budget.room(self.counted) > 0:
            return False
        if not self._squeeze():
            self._connections.budget.wait(self)
        return True

    def _squeeze_live(self) -> None:
        """Keep live messages where they can be dropped if they would wait in the transport."""
        if self._transport.get_write_buffer_size():
            self._squeeze(with_live=False)
        if not self._is_paused:
            self._keep_bounds()

    def _squeeze(self, *, with_live: bool = True) -> bool:
        if not self._is_paused and with_live:
            self._write()
            self.refresh()
        if not self._transport.get_write_buffer_size() or self._transport.is_closing():
            return False
        self._is_squeezed = True
        self._transport.set_write_buffer_limits(high=0)  # which calls ``pause``
        return True

    def _is_beyond_bound(self) -> bool:
        return self._out_bytes > self._connections.limits.outbound_bytes_max

    def _drop_oldest(self, excess: int) -> None:
        dropped = taken = 0
        while dropped < excess:
            dropped += self._held_bytes(self._live[taken])
            taken += 1
        count = sum(self._live_counts[:taken])
        self._live = list(self._live[taken:])
        self._live_counts = list(self._live_counts[taken:])
        self._live_bytes -= dropped
        self._connections.counters.drops[DropReason.SLOW_READER] += count

    def _held_bytes(self, piece: bytes) -> int:
        """What a piece of ``_live`` counts."""
        return len(piece)

    def is_idle(self) -> bool:
        return not (self._is_closed or self._is_paused or self.is_full())

    def is_full(self) -> bool:
        """Whether messages should be deferred.

        A batch can exceed the bound, so the transport is filled as we go.
        """
        if self._connections.budget.is_tight and self._is_beyond_share():
            return True
        if self._out_bytes <= self._room:
            return False
        if self._is_paused:
            return True
        self._write()
        return self._transport.get_write_buffer_size() > self._room
