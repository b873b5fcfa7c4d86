"""A cluster of one out of a node whose peers are lost for good.

With most disks gone nothing can be agreed upon any more. What is left on one node can be made a
cluster of its own, which others may join. That is a decision of a person: entries that the lost
majority acknowledged and this node never received are gone.

**How.** All that is in the node's log counts as committed, its uncommitted end too: the lost nodes
may have counted it. Behind it come entries, of a new term, that remove the other members one by
one. So the log itself says who takes part, for this node at its next start as for whoever joins
later and reads the log from its beginning.

**No way back.** The cluster has a new id. A lost node that turns up after all is of another
cluster: neither side listens to the other, and the two logs cannot mix. The ids of the other
members are never given again.

The directory is locked meanwhile, and all of it is one transaction.
"""

from pathlib import Path
from typing import Self

import msgspec

from penstock.cluster.frames import ChangeKind, Member
from penstock.cluster.membership_rules import PROMOTE, MemberChange, conf_change_of
from penstock.cluster.record import (
    RaftRecord,
    decode_record,
    encode_record,
    term_of,
    terms_with,
)
from penstock.errors import PenstockError, Refused
from penstock.raft.conf_entries import change_entry, decode_change
from penstock.raft.types import NO_NODE, ConfChangeKind, EntryKind, NodeId, RaftEntry
from penstock.store.directory import DATA_NAME
from penstock.store.lmdb_store import LmdbStore
from penstock.store.store import LogEntry, Write


class StoppedNode(msgspec.Struct, frozen=True, kw_only=True):
    """What a data directory has of its cluster."""

    node_id: NodeId
    cluster_id: str
    members: tuple[NodeId, ...]
    last_term: int
    last_index: int
    """The last entry of its log. Of several nodes the one with the greatest (term, index) has all
    that the others have."""
    committed: int
    """Entries that this node knows to be agreed upon."""


def inspect_stopped_node(path: Path) -> StoppedNode:
    """Look at the directory of a node that is stopped. Raises a PenstockError."""
    with _StoppedStore(path) as opened:
        return opened.remains()


def recover(path: Path, cluster_id: bytes) -> StoppedNode:
    """Make the node a cluster of one, under a new id; tell what it had. Raises a PenstockError."""
    with _StoppedStore(path) as opened:
        remains = opened.remains()
        opened.recover(cluster_id)
        return remains


class _StoppedStore:
    """The store of a node that is stopped."""

    def __init__(self, path: Path) -> None:
        if not (path / DATA_NAME).exists():
            raise PenstockError(
                f"{path} is no data directory", "Name the one that the node was started with."
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

    def remains(self) -> StoppedNode:
        """What there is."""
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
        """Who takes part, once all of the log is applied."""
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
        """Append what removes the others, and count everything as committed."""
        record, store = self._record, self._store
        own = record.members.get(record.node_id, Member(record.node_id))
        record.term, record.vote = record.term + 1, NO_NODE
        record.cluster_id = cluster_id
        others = sorted(self._members() - {own.id})
        asked = [
            MemberChange(PROMOTE, own),  # it may have been a learner
            *(MemberChange(ChangeKind.REMOVE, Member(node)) for node in others),
        ]
        entries = [
            msgspec.structs.replace(
                change_entry(conf_change_of(one)), term=record.term, index=index
            )
            for index, one in enumerate(asked, store.last_index + 1)
        ]
        record.terms = terms_with(record.terms, entries)
        written = [LogEntry(entry.index, entry.kind.value, entry.data) for entry in entries]
        store.write(Write(written, encode_record(record), entries[-1].index))
