"""Installs a store that was received from another node as our own.

It has the sender's record, which becomes ours first: identity, term and vote are ours, since a vote
must never be forgotten. Then the store is opened once: one that cannot be opened must not replace
one that can. Our own store is closed, its directory locked. A crash leaves the old or the new one,
each with its own blocks (:mod:`penstock.store.directory`).

**Not every snapshot may be installed.** Our log may have entries beyond it that the leader has
counted. If it has the last entry that the snapshot knows to be committed (same index and term), it
has all before it, and perhaps more: the snapshot is discarded. Otherwise nothing beyond that entry
can have been counted: a log that has a committed entry has all committed ones before it.
"""

import shutil
from pathlib import Path

import msgspec

from penstock.cluster.record import (
    RaftRecord,
    decode_record,
    encode_record,
    first_record,
    installed_record,
    term_of,
)
from penstock.errors import StorageDamaged, StorageForeign
from penstock.obs.log import get_logger
from penstock.raft.types import NodeId
from penstock.store.blocks.files import BlockFiles
from penstock.store.blocks.registry import block_rows
from penstock.store.directory import (
    DATA_NAME,
    MARKER_NAME,
    discard_snapshot,
    lock_directory,
    snapshot_path,
    switch,
    sync_directory,
)
from penstock.store.environment import Environment
from penstock.store.journal import JournalCursor
from penstock.store.lmdb_store import LmdbStore
from penstock.store.log_tail import get_record, put_record
from penstock.store.marks import get_marks

_log = get_logger("cluster")


class LogState(msgspec.Struct, frozen=True):
    """The state of a store's log."""

    record: RaftRecord
    committed: int
    last_index: int
    is_all_committed: bool = False  # written by a lone node: committed to its end, always


def install(data: Path, node: NodeId) -> bool:
    """Switch to the snapshot in ``data``; False if our own log has more. Raises a StorageError."""
    lock = lock_directory(data)
    try:
        is_ready = prepare_install(data, node)
        if is_ready:
            switch(data)
    finally:
        discard_snapshot(data)
        lock.close()
    _log.info("snapshot_installed" if is_ready else "snapshot_not_needed")
    return is_ready


def prepare_install(data: Path, node: NodeId) -> bool:
    """Make the snapshot a store of this node; return False if it must not be installed."""
    draft = snapshot_path(data)
    own = read_log_state(data, node)
    theirs = read_log_state(draft, node)
    if not is_wanted(own, theirs):
        return False
    _make_ours(draft, theirs, own)
    shutil.copyfile(data / MARKER_NAME, draft / MARKER_NAME)
    _check_blocks(draft)
    LmdbStore(draft, map_bytes=0).close()
    sync_directory(draft)
    return True


def is_wanted(own: LogState, theirs: LogState) -> bool:
    """Whether a snapshot may and should replace a log; raises StorageForeign."""
    ours, sent = own.record, theirs.record
    if not sent.is_initialised:
        raise StorageForeign("the snapshot is of no cluster", "Report it, with both nodes' logs.")
    if ours.is_initialised and ours.cluster_id != sent.cluster_id:
        raise StorageForeign(
            "the snapshot is of another cluster", "Check the addresses of the nodes."
        )
    end = theirs.committed
    if end <= own.committed:
        return False
    has_it = end <= own.last_index and term_of(ours.terms, end) == term_of(sent.terms, end)
    return not has_it


def read_log_state(path: Path, node: NodeId) -> LogState:
    """Inspect a closed store of ``node``; raises a StorageError."""
    if not (path / DATA_NAME).exists():  # LMDB would make one
        raise StorageDamaged(f"{path / DATA_NAME} is missing", "It will be sent again.")
    environment = Environment(path, map_bytes=0, readonly=True)
    try:
        with environment.reading() as transaction:
            data, committed = get_record(environment, transaction)
            marks = get_marks(environment, transaction)
            newest = JournalCursor(environment, transaction, None).last()
            last_index = max(newest.index if newest is not None else 0, marks.flushed_index)
    finally:
        environment.close()
    record = first_record(node) if data is None else decode_record(data)
    if committed is None:
        return LogState(record, last_index, last_index, is_all_committed=True)
    return LogState(record, max(committed, marks.flushed_index, marks.checkpoint), last_index)


def _check_blocks(draft: Path) -> None:
    """Refuse a store without its blocks; those that the sender itself has lost are empty files."""
    environment = Environment(draft, map_bytes=0, readonly=True)
    try:
        with environment.reading() as transaction:
            listed = {row.summary.number for row in block_rows(environment, transaction)}
    finally:
        environment.close()
    missing = sorted(listed.difference(BlockFiles(draft).numbers()))
    if missing:
        raise StorageDamaged(
            f"the snapshot lacks block {missing[0]:016x}, and {len(missing) - 1} more",
            "It will be sent again.",
        )


def _make_ours(draft: Path, theirs: LogState, own: LogState) -> None:
    record = encode_record(installed_record(theirs.record, own.record))
    committed = None if theirs.is_all_committed else theirs.committed
    environment = Environment(draft, map_bytes=0)
    try:
        environment.write(
            len(record), lambda transaction: put_record(environment, transaction, record, committed)
        )
    finally:
        environment.close()
