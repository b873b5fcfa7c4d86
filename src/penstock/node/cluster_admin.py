"""Administration of the cluster; admin changes of any kind are made by the leader."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from penstock.api.documents.cluster import NodeDigests
from penstock.cluster.consensus import Consensus, DoneCallback
from penstock.cluster.frames import Member
from penstock.cluster.status import ClusterStatus, unreadiness
from penstock.core.broker import Broker
from penstock.errors import NoQuorum, NotLeader, PenstockError
from penstock.node.digests import Digests
from penstock.store.store import LogStore


def check_leads(consensus: Consensus) -> None:
    """Raise NotLeader or NoQuorum unless this node leads.

    Otherwise two nodes could allocate the same id, of a key for example.
    """
    if consensus.is_leader:
        return
    if consensus.leader in {0, consensus.node_id}:
        why = unreadiness(consensus.status()) or "this node has just begun to lead"
        raise NoQuorum(why, "retry later; see penstock cluster status")
    raise NotLeader(consensus.leader, consensus.leader_addr)


class NodeClusterAdmin:
    """Implements ``admin.view.ClusterAdmin`` for one node."""

    def __init__(
        self,
        cluster: Consensus,
        broker: Broker,
        store: LogStore,
        note: Callable[[str], None] = lambda _what: None,
    ) -> None:
        """``note`` records in the audit log what was done."""
        self._note = note
        self._cluster = cluster
        self._digests = Digests(cluster, broker, store)

    async def digests(self, index: int, log_first: int) -> NodeDigests:
        return await self._digests.at(index, log_first)

    def own(self) -> Member:
        return self._cluster.own()

    def status(self) -> ClusterStatus:
        return self._cluster.status()

    async def bootstrap(self, members: Sequence[Member]) -> None:
        """Create a cluster; without members, of this node alone."""
        await self._done(partial(self._cluster.bootstrap, members or [self.own()]))
        self._note(f"bootstrap: {len(members) or 1} nodes")

    async def add(self, member: Member) -> None:
        """Add a node; it is a learner when this returns."""
        check_leads(self._cluster)
        await self._done(partial(self._cluster.add, member))
        self._note(f"add node {member.id}")

    async def remove(self, node_id: int) -> None:
        check_leads(self._cluster)
        await self._done(partial(self._cluster.remove, node_id))
        self._note(f"remove node {node_id}")

    async def transfer(self, node_id: int) -> None:
        check_leads(self._cluster)
        self._note(f"transfer leadership to node {node_id}")
        await self._done(partial(self._cluster.transfer, node_id))

    async def _done(self, begin: Callable[[DoneCallback], None]) -> None:
        done = asyncio.get_running_loop().create_future()

        def completed(error: PenstockError | None) -> None:
            if done.done():
                return  # the request was cancelled
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        begin(completed)
        await done
