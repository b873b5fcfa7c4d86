"""How a node starts: with the record of its store, or with a first one.

A broker without cluster settings is a cluster of one. So is a store that has entries and no record,
written by an older version. Only a node that listens for others and has an empty store waits to be
told which cluster it belongs to.
"""

from collections.abc import Callable, Sequence

from penstock.cluster.frames import Member
from penstock.cluster.record import RaftRecord, decode_record, first_record, genesis_record
from penstock.config.schema import Cluster
from penstock.errors import Refused, StorageForeign
from penstock.limits import MEMBERS_MAX, NODE_ID_MAX
from penstock.store.store import LogStore

LONE_NODE_ID = 1  # the id of a broker without ``cluster.node_id``


def identity_of(settings: Cluster, client_addr: str) -> Member:
    """The node as a member; ``client_addr`` is used unless another is configured."""
    return Member(
        settings.node_id or LONE_NODE_ID,
        settings.advertise_peer or settings.peer_listen,
        settings.advertise or client_addr,
    )


def load_record(
    store: LogStore, settings: Cluster, identity: Member, roll: Callable[[int], int]
) -> RaftRecord:
    """The record of this new incarnation, to be made durable first. Raises a StorageError."""
    data = store.record()
    record = _first(store, settings, identity, roll) if data is None else decode_record(data)
    _check(record, settings)
    record.incarnation += 1
    if record.is_initialised and [*record.members] == [record.node_id]:  # else others must agree
        record.members[record.node_id] = Member(
            record.node_id, identity.peer_addr, identity.client_addr
        )
    if store.committed is None:
        # A lone node: each entry was committed as it was written. None that the record does not
        # know changes the configuration (Engine._committed), so the record is up to date.
        record.applied = store.next_index - 1
    return record


def _first(
    store: LogStore, settings: Cluster, identity: Member, roll: Callable[[int], int]
) -> RaftRecord:
    if settings.peer_listen and not store.last_index:
        return first_record(identity.id)
    cluster_id = bytes([1 + roll(255), *(roll(256) for _ in range(15))])  # never NO_CLUSTER
    return genesis_record(identity.id, cluster_id, [identity], store.last_index)


def _check(record: RaftRecord, settings: Cluster) -> None:
    if settings.node_id not in {0, record.node_id}:
        raise StorageForeign(
            f"the data directory belongs to node {record.node_id}, not {settings.node_id}",
            f"Set cluster.node_id to {record.node_id}, or give this node a directory of its own.",
        )
    if len(record.members) > 1 and not settings.peer_listen:
        raise StorageForeign(
            f"the data directory belongs to a cluster of {len(record.members)} nodes",
            "Set cluster.peer_listen, or remove the other nodes first.",
        )


def bootstrap_refusal(
    genesis: Sequence[Member], record: RaftRecord, *, listens: bool = True
) -> Refused | None:
    """Why these nodes cannot form a cluster; None if they can. ``listens``: for others."""
    ids = [member.id for member in genesis]
    if not ids and record.is_initialised:
        return None  # it has begun, and no other is requested
    if not 0 < len(ids) == len(set(ids)) <= MEMBERS_MAX or min(ids) < 1 or max(ids) > NODE_ID_MAX:
        return Refused(
            "the first nodes of a cluster need different ids",
            f"Name 1 to {MEMBERS_MAX} nodes, with ids from 1 to {NODE_ID_MAX}, each once.",
        )
    if not listens and ids != [record.node_id]:
        return Refused(
            "this broker stands alone: it does not listen for other nodes",
            "Restart it with --node-id and --peer-listen; then have each of the others join it:"
            " penstock cluster join --to this broker's address.",
        )
    if record.node_id not in ids:
        return Refused(
            f"this is node {record.node_id}, which is not among them",
            "Name all nodes of the cluster, this one too; or let it join.",
        )
    if record.is_initialised and not set(ids) <= record.members.keys():
        known = ", ".join(str(node) for node in sorted(record.members))
        return Refused(
            f"this node is part of a cluster already, of node{'s' * (len(record.members) > 1)}"
            f" {known}",
            "Have the others join it: penstock cluster join; penstock cluster status shows it.",
        )
    return None
