"""What a node has on disk beside the log: one record, written with every transaction.

It has what consensus needs after a crash: identity, term and vote, the terms of the log, and what
follows from the entries up to ``applied``: configuration, addresses, the last batch of each node.

The first configuration (*genesis*) precedes the first entry and is the same on all nodes, so nodes
that join later are told.
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
NO_CLUSTER = bytes(CLUSTER_ID_BYTES)  # the id of a node that is in none yet

REMOVED_MAX = 1_000  # how many removed nodes are remembered; the oldest are forgotten

TermStart = tuple[int, int]  # first index, term: the term of all entries up to the next such pair


class RaftRecord(msgspec.Struct, array_like=True):
    """What must survive a crash. The loop changes it; the writer gets it encoded.

    ``incarnation`` counts the starts of this node, and orders batches of different starts.
    ``removed`` are ids that must not be used again.
    """

    version: int
    node_id: NodeId
    cluster_id: bytes = NO_CLUSTER
    incarnation: int = 0
    term: int = 0
    vote: NodeId = NO_NODE
    terms: list[TermStart] = []
    applied: int = 0  # the fields below are as of this entry
    conf: ConfState = ConfState()
    members: dict[NodeId, Member] = {}
    origins: dict[NodeId, tuple[int, int]] = {}  # incarnation, number of each node's last batch
    removed: list[NodeId] = []
    genesis: tuple[Member, ...] = ()
    arrived: list[NodeId] = []  # have taken part: with an empty store they have lost their disk

    @property
    def is_initialised(self) -> bool:
        return self.cluster_id != NO_CLUSTER

    def is_alone(self) -> bool:
        """Whether no other node has a vote, or a copy."""
        return self.conf == ConfState(voters=(self.node_id,))

    def apply_conf(
        self, conf: ConfState, members: Iterable[Member], gone: Iterable[NodeId]
    ) -> None:
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
    return _encode(record)


def decode_record(data: bytes) -> RaftRecord:
    """Raises StorageForeign if another version wrote the record, or StorageDamaged."""
    try:
        record = _decoder.decode(data)
    except msgspec.MsgspecError as error:
        message = f"the cluster record cannot be read: {error}"
        raise StorageDamaged(message, "Let the node join again, under another id.") from error
    if record.version != VERSION:
        message = f"the cluster record has version {record.version}, this is version {VERSION}"
        raise StorageForeign(message, "Run the version of Penstock that wrote it.")
    return record


def cluster_id_of(genesis: Sequence[Member]) -> bytes:
    """The id of the cluster with this genesis: the same on all nodes."""
    ordered = sorted(genesis, key=lambda member: member.id)
    return blake2b(
        _encode([(member.id, member.peer_addr) for member in ordered]), digest_size=CLUSTER_ID_BYTES
    ).digest()


def first_record(node_id: NodeId) -> RaftRecord:
    return RaftRecord(VERSION, node_id)


def genesis_record(
    node_id: NodeId, cluster_id: bytes, genesis: Sequence[Member], last_index: int = 0
) -> RaftRecord:
    """The record of a node whose cluster starts with ``genesis``, before the first election.

    Entries that the journal has already, up to ``last_index``, were written by this node alone, and
    count as term 1. A node that is not in ``genesis`` waits to be added by an entry.
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
    """The record of a node that installs another's store.

    State and terms of the log are the other's, identity is ours. A vote is never forgotten: the
    term does not go back, and within a term the vote stays.
    """
    term = max(theirs.term, own.term)
    return msgspec.structs.replace(
        theirs,
        node_id=own.node_id,
        incarnation=own.incarnation,
        term=term,
        vote=own.vote if own.term == term else NO_NODE,
    )


def term_of(terms: Sequence[TermStart], index: int) -> int:
    """The term of an entry; 0 before the first."""
    place = bisect_right(terms, index, key=lambda start: start[0])
    return terms[place - 1][1] if place else 0


def terms_with(terms: Sequence[TermStart], entries: Sequence[RaftEntry]) -> list[TermStart]:
    """The terms once ``entries`` have replaced the log from the first of them on."""
    first = entries[0].index
    result = [start for start in terms if start[0] < first]
    for entry in entries:
        if not result or result[-1][1] != entry.term:
            result.append((entry.index, entry.term))
    return result


def prune_terms(terms: Sequence[TermStart], first_index: int) -> list[TermStart]:
    """Drop terms that no entry from ``first_index - 1`` on has."""
    place = bisect_right(terms, first_index - 1, key=lambda start: start[0])
    return list(terms[max(place - 1, 0) :])
