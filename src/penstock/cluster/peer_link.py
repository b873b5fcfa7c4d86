"""Frames on their way to one node: a queue, and a connection that is made again and again.

A lane has one purpose; a node has a lane for control and one for bulk, so that heartbeats never
stand behind entries. Frames are only sent here; what the other node says comes over connections
that it makes.

What can not be sent is dropped, and the owner is told: consensus tolerates loss, and knows better
than a queue what is worth sending later. So the queue is bounded by bytes; it is emptied when the
connection is lost (what follows a gap is of no use); and while the next attempt waits for its time
nothing is queued at all. All frames of one turn of the loop leave in one write.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

from penstock.cluster.dialing import PeerDialer
from penstock.cluster.faults import PeerFault
from penstock.cluster.handshake import PeerSession, Purpose
from penstock.cluster.peer_connection import PeerConnection
from penstock.cluster.peer_stats import PeerStats
from penstock.limits import MIB
from penstock.obs.reasons import PeerReason
from penstock.raft.types import NodeId

QUEUE_BYTES_MAX = {Purpose.CONTROL: 4 * MIB, Purpose.BULK: 64 * MIB}
"""What may wait for one node; a frame that is larger than that may wait alone."""
WRITE_BYTES = MIB
"""What is given to the socket at once, before it is asked whether it takes more."""

BACKOFF_S_MIN = 0.05
BACKOFF_S_MAX = 2.0
"""Fast at first, since most losses are restarts; then at the pace of a person who looks."""
STEADY_S = 1.0
"""A connection that lasted this long was a good one: the next attempt is a first one again."""


def backoff_s(attempt: int, roll: Callable[[int], int]) -> float:
    """How long to wait before an attempt, counted from 0; ``roll(n)`` gives a number below n.

    Half of it is random: nodes that lost each other do not come back in step.
    """
    whole = min(BACKOFF_S_MAX, BACKOFF_S_MIN * (1 << min(attempt, 16)))
    return whole * (0.5 + roll(1_000) / 2_000)


class PeerLink:
    """The way to one node for one purpose. ``ended`` is told why each connection ended."""

    def __init__(
        self,
        node: NodeId,
        purpose: Purpose,
        dialer: PeerDialer,
        *,
        stats: PeerStats,
        roll: Callable[[int], int],
        connected: Callable[[NodeId, PeerSession], None],
        ended: Callable[[NodeId, PeerFault], None],
    ) -> None:
        self.node = node
        self.purpose = purpose
        self.address = ""
        self._dialer = dialer
        self._stats = stats
        self._roll = roll
        self._connected = connected
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._queue: deque[bytes] = deque()
        self._queue_bytes = 0
        self._link: PeerConnection | None = None
        self._is_open = False
        self._opened_at = float("inf")
        self._is_flush_due = False
        self._attempt = 0
        self._over: asyncio.Future[PeerFault] | None = None
        """The end of the connection that there is, or is being made."""
        self._nudge = asyncio.Event()
        self._is_waiting = False
        self._task: asyncio.Task[None] | None = None

    # ── What the transport asks ───────────────────────────────────────────────────────────────

    def head_for(self, address: str) -> None:
        """Connect to this address from now on."""
        if address == self.address:
            return
        self.address = address
        self._attempt = 0
        if self._task is None:
            self._task = self._loop.create_task(self._run())
        self._cut("the node has another address now")
        self._nudge.set()

    def nudge(self) -> None:
        """The node is alive: do not wait with the next attempt."""
        self._attempt = 0
        self._nudge.set()

    def renew(self, incarnation: int) -> None:
        """Cut a connection to an earlier incarnation of the node, and make another at once."""
        session = self._link.session if self._link else None
        if session is not None and session.incarnation != incarnation:
            self._cut("the node was started anew", PeerReason.NEW_INCARNATION)
        self.nudge()

    def send(self, payload: bytes) -> bool:
        """Queue a frame; False if it is dropped."""
        if self._is_waiting or (
            self._queue and self._queue_bytes + len(payload) > QUEUE_BYTES_MAX[self.purpose]
        ):
            self._stats.drops += 1
            return False
        self._queue.append(payload)
        self._queue_bytes += len(payload)
        if self._is_open and not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)
        return True

    async def stop(self) -> None:
        """Close, and try no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._cut("this node has no more business there", PeerReason.NODE_STOPPED)
        self._clear()

    @property
    def is_open(self) -> bool:
        """Whether both sides have proven who they are, and frames leave."""
        return self._is_open

    @property
    def waiting_bytes(self) -> int:
        """Bytes of frames that wait."""
        return self._queue_bytes

    # ── The connection ────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        while True:
            fault = await self._live()
            if self._loop.time() - self._opened_at >= STEADY_S:
                self._attempt = 0
            self._stats.drops += len(self._queue)
            self._clear()
            self._ended(self.node, fault)
            await self._wait()

    async def _live(self) -> PeerFault:
        """One connection, from the attempt to its end."""
        self._nudge.clear()
        self._opened_at = float("inf")
        self._over = self._loop.create_future()
        try:
            self._link = await self._dialer.dial(self, self.node, self.address, self.purpose)
        except PeerFault as fault:
            return fault
        return await self._over

    async def _wait(self) -> None:
        self._is_waiting = True
        try:
            async with asyncio.timeout(backoff_s(self._attempt, self._roll)):
                await self._nudge.wait()
        except TimeoutError:
            self._attempt += 1
        finally:
            self._is_waiting = False

    def _cut(self, text: str, reason: PeerReason = PeerReason.NODE_STOPPED) -> None:
        if self._link is not None:
            self._link.close(reason, text)

    def _clear(self) -> None:
        self._queue.clear()
        self._queue_bytes = 0

    # ── What the connection tells ─────────────────────────────────────────────────────────────

    def opened(self, link: PeerConnection, session: PeerSession) -> None:
        self._dialer.check_certificate(link, self.node)
        self._link = link
        self._is_open = True
        self._opened_at = self._loop.time()
        self._stats.connects += 1
        self._connected(self.node, session)
        self._flush()

    def received(self, _link: PeerConnection, _payload: bytes) -> None:
        """See ``LinkOwner``: nobody answers here."""
        raise PeerFault(PeerReason.MALFORMED_FRAME, "a frame came over a connection that we made")

    def writable(self, _link: PeerConnection) -> None:
        self._flush()

    def ended(self, _link: PeerConnection, fault: PeerFault) -> None:
        self._link = None
        self._is_open = False
        if self._over is not None and not self._over.done():
            self._over.set_result(fault)

    def _flush(self) -> None:
        self._is_flush_due = False
        while self._is_open and self._queue and self._link is not None:
            if self._link.is_paused:
                return
            self._link.send(self._portion())

    def _portion(self) -> list[bytes]:
        portion: list[bytes] = []
        taken = 0
        while self._queue and taken < WRITE_BYTES:
            payload = self._queue.popleft()
            taken += len(payload)
            portion.append(payload)
        self._queue_bytes -= taken
        self._stats.frames_out += len(portion)
        self._stats.bytes_out += taken
        return portion
