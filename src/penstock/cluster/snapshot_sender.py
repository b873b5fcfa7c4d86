"""Sends a copy of the store to a node that is too far behind for entries.

The copy is LMDB's own, of one moment. A thread writes it into a pipe; the event loop reads the pipe
no faster than the other node and the rate limit allow. Meanwhile LMDB cannot reuse the pages of
that moment. So a copy has a time limit, and a node sends one at a time. If the loop stops reading,
the copy meets a closed pipe and ends.
"""

import asyncio
import contextlib
import fcntl
import os
import threading
from collections.abc import Callable
from hashlib import blake2b
from typing import Self

from penstock.cluster.dialing import PeerDialer
from penstock.cluster.faults import PeerFault
from penstock.cluster.handshake import PeerSession, Purpose
from penstock.cluster.peer_connection import PeerConnection
from penstock.cluster.peer_stats import PeerStats, TransportStats
from penstock.cluster.snapshot_frames import (
    CHUNK_BYTES,
    DIGEST_BYTES,
    SnapshotBegin,
    SnapshotChunk,
    SnapshotEnd,
    SnapshotFrame,
    decode_snapshot_answer,
    encode_snapshot_frame,
)
from penstock.errors import PenstockError
from penstock.obs.log import get_logger
from penstock.obs.reasons import PeerReason
from penstock.raft.types import NodeId, RaftMessage

TIME_LIMIT_S = 1800.0  # for one copy: 100 GiB at the default rate
STALL_S = 30.0  # longest wait for the other node to take more, or to answer at the end


class SnapshotSender:
    """Sends snapshots, one at a time. ``report`` hears the outcome of each, in a later turn."""

    def __init__(
        self,
        *,
        copy: Callable[[int], None],
        dialer: PeerDialer,
        rate_bytes: int,
        report: Callable[[NodeId, bool], None],
        stats: TransportStats,
        time_limit_s: float = TIME_LIMIT_S,
    ) -> None:
        self._copy = copy
        self._dialer = dialer
        self._rate_bytes = rate_bytes
        self._report = report
        self._stats = stats
        self._time_limit_s = time_limit_s
        self._task: asyncio.Task[None] | None = None
        self._log = get_logger("cluster")

    @property
    def is_busy(self) -> bool:
        return self._task is not None

    def start(self, node: NodeId, address: str, message: RaftMessage) -> None:
        """Send a copy to a node. Reports a failure if another copy is in flight."""
        loop = asyncio.get_running_loop()
        if self._task is not None:
            loop.call_soon(self._report, node, False)
            return
        self._task = loop.create_task(self._run(node, address, message))

    async def stop(self) -> None:
        task = self._task
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self, node: NodeId, address: str, message: RaftMessage) -> None:
        self._log.info("snapshot_begun", node=node)
        is_ok = False
        try:
            size = await self._send(node, address, message)
            is_ok = True
            self._log.info("snapshot_sent", node=node, bytes=size)
        except (PenstockError, OSError) as error:  # a TimeoutError is an OSError
            text = str(error) or "it took too long"
            self._log.warning("snapshot_failed", node=node, detail=text)
        finally:
            self._task = None
            stats = self._stats.of(node)
            stats.snapshot_bytes = 0
            stats.snapshots_sent += is_ok
            stats.snapshots_failed += not is_ok
        self._report(node, is_ok)

    async def _send(self, node: NodeId, address: str, message: RaftMessage) -> int:
        transfer = _Transfer(node, self._dialer)
        try:
            async with asyncio.timeout(self._time_limit_s):
                await transfer.open(address)
                await transfer.send(SnapshotBegin(message))
                with _Copy(self._copy, transfer.wake) as copy:
                    end = await self._send_copy(copy, transfer, self._stats.of(node))
                await transfer.send(end)
                await transfer.until(lambda: transfer.is_taken)
        finally:
            transfer.close()
        return end.size

    async def _send_copy(
        self, copy: "_Copy", transfer: "_Transfer", stats: PeerStats
    ) -> SnapshotEnd:
        loop = asyncio.get_running_loop()
        started = loop.time()
        digest = blake2b(digest_size=DIGEST_BYTES)
        size = 0
        while data := await self._next(copy, transfer):
            digest.update(data)
            size += len(data)
            await transfer.send(SnapshotChunk(data))
            stats.snapshot_bytes = size
            await asyncio.sleep(max(0.0, started + size / self._rate_bytes - loop.time()))
        copy.check()
        return SnapshotEnd(size, digest.digest())

    @staticmethod
    async def _next(copy: "_Copy", transfer: "_Transfer") -> bytes:
        """The next bytes of the copy; none at the end. Raises PeerFault if the transfer ends."""
        while (data := copy.read()) is None:
            await transfer.until(lambda: copy.is_readable)
        return data


