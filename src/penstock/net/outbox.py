"""Output that waits to be written to one client, within bounds (``net.output_queue`` gathers it).

If the client reads slowly, the oldest live messages are dropped and counted. Of what must arrive,
senders check ``is_full`` and read the rest from the journal later; only answers remain, and a
client that sends without ever reading those is closed.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from penstock.limits import KIB, STRANGER_OUTPUT_BYTES_MAX
from penstock.net.connections import Connections
from penstock.net.output_queue import OutputQueue
from penstock.obs.reasons import DisconnectReason, DropReason

WRITE_BUFFER_HIGH = 256 * KIB  # bytes in the transport above which it calls ``pause``


class OutboxClient(Protocol):
    """The connection, as its outgoing half sees it."""

    @property
    def name(self) -> bytes: ...
    def close(self, reason: DisconnectReason, detail: str = "") -> None: ...


class Outbox(OutputQueue):
    """The outgoing half of a connection, which it ends if the client does not read."""

    __slots__ = (
        "_client",
        "_is_restricted",
        "_is_squeezed",
        "_room",
        "dropped",
        "when_resumed",
    )

    def __init__(
        self,
        connections: Connections,
        transport: asyncio.Transport,
        client: OutboxClient,
    ) -> None:
        super().__init__(connections, transport)
        self._client = client
        self._is_restricted = False  # whether the client has yet to log in
        self.dropped = 0  # live messages that gave way
        self._is_squeezed = False  # whether the transport calls ``resume`` only when it is empty
        self.when_resumed: Callable[[], None] | None = None  # for readers that found no room
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

    @property
    def waiting_bytes(self) -> int:
        """What waits here and in the transport."""
        self.refresh()
        return self.counted

    def flush_bounded(self) -> None:
        if self._live_bytes and self._connections.budget.is_tight and not self._is_paused:
            self._squeeze_live()
        if self._is_paused:
            self._keep_bounds()
        else:
            self._write()

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
        self.replace_live([], [], 0)
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
        live, counts = self.live_pieces()
        dropped = taken = 0
        while dropped < excess:
            dropped += self._held_bytes(live[taken])
            taken += 1
        self.replace_live(live[taken:], counts[taken:], self._live_bytes - dropped)
        count = sum(counts[:taken])
        self.dropped += count
        self._connections.counters.dropped(
            DropReason.SLOW_READER,
            count,
            self._client.name,
            detail=f"{dropped} bytes of QoS 0 unread",
        )

    def _held_bytes(self, piece: bytes) -> int:
        """What a piece of live messages counts."""
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
