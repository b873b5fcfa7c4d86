"""Receiving a copy of another node's store, into a file beside our own.

A thread writes and hashes; the socket is left alone while more than a little waits for the disk.
What was received is whole when its length and digest are those that the sender told, and it is
flushed; then the sender is told, and ``arrived`` is called. It is not in use by then: that needs
our own store closed (:mod:`penstock.cluster.install`). Whatever goes wrong before removes the file.
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

WAITING_BYTES_MAX = 4 * MIB
"""What may wait for the disk before the socket is left alone."""
SPARED_BYTES = 256 * MIB
"""Room on the disk that a snapshot leaves to the store that is in use."""
STALL_S = 30.0
"""A sender that sends nothing for so long has given up."""


class SnapshotReceiver:
    """Takes one snapshot at a time into ``data``; once one has arrived, no other.

    ``wants(sender, message)`` is asked first. ``arrived`` is called once, when all is on disk.
    """

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
        self._draft: _IncomingSnapshot | None = None
        self._task: asyncio.Task[None] | None = None
        self._has_arrived = False
        self._log = get_logger("cluster")

    def received(self, link: PeerConnection, payload: bytes) -> None:
        """Take a frame of a snapshot's connection; raises PeerFault."""
        word = decode_snapshot_frame(payload)
        if isinstance(word, SnapshotBegin):
            self._begin(link, word.message)
        elif self._draft is not None and self._draft.link is link:
            self._draft.put(word)  # else it was told no, and has not heard yet
            if isinstance(word, SnapshotChunk):
                self._stats.snapshot_bytes += len(word.data)

    def ended(self, link: PeerConnection) -> None:
        """The connection is over: what did not come to its end is thrown away."""
        if self._task is not None and self._draft is not None and self._draft.link is link:
            self._task.cancel()

    async def stop(self) -> None:
        """Throw away what is under way."""
        task = self._task
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def _begin(self, link: PeerConnection, message: RaftMessage) -> None:
        assert link.session is not None
        node = link.session.node_id
        if self._has_arrived or self._task is not None:
            _refuse(link, "another snapshot is here already")
        elif not self._wants(node, message):
            _refuse(link, "it is not needed")
        else:
            self._draft = _IncomingSnapshot(link)
            self._task = asyncio.get_running_loop().create_task(self._take(self._draft, node))

    async def _take(self, draft: "_IncomingSnapshot", node: NodeId) -> None:
        self._log.info("snapshot_begins", node=node)
        try:
            size = await draft.take(self._data)
        except (PenstockError, OSError) as error:  # a TimeoutError is an OSError
            text = str(error) or f"nothing more came for {STALL_S:g} s"
            self._log.warning("snapshot_refused", node=node, detail=text)
            _refuse(draft.link, text)
        else:
            self._has_arrived = True
            self._stats.snapshots_received += 1
            self._log.info("snapshot_arrived", node=node, bytes=size)
            draft.link.send([encode_snapshot_frame(SnapshotAnswer(is_ok=True))])
            self._arrived()
        finally:
            self._draft = self._task = None
            self._stats.snapshot_bytes = 0


def _refuse(link: PeerConnection, text: str) -> None:
    if not link.is_over:
        link.send([encode_snapshot_frame(SnapshotAnswer(is_ok=False, message=text[:512]))])


class _IncomingSnapshot:
    """A file that is being received."""

    def __init__(self, link: PeerConnection) -> None:
        self.link = link
        self._words: asyncio.Queue[SnapshotChunk | SnapshotEnd] = asyncio.Queue()
        self._waiting_bytes = 0
        self._job: asyncio.Future[object] | None = None

    def put(self, word: SnapshotChunk | SnapshotEnd) -> None:
        """Take what the sender says; who says more than fits is not listened to for a while."""
        if isinstance(word, SnapshotChunk):
            self._waiting_bytes += len(word.data)
            if self._waiting_bytes > WAITING_BYTES_MAX:
                self.link.pause_reading()
        self._words.put_nowait(word)

    async def take(self, data: Path) -> int:
        """Write it all into a new file, flushed; return its size. Else leave nothing."""
        file: _File | None = None
        try:
            file = _File(data)
            while isinstance(word := await self._next(), SnapshotChunk):
                await self._off_loop(file.append, word.data)
                self._written(len(word.data))
            await self._off_loop(file.finish, word)
        except BaseException:
            if file is not None:
                await self._remove(file)
            raise
        return file.size

    async def _next(self) -> SnapshotChunk | SnapshotEnd:
        async with asyncio.timeout(STALL_S):
            return await self._words.get()

    def _written(self, size: int) -> None:
        self._waiting_bytes -= size
        if self._waiting_bytes <= WAITING_BYTES_MAX:
            self.link.resume_reading()

    async def _off_loop(self, job: Callable[..., object], *arguments: object) -> None:
        """Have a thread do something; whoever cancels us must still wait for it."""
        self._job = asyncio.get_running_loop().run_in_executor(None, job, *arguments)
        await asyncio.shield(self._job)

    async def _remove(self, file: "_File") -> None:
        if self._job is not None:
            await asyncio.wait([self._job])
        await asyncio.get_running_loop().run_in_executor(None, file.remove)


class _File:
    """The file itself; its methods are called by one thread at a time."""

    def __init__(self, data: Path) -> None:
        self._room = _room(data)
        self._path = fresh_snapshot(data)
        self._file = (self._path / DATA_NAME).open("xb", buffering=0)
        self._digest = blake2b(digest_size=DIGEST_BYTES)
        self.size = 0

    def append(self, data: bytes) -> None:
        """Write some more."""
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
        """Compare it with what was sent, and flush it."""
        if (self.size, self._digest.digest()) != (end.size, end.digest):
            raise StorageDamaged("the snapshot is not what was sent", "It will be sent again.")
        os.fsync(self._file.fileno())
        self._file.close()
        sync_directory(self._path)

    def remove(self) -> None:
        """Leave nothing of it."""
        self._file.close()
        shutil.rmtree(self._path, ignore_errors=True)


def _room(path: Path) -> int:
    """Bytes that a snapshot may have."""
    found = os.statvfs(path)
    return max(0, found.f_bavail * found.f_frsize - SPARED_BYTES)
