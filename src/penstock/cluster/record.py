"""What a node of a cluster remembers beside the log: one record, written with every write.

The log itself lies in the journal, and the store keeps with the record how far it is committed.
Everything else that consensus needs after a crash is here: who this node is, its term and vote,
which term each stretch of the log is of, and what follows from the entries up to ``applied``: who
takes part, where to find them, and which batch of each node came last.

A node's first configuration (its *genesis*) is not in the log: it stands before the first entry, so
it must be the same on all nodes, and whoever joins later is told it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from hashlib import blake2b

import msgspec

from penstock.cluster.frames import Member
from penstock.errors import StorageDamaged, StorageForeign
from penstock.raft.types import NO_NODE, ConfState, NodeId, RaftEntry

VERSION = 1
CLUSTER_ID_BYTES = 16
NO_CLUSTER = bytes(CLUSTER_ID_BYTES)
"""The cluster of a node that is in none yet."""

REMOVED_MAX = 1_000
"""Nodes that are remembered as removed; the oldest are forgotten."""

Stretch = tuple[int, int]
"""First index, term: that of all entries up to the next stretch."""


class RaftRecord(msgspec.Struct, array_like=True):
    """What must outlive a crash. The loop changes it; the writer gets it as bytes.

    ``incarnation`` counts the starts of this node: it orders batches of different starts.
    ``removed`` are ids that may never be given again.
    """

    version: int
    node_id: NodeId
    cluster_id: bytes = NO_CLUSTER
    incarnation: int = 0
    term: int = 0
    vote: NodeId = NO_NODE
    terms: list[Stretch] = []
    applied: int = 0
    """The entry up to which the following are."""
    conf: ConfState = ConfState()
    members: dict[NodeId, Member] = {}
    origins: dict[NodeId, tuple[int, int]] = {}
    """Incarnation and number of each node's last batch in the log."""
    removed: list[NodeId] = []
    genesis: tuple[Member, ...] = ()
    """The voters before the first entry."""
    arrived: list[NodeId] = []
    """Members that have taken part: if such a node knows of nothing, it has lost its disk."""

    @property
    def is_initialised(self) -> bool:
        """Whether this node is part of a cluster, be it one of its own."""
        return self.cluster_id != NO_CLUSTER

    def is_alone(self) -> bool:
        """Whether nobody else has a say, or a copy."""
        return self.conf == ConfState(voters=(self.node_id,))

    def apply_conf(
        self, conf: ConfState, members: Iterable[Member], gone: Iterable[NodeId]
    ) -> None:
        """Take over a changed configuration: who was added (or moved), and who is gone."""
        self.conf = conf
        for member in members:
            self.members[member.id] = member
        for node_id in gone:
            self.members.pop(node_id, None)
            self.origins.pop(node_id, None)
            self.arrived = [node for node in self.arrived if node != node_id]
            if node_id not in self.removed:
                self.removed = [*self.removed, node_id][-REMOVED_MAX:]


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(RaftRecord)


def encode_record(record: RaftRecord) -> bytes:
    """The record as the store keeps it, which adds a checksum."""
    return _encode(record)


def decode_record(data: bytes) -> RaftRecord:
    """The record again; raises StorageForeign if another version wrote it, or StorageDamaged."""
    try:
        record = _decoder.decode(data)
    except msgspec.MsgspecError as error:
        message = f"the record of the cluster cannot be read: {error}"
        raise StorageDamaged(message, "Let the node join anew, under another id.") from error
    if record.version != VERSION:
        message = f"the record of the cluster is of version {record.version}, this is {VERSION}"
        raise StorageForeign(message, "Run the version of Penstock that wrote it.")
    return record


def cluster_id_of(genesis: Sequence[Member]) -> bytes:
    """The id of the cluster that begins with these nodes: the same whoever works it out."""
    ordered = sorted(genesis, key=lambda member: member.id)
    return blake2b(
        _encode([(member.id, member.peer_addr) for member in ordered]), digest_size=CLUSTER_ID_BYTES
    ).digest()


def first_record(node_id: NodeId) -> RaftRecord:
    """The record of a node that is in no cluster yet."""
    return RaftRecord(VERSION, node_id)


def genesis_record(
    node_id: NodeId, cluster_id: bytes, genesis: Sequence[Member], last_index: int = 0
) -> RaftRecord:
    """The record of a node of a cluster that begins with ``genesis``, before its first election.

    A journal that has entries already, up to ``last_index``, was written by this node alone: they
    are of term 1. A node that is not in ``genesis`` waits to be added by an entry of the log.
    """
    voters = tuple(sorted(member.id for member in genesis))
    return RaftRecord(
        VERSION,
        node_id,
        cluster_id,
        term=1 if last_index else 0,
        terms=[(1, 1)] if last_index else [],
        applied=last_index,
        conf=ConfState(voters),
        members={member.id: member for member in genesis},
        genesis=tuple(sorted(genesis, key=lambda member: member.id)),
        arrived=list(voters) if len(voters) == 1 else [],
    )


def installed_record(theirs: RaftRecord, own: RaftRecord) -> RaftRecord:
    """The record of a node that takes over another's store, whose entries are all committed.

    State is the other's, and so are the terms of the log; who we are is ours. Having voted is never
    forgotten: the term does not go back, and within it the vote stays.
    """
    term = max(theirs.term, own.term)
    return msgspec.structs.replace(
        theirs,
        node_id=own.node_id,
        incarnation=own.incarnation,
        term=term,
        vote=own.vote if own.term == term else NO_NODE,
    )


# ── Terms of the log


def term_of(terms: Sequence[Stretch], index: int) -> int:
    """The term of an entry; 0 before the first."""
    place = bisect_right(terms, index, key=lambda stretch: stretch[0])
    return terms[place - 1][1] if place else 0


def terms_with(terms: Sequence[Stretch], entries: Sequence[RaftEntry]) -> list[Stretch]:
    """The terms once ``entries`` have replaced the log from the first of them on."""
    first = entries[0].index
    result = [stretch for stretch in terms if stretch[0] < first]
    for entry in entries:
        if not result or result[-1][1] != entry.term:
            result.append((entry.index, entry.term))
    return result


def prune_terms(terms: Sequence[Stretch], first_index: int) -> list[Stretch]:
    """Without those that no entry from ``first_index - 1`` on is of."""
    place = bisect_right(terms, first_index - 1, key=lambda stretch: stretch[0])
    return list(terms[max(place - 1, 0) :])