class _Transfer:
    """The connection of one snapshot."""

    def __init__(self, node: NodeId, dialer: PeerDialer) -> None:
        self._node = node
        self._dialer = dialer
        self._changed = asyncio.Event()
        self._fault: PeerFault | None = None
        self.connection: PeerConnection | None = None
        self.is_open = False
        self.is_taken = False
        self.wake = self._changed.set  # check the condition of ``until`` again

    async def open(self, address: str) -> None:
        self.connection = await self._dialer.dial(self, self._node, address, Purpose.SNAPSHOT)
        await self.until(lambda: self.is_open)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait; raises PeerFault if the connection ends, TimeoutError if nothing moves."""
        async with asyncio.timeout(STALL_S):
            while not condition():
                if self._fault is not None:
                    raise self._fault
                self._changed.clear()
                await self._changed.wait()

    async def send(self, frame: SnapshotFrame) -> None:
        """Send a frame once the socket takes more; raises PeerFault if the connection has ended."""
        connection = self.connection
        assert connection is not None
        await self.until(lambda: not connection.is_paused or connection.is_over)
        if self._fault is not None:
            raise self._fault
        connection.send([encode_snapshot_frame(frame)])

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close(PeerReason.NODE_STOPPED, "the snapshot is over")

    def opened(self, connection: PeerConnection, _session: PeerSession) -> None:
        self._dialer.check_certificate(connection, self._node)
        self.is_open = True
        self.wake()

    def received(self, _connection: PeerConnection, payload: bytes) -> None:
        """Take the answer. A refusal may come early."""
        answer = decode_snapshot_answer(payload)
        if not answer.is_ok:
            text = f"the other node does not take it: {answer.message}"
            raise PeerFault(PeerReason.NODE_STOPPED, text)
        self.is_taken = True
        self.wake()

    def writable(self, _connection: PeerConnection) -> None:
        self.wake()

    def ended(self, _connection: PeerConnection, fault: PeerFault) -> None:
        self._fault = fault
        self.wake()


class _Copy:
    """A copy in the making: a thread writes into a pipe, the loop reads from it."""

    def __init__(self, copy: Callable[[int], None], wake: Callable[[], None]) -> None:
        self._copy = copy
        self._wake = wake  # called when there is something to read after there was nothing
        self.is_readable = False
        self._error: Exception | None = None

    def __enter__(self) -> Self:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        with contextlib.suppress(OSError):  # a smaller pipe does, too
            fcntl.fcntl(self._write, fcntl.F_SETPIPE_SZ, CHUNK_BYTES)
        self._thread = threading.Thread(target=self._run, name="penstock-snapshot", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        asyncio.get_running_loop().remove_reader(self._read)
        os.close(self._read)  # a copy that is not done meets a closed pipe, and ends

    def read(self) -> bytes | None:
        """The next bytes, b"" at the end; None if there are none yet: see ``is_readable``."""
        try:
            return os.read(self._read, CHUNK_BYTES)
        except BlockingIOError:
            self.is_readable = False
            asyncio.get_running_loop().add_reader(self._read, self._ready)
            return None

    def check(self) -> None:
        self._thread.join()  # it has closed the pipe, and has nothing left to do
        if self._error is not None:
            raise self._error

    def _ready(self) -> None:
        asyncio.get_running_loop().remove_reader(self._read)
        self.is_readable = True
        self._wake()

    def _run(self) -> None:
        try:
            self._copy(self._write)
        except Exception as error:  # noqa: BLE001 - the loop raises it: see ``check``
            self._error = error
        finally:
            os.close(self._write)
