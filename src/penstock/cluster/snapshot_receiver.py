"""Receives a copy of another node's store beside our own, while this node goes on serving.

First comes the database, which lists the blocks of the store; then we ask for those that are not
here from an attempt that was cut off. A thread writes, hashes and verifies
(:mod:`penstock.cluster.snapshot_draft`); reading from the socket pauses while too much waits for
the disk. When all is on disk the sender gets its answer, and ``arrived`` is called. The copy is not
in use yet: that needs our own store closed (:mod:`penstock.cluster.install`).
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias, TypeVar, cast

from penstock.cluster.faults import PeerFault
from penstock.cluster.peer_connection import PeerConnection
from penstock.cluster.peer_stats import SnapshotProgress, TransportStats
from penstock.cluster.snapshot_draft import DraftFile, SnapshotDraft
from penstock.cluster.snapshot_frames import (
    WANTED_MAX,
    SnapshotAnswer,
    SnapshotBegin,
    SnapshotBlock,
    SnapshotChunk,
    SnapshotEnd,
    SnapshotSize,
    SnapshotWanted,
    decode_snapshot_frame,
    encode_snapshot_frame,
)
from penstock.errors import PenstockError
from penstock.limits import GIB, MIB
from penstock.obs.log import get_logger
from penstock.obs.reasons import PeerReason
from penstock.raft.types import NodeId, RaftMessage
from penstock.store.blocks.block import BlockSummary
from penstock.store.directory import discard_snapshot, tidy_snapshot

WAITING_BYTES_MAX = 4 * MIB  # what may wait for the disk before reading from the socket pauses
STALL_S = 30.0  # a sender that sends nothing for this long has given up
LOOK_BYTES = GIB  # of kept blocks that are verified before the sender hears from us again
KEPT_S = 900.0  # blocks of an attempt that was cut off are kept for this long

_Frame: TypeAlias = SnapshotSize | SnapshotBlock | SnapshotChunk | SnapshotEnd
T = TypeVar("T")


class SnapshotReceiver:
    """Receives one snapshot at a time, if ``wants`` agrees; after ``arrived``, no other."""

    def __init__(
        self,
        *,
        data: Path,
        wants: Callable[[NodeId, RaftMessage], bool],
        arrived: Callable[[], None],
        stats: TransportStats,
    ) -> None:
        self._data = data
        self._wants = wants
        self._arrived = arrived
        self._stats = stats
        self._incoming: _IncomingSnapshot | None = None
        self._task: asyncio.Task[None] | None = None
        self._has_arrived = False
        self._expiry: asyncio.TimerHandle | None = None
        self._is_stopped = False
        self._log = get_logger("cluster")

    def start(self) -> None:
        """Let blocks that were received before this start be kept for a while."""
        self._expire_later()

    def received(self, connection: PeerConnection, payload: bytes) -> None:
        frame = decode_snapshot_frame(payload)
        if isinstance(frame, SnapshotBegin):
            self._begin(connection, frame)
        elif self._incoming is not None and self._incoming.connection is connection:
            self._incoming.put(frame)  # else it was refused, and has not heard yet

    def ended(self, connection: PeerConnection) -> None:
        incoming = self._incoming
        if self._task is not None and incoming is not None and incoming.connection is connection:
            self._task.cancel()

    async def stop(self) -> None:
        self._is_stopped = True
        if self._expiry is not None:
            self._expiry.cancel()
        task = self._task
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def _begin(self, connection: PeerConnection, begin: SnapshotBegin) -> None:
        assert connection.session is not None
        node = connection.session.node_id
        if self._has_arrived or self._task is not None:
            _refuse(connection, "another snapshot is here already")
        elif not self._wants(node, begin.message):
            _refuse(connection, "it is not needed")
        else:
            incoming = _IncomingSnapshot(connection, begin, self._stats.snapshot)
            self._incoming = incoming
            self._task = asyncio.get_running_loop().create_task(self._receive(incoming, node))

    async def _receive(self, incoming: "_IncomingSnapshot", node: NodeId) -> None:
        self._log.info("snapshot_begins", node=node)
        if self._expiry is not None:
            self._expiry.cancel()
        try:
            draft = await incoming.write(self._data)
        except (PenstockError, OSError) as error:  # a TimeoutError is an OSError
            text = str(error) or f"nothing more came for {STALL_S:g} s"
            self._log.warning("snapshot_refused", node=node, detail=text)
            _refuse(incoming.connection, text)
            self._expire_later()
        except asyncio.CancelledError:
            self._expire_later()
            raise
        else:
            self._has_arrived = True
            self._stats.snapshots_received += 1
            self._log.info(
                "snapshot_arrived",
                node=node,
                bytes=draft.size,
                blocks=draft.blocks,
                blocks_kept=draft.blocks - draft.blocks_received,
            )
            incoming.connection.send([encode_snapshot_frame(SnapshotAnswer(is_ok=True))])
            self._arrived()
        finally:
            self._incoming = self._task = None
            self._stats.snapshot = SnapshotProgress()

    def _expire_later(self) -> None:
        """Remove what was received, unless another attempt begins in time."""
        if self._is_stopped:
            return
        loop = asyncio.get_running_loop()
        self._expiry = loop.call_later(
            KEPT_S, loop.run_in_executor, None, discard_snapshot, self._data
        )


def _refuse(connection: PeerConnection, text: str) -> None:
    if not connection.is_over:
        answer = SnapshotAnswer(is_ok=False, message=text[:512])
        connection.send([encode_snapshot_frame(answer)])


class _IncomingSnapshot:
    """A snapshot that is being received: frames wait here for the disk."""

    def __init__(
        self, connection: PeerConnection, begin: SnapshotBegin, progress: SnapshotProgress
    ) -> None:
        self.connection = connection
        self._begin = begin
        self._progress = progress
        self._frames: asyncio.Queue[_Frame] = asyncio.Queue()
        self._waiting_bytes = 0
        self._job: asyncio.Future[object] | None = None

    def put(self, frame: _Frame) -> None:
        if isinstance(frame, SnapshotChunk):
            self._waiting_bytes += len(frame.data)
            if self._waiting_bytes > WAITING_BYTES_MAX:
                self.connection.pause_reading()
        self._frames.put_nowait(frame)

    async def write(self, data: Path) -> SnapshotDraft:
        """Write everything, flushed. On failure leave only what need not be sent again."""
        draft: SnapshotDraft | None = None
        try:
            draft = await self._off_loop(SnapshotDraft, data, self._begin.source)
            await self._write_database(draft)
            await self._off_loop(draft.finish)
        except BaseException:
            await self._clean_up(data, draft)
            raise
        return draft

    async def _write_database(self, draft: SnapshotDraft) -> None:
        """The database; then the blocks that it lists."""
        if self._begin.has_blocks:
            await self._expect(draft)
        file = await self._off_loop(draft.database)
        end = await self._write_file(file)
        listed = await self._off_loop(draft.take_database, file, end)
        if self._begin.has_blocks:
            self._progress.blocks_total = len(listed)
            for summaries in _lists(listed):
                await self._fetch(draft, summaries)
        elif listed:
            raise _out_of_place("a sender of an earlier version lists blocks")

    async def _expect(self, draft: SnapshotDraft) -> None:
        while isinstance(frame := await self._next(), SnapshotChunk):
            if frame.data:
                raise _out_of_place("a snapshot begins without its size")
        if not isinstance(frame, SnapshotSize):
            raise _out_of_place("a snapshot begins without its size")
        self._progress.bytes_total, self._progress.blocks_total = frame.size, frame.blocks
        await self._off_loop(draft.expect, frame.size)

    async def _fetch(self, draft: SnapshotDraft, summaries: list[BlockSummary]) -> None:
        """Have the missing ones of these blocks sent."""
        wanted = [s.number for s in await self._off_loop(draft.lacking, summaries)]
        self._progress.bytes, self._progress.blocks = draft.size, draft.blocks
        self._send(SnapshotWanted(tuple(wanted), draft.blocks, draft.size))
        for number in wanted:
            frame = await self._next()
            if not isinstance(frame, SnapshotBlock) or frame.number != number:
                raise _out_of_place(f"block {number:016x} was asked for, and does not come")
            file = await self._off_loop(draft.block, number, frame.size)
            end = await self._write_file(file)
            await self._off_loop(draft.take_block, number, file, end)
            self._progress.blocks = draft.blocks

    async def _write_file(self, file: DraftFile) -> SnapshotEnd:
        while isinstance(frame := await self._next(), SnapshotChunk):
            await self._off_loop(file.append, frame.data)
            self._progress.bytes += len(frame.data)
            self._written(len(frame.data))
        if not isinstance(frame, SnapshotEnd):
            raise _out_of_place("a file of a snapshot does not end")
        return frame

    def _send(self, frame: SnapshotWanted) -> None:
        if not self.connection.is_over:
            self.connection.send([encode_snapshot_frame(frame)])

    async def _next(self) -> _Frame:
        async with asyncio.timeout(STALL_S):
            return await self._frames.get()

    def _written(self, size: int) -> None:
        self._waiting_bytes -= size
        if self._waiting_bytes <= WAITING_BYTES_MAX:
            self.connection.resume_reading()

    async def _off_loop(self, job: Callable[..., T], *arguments: object) -> T:
        """Run a job on a thread. After a cancellation ``_clean_up`` waits for it."""
        running = asyncio.get_running_loop().run_in_executor(None, job, *arguments)
        self._job = cast("asyncio.Future[object]", running)
        return await asyncio.shield(running)

    async def _clean_up(self, data: Path, draft: SnapshotDraft | None) -> None:
        if self._job is not None:
            await asyncio.wait([self._job])
        if draft is not None:
            draft.close()
        await asyncio.get_running_loop().run_in_executor(None, tidy_snapshot, data)


def _lists(summaries: list[BlockSummary]) -> Iterator[list[BlockSummary]]:
    """Blocks, so many at a time that verifying those that are here does not take long."""
    found: list[BlockSummary] = []
    size = 0
    for summary in summaries:
        if found and (len(found) == WANTED_MAX or size + summary.file_bytes > LOOK_BYTES):
            yield found
            found, size = [], 0
        found.append(summary)
        size += summary.file_bytes
    if found:
        yield found


def _out_of_place(text: str) -> PeerFault:
    return PeerFault(PeerReason.MALFORMED_FRAME, text)
