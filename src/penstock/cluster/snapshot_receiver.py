"""Receives a copy of another node's store into a file beside our own.

A thread writes and hashes; reading from the socket pauses while too much waits for the disk. The
copy is complete when its length and digest match those of the sender and it is flushed. Then the
sender gets its answer, and ``arrived`` is called. The copy is not in use yet: that needs our own
store closed (:mod:`penstock.cluster.install`). Any failure before removes the file.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from penstock.cluster.peer_connection import PeerConnection
from penstock.cluster.peer_stats import TransportStats
from penstock.cluster.snapshot_frames import (
    DIGEST_BYTES,
    SnapshotAnswer,
    SnapshotBegin,
    SnapshotChunk,
    SnapshotEnd,
    decode_snapshot_frame,
    encode_snapshot_frame,
)
from penstock.errors import PenstockError, StorageDamaged, StorageFull
from penstock.limits import MIB
from penstock.obs.log import get_logger
from penstock.raft.types import NodeId, RaftMessage
from penstock.store.directory import DATA_NAME, fresh_snapshot, sync_directory

WAITING_BYTES_MAX = 4 * MIB  # what may wait for the disk before reading from the socket pauses
SPARED_BYTES = 256 * MIB  # disk space that a snapshot leaves to the store that is in use
STALL_S = 30.0  # a sender that sends nothing for this long has given up


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
        self._log = get_logger("cluster")

    def received(self, connection: PeerConnection, payload: bytes) -> None:
        frame = decode_snapshot_frame(payload)
        if isinstance(frame, SnapshotBegin):
            self._begin(connection, frame.message)
        elif self._incoming is not None and self._incoming.connection is connection:
            self._incoming.put(frame)  # else it was refused, and has not heard yet
            if isinstance(frame, SnapshotChunk):
                self._stats.snapshot_bytes += len(frame.data)

    def ended(self, connection: PeerConnection) -> None:
        incoming = self._incoming
        if self._task is not None and incoming is not None and incoming.connection is connection:
            self._task.cancel()

    async def stop(self) -> None:
        task = self._task
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def _begin(self, connection: PeerConnection, message: RaftMessage) -> None:
        assert connection.session is not None
        node = connection.session.node_id
        if self._has_arrived or self._task is not None:
            _refuse(connection, "another snapshot is here already")
        elif not self._wants(node, message):
            _refuse(connection, "it is not needed")
        else:
            incoming = self._incoming = _IncomingSnapshot(connection)
            self._task = asyncio.get_running_loop().create_task(self._receive(incoming, node))

    async def _receive(self, incoming: "_IncomingSnapshot", node: NodeId) -> None:
        self._log.info("snapshot_begins", node=node)
        try:
            size = await incoming.write(self._data)
        except (PenstockError, OSError) as error:  # a TimeoutError is an OSError
            text = str(error) or f"nothing more came for {STALL_S:g} s"
            self._log.warning("snapshot_refused", node=node, detail=text)
            _refuse(incoming.connection, text)
        else:
            self._has_arrived = True
            self._stats.snapshots_received += 1
            self._log.info("snapshot_arrived", node=node, bytes=size)
            incoming.connection.send([encode_snapshot_frame(SnapshotAnswer(is_ok=True))])
            self._arrived()
        finally:
            self._incoming = self._task = None
            self._stats.snapshot_bytes = 0


def _refuse(connection: PeerConnection, text: str) -> None:
    if not connection.is_over:
        answer = SnapshotAnswer(is_ok=False, message=text[:512])
        connection.send([encode_snapshot_frame(answer)])


class _IncomingSnapshot:
    """A snapshot that is being received: frames wait here for the disk."""

    def __init__(self, connection: PeerConnection) -> None:
        self.connection = connection
        self._frames: asyncio.Queue[SnapshotChunk | SnapshotEnd] = asyncio.Queue()
        self._waiting_bytes = 0
        self._job: asyncio.Future[object] | None = None

    def put(self, frame: SnapshotChunk | SnapshotEnd) -> None:
        if isinstance(frame, SnapshotChunk):
            self._waiting_bytes += len(frame.data)
            if self._waiting_bytes > WAITING_BYTES_MAX:
                self.connection.pause_reading()
        self._frames.put_nowait(frame)

    async def write(self, data: Path) -> int:
        """Write everything to a new file, flushed; return its size. On failure leave nothing."""
        file: _File | None = None
        try:
            file = _File(data)
            while isinstance(frame := await self._next(), SnapshotChunk):
                await self._off_loop(file.append, frame.data)
                self._written(len(frame.data))
            await self._off_loop(file.finish, frame)
        except BaseException:
            if file is not None:
                await self._remove(file)
            raise
        return file.size

    async def _next(self) -> SnapshotChunk | SnapshotEnd:
        async with asyncio.timeout(STALL_S):
            return await self._frames.get()

    def _written(self, size: int) -> None:
        self._waiting_bytes -= size
        if self._waiting_bytes <= WAITING_BYTES_MAX:
            self.connection.resume_reading()

    async def _off_loop(self, job: Callable[..., object], *arguments: object) -> None:
        """Run a job on a thread. After a cancellation ``_remove`` waits for it."""
        self._job = asyncio.get_running_loop().run_in_executor(None, job, *arguments)
        await asyncio.shield(self._job)

    async def _remove(self, file: "_File") -> None:
        if self._job is not None:
            await asyncio.wait([self._job])
        await asyncio.get_running_loop().run_in_executor(None, file.remove)


class _File:
    """The file itself. One thread at a time calls its methods."""

    def __init__(self, data: Path) -> None:
        self._room = _room(data)
        self._path = fresh_snapshot(data)
        self._file = (self._path / DATA_NAME).open("xb", buffering=0)
        self._digest = blake2b(digest_size=DIGEST_BYTES)
        self.size = 0

    def append(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > self._room:
            raise StorageFull(
                f"the disk has no room for a snapshot of more than {self._room} bytes",
                "Make room on the disk of the data directory.",
            )
        self._digest.update(data)
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]

    def finish(self, end: SnapshotEnd) -> None:
        if (self.size, self._digest.digest()) != (end.size, end.digest):
            raise StorageDamaged("the snapshot is not what was sent", "It will be sent again.")
        os.fsync(self._file.fileno())
        self._file.close()
        sync_directory(self._path)

    def remove(self) -> None:
        self._file.close()
        shutil.rmtree(self._path, ignore_errors=True)


def _room(path: Path) -> int:
    found = os.statvfs(path)
    return max(0, found.f_bavail * found.f_frsize - SPARED_BYTES)
