"""Sends a copy of the store to a node that is too far behind for entries.

The copy is of one moment: a small database, and the files of blocks, which are open while they are
sent, whatever becomes of them meanwhile (:mod:`penstock.store.copies.store_copy`). The other node
gets the database, and asks for the blocks that it does not have from an earlier attempt.

Threads read, hash and seal what is sent; the event loop sends no faster than the other node and the
rate limit allow. Removed blocks occupy the disk for as long as they are open. So a transfer has a
time limit, and a node sends one at a time.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from hashlib import blake2b
from typing import Protocol

from penstock.cluster.dialing import PeerDialer
from penstock.cluster.faults import PeerFault
from penstock.cluster.handshake import TAKES_BLOCKS, PeerSession, Purpose
from penstock.cluster.peer_connection import PeerConnection
from penstock.cluster.peer_stats import PeerStats, SnapshotProgress, TransportStats
from penstock.cluster.snapshot_frames import (
    CHUNK_BYTES,
    DIGEST_BYTES,
    SnapshotAnswer,
    SnapshotBegin,
    SnapshotBlock,
    SnapshotChunk,
    SnapshotEnd,
    SnapshotFrame,
    SnapshotSize,
    SnapshotWanted,
    decode_snapshot_reply,
    encode_snapshot_frame,
)
from penstock.errors import PenstockError
from penstock.obs.log import get_logger
from penstock.obs.reasons import PeerReason
from penstock.raft.types import NodeId, RaftMessage
from penstock.store.copies.copied_store import CopiedBlock, StoreCopy

TIME_LIMIT_S = 1800.0  # for one copy: 100 GiB at the default rate
STALL_S = 30.0  # longest wait for the other node to take more, or to answer
WISHES_MAX = 64  # lists of blocks that may wait; the other node sends one at a time
BUSY_S = 5.0  # while the copy is made, the other node hears from us this often


class CopySource(Protocol):
    """Makes a copy of the store, in any thread, as long as it is wanted."""

    def __call__(self, is_wanted: Callable[[], bool]) -> StoreCopy: ...


class SnapshotSender:
    """Sends snapshots, one at a time. ``report`` hears the outcome of each, in a later turn."""

    def __init__(
        self,
        *,
        copy: CopySource,
        source: str,
        dialer: PeerDialer,
        rate_bytes: int,
        report: Callable[[NodeId, bool], None],
        stats: TransportStats,
        time_limit_s: float = TIME_LIMIT_S,
    ) -> None:
        """``source`` identifies the store that ``copy`` copies."""
        self._copy = copy
        self._source = source
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
        stats = self._stats.of(node)
        is_ok = False
        try:
            sent = await self._send(node, address, message)
            is_ok, stats.snapshot_trouble = True, ""
            self._log.info("snapshot_sent", node=node, bytes=sent.bytes, blocks=sent.blocks)
        except (PenstockError, OSError) as error:  # a TimeoutError is an OSError
            text = str(error) or "it took too long"
            stats.snapshot_trouble = text
            self._log.warning("snapshot_failed", node=node, detail=text)
        finally:
            self._task = None
            stats.snapshot = SnapshotProgress()
            stats.snapshots_sent += is_ok
            stats.snapshots_failed += not is_ok
        self._report(node, is_ok)

    async def _send(self, node: NodeId, address: str, message: RaftMessage) -> "_Sent":
        transfer = _Transfer(node, self._dialer)
        try:
            async with asyncio.timeout(self._time_limit_s):
                await transfer.open(address)
                begin = SnapshotBegin(message, has_blocks=True, source=self._source)
                await transfer.send(begin)
                copy = await self._copied(transfer)
                try:
                    stats = self._stats.of(node)
                    return await _Sending(copy, transfer, self._rate_bytes, stats).run()
                finally:
                    copy.close()
        finally:
            transfer.close()

    async def _copied(self, transfer: "_Transfer") -> StoreCopy:
        """The copy, made in a thread; the other node hears meanwhile that we are at it."""
        is_over = False
        loop = asyncio.get_running_loop()
        making = loop.run_in_executor(None, self._copy, lambda: not is_over)
        try:
            while not (await asyncio.wait([making], timeout=BUSY_S))[0]:
                await transfer.send(SnapshotChunk(b""))
        except BaseException:
            is_over = True
            making.add_done_callback(_close_copy)
            raise
        return making.result()


def _close_copy(made: "asyncio.Future[StoreCopy]") -> None:
    if not made.cancelled() and made.exception() is None:
        made.result().close()


class _Sent:
    """What was really sent."""

    def __init__(self) -> None:
        self.bytes = 0
        self.blocks = 0


class _Sending:
    """One copy on its way."""

    def __init__(
        self, copy: StoreCopy, transfer: "_Transfer", rate_bytes: int, stats: PeerStats
    ) -> None:
        self._copy = copy
        self._transfer = transfer
        self._rate_bytes = rate_bytes
        self._stats = stats
        self._progress = stats.snapshot
        self._blocks = {block.summary.number: block for block in copy.blocks}
        self._sent = _Sent()
        self._started = asyncio.get_running_loop().time()

    async def run(self) -> _Sent:
        copy, transfer, progress = self._copy, self._transfer, self._progress
        progress.bytes_total, progress.blocks_total = copy.total_bytes, len(copy.blocks)
        await transfer.send(SnapshotSize(len(copy.blocks), copy.total_bytes))
        await self._send_file(copy.database, copy.database_bytes)
        while (wanted := await transfer.wanted()) is not None:
            progress.bytes, progress.blocks = wanted.size, wanted.blocks
            for number in wanted.numbers:
                await self._send_block(self._block(number))
        return self._sent

    def _block(self, number: int) -> CopiedBlock:
        block = self._blocks.get(number)
        if block is None:
            text = f"the other node asks for block {number:016x}, which was not offered"
            raise PeerFault(PeerReason.MALFORMED_FRAME, text)
        return block

    async def _send_block(self, block: CopiedBlock) -> None:
        await self._transfer.send(SnapshotBlock(block.summary.number, block.file_bytes))
        await self._send_file(block.file, block.file_bytes)
        self._progress.blocks += 1
        self._sent.blocks += 1
        self._stats.snapshot_blocks_sent += 1

    async def _send_file(self, file: int, size: int) -> None:
        loop, transfer = asyncio.get_running_loop(), self._transfer
        digest = blake2b(digest_size=DIGEST_BYTES)

        def read(at: int) -> list[bytes]:
            data = os.pread(file, min(CHUNK_BYTES, size - at), at)
            digest.update(data)
            return transfer.packed(SnapshotChunk(data))

        for at in range(0, size, CHUNK_BYTES):
            await transfer.until_writable()
            transfer.send_packed(await loop.run_in_executor(None, read, at))
            self._sent.bytes += min(CHUNK_BYTES, size - at)
            self._progress.bytes += min(CHUNK_BYTES, size - at)
            due = self._started + self._sent.bytes / self._rate_bytes
            await asyncio.sleep(max(0.0, due - loop.time()))
        await transfer.send(SnapshotEnd(size, digest.digest()))


class _Transfer:
    """The connection of one snapshot."""

    def __init__(self, node: NodeId, dialer: PeerDialer) -> None:
        self._node = node
        self._dialer = dialer
        self._changed = asyncio.Event()
        self._fault: PeerFault | None = None
        self.connection: PeerConnection | None = None
        self._session: PeerSession | None = None
        self._wanted: list[SnapshotWanted] = []
        self._is_taken = False
        self.wake = self._changed.set  # check the condition of ``until`` again

    async def open(self, address: str) -> None:
        self.connection = await self._dialer.dial(self, self._node, address, Purpose.SNAPSHOT)
        await self.until(lambda: self._session is not None)
        assert self._session is not None
        if not self._session.features & TAKES_BLOCKS:
            raise PeerFault(
                PeerReason.WRONG_VERSION,
                f"node {self._node} runs an earlier version, which takes no blocks of a store",
                "Update Penstock on that node; it gets a copy of the store then.",
            )

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait; raises PeerFault if the connection ends, TimeoutError if nothing moves."""
        async with asyncio.timeout(STALL_S):
            while not condition():
                self._check()
                self._changed.clear()
                await self._changed.wait()

    async def wanted(self) -> SnapshotWanted | None:
        """What the other node asks for next; None: it has taken everything."""
        await self.until(lambda: bool(self._wanted) or self._is_taken)
        return self._wanted.pop(0) if self._wanted else None

    async def send(self, frame: SnapshotFrame) -> None:
        await self.until_writable()
        self.send_packed(self.packed(frame))

    async def until_writable(self) -> None:
        """Wait until the socket takes more; raises PeerFault if the connection has ended."""
        connection = self.connection
        assert connection is not None
        await self.until(lambda: not connection.is_paused or connection.is_over)
        self._check()

    def packed(self, frame: SnapshotFrame) -> list[bytes]:
        """What is sent next, in any thread."""
        assert self.connection is not None
        return self.connection.packed([encode_snapshot_frame(frame)])

    def send_packed(self, pieces: list[bytes]) -> None:
        self._check()
        assert self.connection is not None
        self.connection.send_packed(pieces)

    def _check(self) -> None:
        if self._fault is not None:
            raise self._fault

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close(PeerReason.NODE_STOPPED, "the snapshot is over")

    def opened(self, connection: PeerConnection, session: PeerSession) -> None:
        self._dialer.check_certificate(connection, self._node)
        self._session = session
        self.wake()

    def received(self, _connection: PeerConnection, payload: bytes) -> None:
        """Take a wish, or the answer. A refusal may come early."""
        match decode_snapshot_reply(payload):
            case SnapshotWanted() as wanted if len(self._wanted) < WISHES_MAX:
                self._wanted.append(wanted)
            case SnapshotWanted():
                raise PeerFault(PeerReason.MALFORMED_FRAME, "the other node asks for too much")
            case SnapshotAnswer(is_ok=False, message=message):
                text = f"the other node does not take it: {message}"
                raise PeerFault(PeerReason.NODE_STOPPED, text)
            case SnapshotAnswer():
                self._is_taken = True
        self.wake()

    def writable(self, _connection: PeerConnection) -> None:
        self.wake()

    def ended(self, _connection: PeerConnection, fault: PeerFault) -> None:
        self._fault = fault
        self.wake()
