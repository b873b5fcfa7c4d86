"""A link to one node for one purpose: a queue, and a connection that is made again when it is lost.

Heartbeats never wait behind entries: control and bulk have a link each. What cannot be sent is
dropped, and the owner is told: consensus tolerates loss, and knows better than a queue what is
worth sending later. So the queue is bounded, is cleared when the connection is lost, and stays
empty during backoff. All frames of one iteration of the loop leave in one write.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Protocol

from penstock.cluster.dialing import PeerDialer
from penstock.cluster.faults import PeerFault
from penstock.cluster.handshake import PeerSession, Purpose
from penstock.cluster.peer_connection import PeerConnection
from penstock.cluster.peer_stats import TransportStats
from penstock.limits import MIB
from penstock.obs.reasons import PeerReason
from penstock.raft.types import NodeId

QUEUE_BYTES_MAX = {Purpose.CONTROL: 4 * MIB, Purpose.BULK: 64 * MIB}  # of one node
WRITE_BYTES = MIB  # what the socket gets at once, before it is asked whether it takes more

BACKOFF_S_MIN = 0.05
BACKOFF_S_MAX = 2.0  # fast at first, since most losses are restarts
STEADY_S = 1.0  # after a connection that lasted this long, backoff starts over


def backoff_s(attempt: int, roll: Callable[[int], int]) -> float:
    """Seconds before an attempt, from 0. Half is random: nodes must not retry in step."""
    whole = min(BACKOFF_S_MAX, BACKOFF_S_MIN * (1 << min(attempt, 16)))
    return whole * (0.5 + roll(1_000) / 2_000)


class PeerLinkOwner(Protocol):
    """The transport, as its links see it."""

    stats: TransportStats

    def link_opened(self, node: NodeId, session: PeerSession) -> None: ...

    def link_ended(self, node: NodeId, fault: PeerFault) -> None: ...


class PeerLink:
    """Connects, and connects again, from the first ``connect_to`` until ``stop``."""

    def __init__(
        self,
        owner: PeerLinkOwner,
        node: NodeId,
        purpose: Purpose,
        dialer: PeerDialer,
        roll: Callable[[int], int],
    ) -> None:
        self.node = node
        self.purpose = purpose
        self.address = ""
        self.is_open = False  # both sides are authenticated, and frames leave
        self.queue_bytes = 0
        self._owner = owner
        self._dialer = dialer
        self._stats = owner.stats.of(node)
        self._roll = roll
        self._loop = asyncio.get_running_loop()
        self._queue: deque[bytes] = deque()
        self._connection: PeerConnection | None = None
        self._opened_at = float("inf")
        self._is_flush_due = False
        self._attempt = 0
        self._over: asyncio.Future[PeerFault] | None = None  # the end of the current connection
        self._retry_now = asyncio.Event()
        self._is_backing_off = False
        self._task: asyncio.Task[None] | None = None

    @property
    def features(self) -> int:
        """What the program at the other end can do; 0 while there is no connection."""
        session = self._connection.session if self._connection and self.is_open else None
        return session.features if session is not None else 0

    def connect_to(self, address: str) -> None:
        if address == self.address:
            return
        self.address = address
        self._attempt = 0
        if self._task is None:
            self._task = self._loop.create_task(self._run())
        self._close("the node has another address now")
        self._retry_now.set()

    def renew(self, incarnation: int) -> None:
        """The node is up: connect at once, and close a connection to an earlier incarnation."""
        session = self._connection.session if self._connection else None
        if session is not None and session.incarnation != incarnation:
            self._close("the node was restarted", PeerReason.NEW_INCARNATION)
        self._attempt = 0
        self._retry_now.set()

    def send(self, payload: bytes) -> bool:
        """Queue a frame; False if it is dropped."""
        if self._is_backing_off or (
            self._queue and self.queue_bytes + len(payload) > QUEUE_BYTES_MAX[self.purpose]
        ):
            self._stats.drops += 1
            return False
        self._queue.append(payload)
        self.queue_bytes += len(payload)
        if self.is_open and not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)
        return True

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._close("this node no longer needs the connection")
        self._clear()

    async def _run(self) -> None:
        while True:
            fault = await self._connect()
            if self._loop.time() - self._opened_at >= STEADY_S:
                self._attempt = 0
            self._stats.drops += len(self._queue)
            self._clear()
            self._owner.link_ended(self.node, fault)
            await self._back_off()

    async def _connect(self) -> PeerFault:
        self._retry_now.clear()
        self._opened_at = float("inf")
        self._over = self._loop.create_future()
        try:
            self._connection = await self._dialer.dial(self, self.node, self.address, self.purpose)
        except PeerFault as fault:
            return fault
        return await self._over

    async def _back_off(self) -> None:
        self._is_backing_off = True
        try:
            async with asyncio.timeout(backoff_s(self._attempt, self._roll)):
                await self._retry_now.wait()
        except TimeoutError:
            self._attempt += 1
        finally:
            self._is_backing_off = False

    def _close(self, text: str, reason: PeerReason = PeerReason.NODE_STOPPED) -> None:
        if self._connection is not None:
            self._connection.close(reason, text)

    def _clear(self) -> None:
        self._queue.clear()
        self.queue_bytes = 0

    def opened(self, connection: PeerConnection, session: PeerSession) -> None:
        self._dialer.check_certificate(connection, self.node)
        self._connection = connection
        self.is_open = True
        self._opened_at = self._loop.time()
        self._stats.connects += 1
        self._owner.link_opened(self.node, session)
        self._flush()

    def received(self, _connection: PeerConnection, _payload: bytes) -> None:
        raise PeerFault(PeerReason.MALFORMED_FRAME, "a frame came over a connection that we made")

    def writable(self, _connection: PeerConnection) -> None:
        self._flush()

    def ended(self, _connection: PeerConnection, fault: PeerFault) -> None:
        self._connection = None
        self.is_open = False
        if self._over is not None and not self._over.done():
            self._over.set_result(fault)

    def _flush(self) -> None:
        self._is_flush_due = False
        while self.is_open and self._queue and self._connection is not None:
            if self._connection.is_paused:
                return
            self._connection.send(self._next_write())

    def _next_write(self) -> list[bytes]:
        payloads: list[bytes] = []
        size = 0
        while self._queue and size < WRITE_BYTES:
            payload = self._queue.popleft()
            size += len(payload)
            payloads.append(payload)
        self.queue_bytes -= size
        self._stats.frames_out += len(payloads)
        self._stats.bytes_out += size
        return payloads
