"""Makes a cluster of one out of a node whose peers are lost for good.

Without a quorum of disks nothing can be committed. A person has to decide to go on with one node:
entries that the lost majority acknowledged and this node never received are gone.

The whole log of the node counts as committed, its end too: the lost nodes may have counted it.
Entries of a new term then remove the other members one by one, so the log itself has the new
configuration. The cluster has a new id: a lost node that comes back is of another cluster, and
neither accepts the other. All of it is one transaction, under the lock of the directory.
"""

from pathlib import Path
from typing import Self

import msgspec

from penstock.cluster.frames import ChangeKind, Member
from penstock.cluster.membership_rules import PROMOTE, MemberChange, conf_change_of
from penstock.cluster.record import RaftRecord, decode_record, encode_record, term_of, terms_with
from penstock.errors import PenstockError, Refused
from penstock.raft.conf_entries import change_entry, decode_change
from penstock.raft.types import NO_NODE, ConfChangeKind, EntryKind, NodeId, RaftEntry
from penstock.store.directory import DATA_NAME
from penstock.store.lmdb_store import LmdbStore
from penstock.store.store import LogEntry, Write


class StoppedNode(msgspec.Struct, frozen=True, kw_only=True):
    """What the data directory of a stopped node knows of its cluster."""

    node_id: NodeId
    cluster_id: str
    members: tuple[NodeId, ...]
    last_term: int
    last_index: int  # the node with the greatest (last_term, last_index) has all that others have
    committed: int


def inspect_stopped_node(path: Path) -> StoppedNode:
    with _StoppedStore(path) as opened:
        return opened.describe()


def recover(path: Path, cluster_id: bytes) -> StoppedNode:
    """Make the node a cluster of one, under a new id; return what it was before."""
    with _StoppedStore(path) as opened:
        stopped = opened.describe()
        opened.recover(cluster_id)
        return stopped


class _StoppedStore:
    """The store of a stopped node."""

    def __init__(self, path: Path) -> None:
        if not (path / DATA_NAME).exists():
            raise PenstockError(
                f"{path} is not a data directory", "Give the one that the node was started with."
            )
        self._store = LmdbStore(path, map_bytes=0)
        try:
            self._record = self._member_record()
        except BaseException:
            self._store.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._store.close()

    def _member_record(self) -> RaftRecord:
        data = self._store.record()
        record = decode_record(data) if data is not None else None
        if not self._store.last_index or (record is not None and not record.is_initialised):
            raise Refused(
                "this node belongs to no cluster yet, and has no data", "Recover another node."
            )
        if record is None or record.is_alone():
            raise Refused("this node is a cluster of one already", "Start it: nothing is missing.")
        if record.node_id in record.removed:
            raise Refused(
                f"node {record.node_id} was removed from its cluster: what came later is not here",
                "Recover a node that was part of it to the end.",
            )
        return record

    def describe(self) -> StoppedNode:
        record, store = self._record, self._store
        return StoppedNode(
            node_id=record.node_id,
            cluster_id=record.cluster_id.hex(),
            members=tuple(sorted(self._members())),
            last_term=term_of(record.terms, store.last_index),
            last_index=store.last_index,
            committed=store.next_index - 1,
        )

    def _members(self) -> set[NodeId]:
        """The members once all of the log is applied."""
        conf, store = self._record.conf, self._store
        members = {*conf.voters, *conf.voters_outgoing, *conf.learners, *conf.learners_next}
        first = self._record.applied + 1
        if first > store.last_index:
            return members
        for found in store.log_entries(first, store.last_index + 1, 1 << 62):
            if found.kind:
                entry = RaftEntry(0, found.index, found.data, EntryKind(found.kind))
                for kind, node in decode_change(entry).steps:
                    if kind is ConfChangeKind.REMOVE_NODE:
                        members.discard(node)
                    else:
                        members.add(node)
        return members

    def recover(self, cluster_id: bytes) -> None:
        """Append entries that remove the others, and commit everything."""
        record, store = self._record, self._store
        own = record.members.get(record.node_id, Member(record.node_id))
        record.term, record.vote = record.term + 1, NO_NODE
        record.cluster_id = cluster_id
        others = sorted(self._members() - {own.id})
        changes = [
            MemberChange(PROMOTE, own),  # it may have been a learner
            *(MemberChange(ChangeKind.REMOVE, Member(node)) for node in others),
        ]
        entries = [
            msgspec.structs.replace(
                change_entry(conf_change_of(change)), term=record.term, index=index
            )
            for index, change in enumerate(changes, store.last_index + 1)
        ]
        record.terms = terms_with(record.terms, entries)
        written = [LogEntry(entry.index, entry.kind.value, entry.data) for entry in entries]
        store.write(Write(written, encode_record(record), entries[-1].index))
