"""The cluster as administrators see and change it; and who may be asked for other changes."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from penstock.cluster.consensus import Consensus, DoneCallback
from penstock.cluster.frames import Member
from penstock.cluster.status import ClusterStatus, unreadiness
from penstock.core.broker import Broker
from penstock.errors import NoQuorum, NotLeader, PenstockError
from penstock.node.digests import Digests, NodeDigests
from penstock.store.store import LogStore


def check_leads(consensus: Consensus) -> None:
    """Let only the leader's administrators change anything: NotLeader, NoQuorum.

    Two nodes that give out numbers of keys, say, could give the same.
    """
    if consensus.is_leader:
        return
    if consensus.leader in {0, consensus.node_id}:
        why = unreadiness(consensus.status()) or "this node has just begun to lead"
        raise NoQuorum(why, "ask again then; penstock cluster status says how it is")
    raise NotLeader(consensus.leader, consensus.leader_addr)


class NodeClusterAdmin:
    """Implements ``admin.view.ClusterAdmin`` for one node."""

    def __init__(self, cluster: Consensus, broker: Broker, store: LogStore) -> None:
        self._cluster = cluster
        self._digests = Digests(cluster, broker, store)

    async def digests(self, index: int, log_first: int) -> NodeDigests:
        """Tell what this node has at an entry; see ``Digests.at``."""
        return await self._digests.at(index, log_first)

    def own(self) -> Member:
        """Say who this node is and where it is reached."""
        return self._cluster.own()

    def status(self) -> ClusterStatus:
        """How the cluster is."""
        return self._cluster.status()

    async def bootstrap(self, members: Sequence[Member]) -> None:
        """Begin a cluster; without members, one of this node alone."""
        await self._done(partial(self._cluster.bootstrap, members or [self.own()]))

    async def add(self, member: Member) -> None:
        """Have a node join; it is part of the cluster, and learns, when this returns."""
        check_leads(self._cluster)
        await self._done(partial(self._cluster.add, member))

    async def remove(self, node_id: int) -> None:
        """Have a node take part no longer."""
        check_leads(self._cluster)
        await self._done(partial(self._cluster.remove, node_id))

    async def transfer(self, node_id: int) -> None:
        """Have another node lead."""
        check_leads(self._cluster)
        await self._done(partial(self._cluster.transfer, node_id))

    async def _done(self, begin: Callable[[DoneCallback], None]) -> None:
        done = asyncio.get_running_loop().create_future()

        def then(error: PenstockError | None) -> None:
            if done.done():
                return  # whoever asked has left
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        begin(then)
        await done
