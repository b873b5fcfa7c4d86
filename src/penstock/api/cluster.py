"""``cluster``: who is part of it, who leads, which node may be stopped, and changes of that."""

from typing import Annotated

from msgspec import Meta

from penstock.admin.cluster import member_of
from penstock.admin.pages import applied
from penstock.admin.refusals import RequestRefused
from penstock.admin.view import ClusterAdmin
from penstock.api.call import Call
from penstock.api.cluster_health import describe, removal_text, seen_from
from penstock.api.documents.cluster import (
    Cluster,
    MemberRemoval,
    NewCluster,
    NewMember,
    NodeDigests,
    NodeStatus,
    Transfer,
)
from penstock.api.documents.common import Count, Query
from penstock.api.named import DryRun
from penstock.api.operations import Resource, operation
from penstock.cluster.status import diagnosis, tolerance
from penstock.errors import NotLeader
from penstock.limits import NODE_ID_MAX
from penstock.trust.rules import Action


class RemovalQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which node to remove."""

    node: Annotated[int, Meta(description="Its number.", ge=1, le=NODE_ID_MAX)]
    dry_run: DryRun = False


class DigestQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """At which entry."""

    index: Annotated[Count, Meta(description="An entry to come; 0: the last one.")] = 0
    log_first: Annotated[int, Meta(description="First entry of the log.", ge=1, le=2**53)] = 1


class Nodes(Resource):
    """The nodes of the cluster."""

    @operation("GET", "cluster", Action.MONITOR)
    async def show(self, call: Call) -> Cluster:
        """Show the cluster: who leads, how far the others are, which node may be stopped.

        The leader knows most, so it answers if it can be reached; else this node does, as far as it
        knows.
        """
        if call.is_of_node or self._admin.status().is_leader:
            return self._shown()
        answer = await call.leader(Cluster)
        return self._shown() if answer is None else seen_from(answer, self._admin.status())

    @operation("GET", "cluster/status", Action.MONITOR)
    async def status(self, call: Call) -> NodeStatus:  # noqa: ARG002 - as every operation
        """Show what the asked node sees by itself, whoever leads."""
        return self._seen()

    @operation("GET", "cluster/digests", Action.ADMIN)
    async def digests(self, call: Call, query: DigestQuery) -> NodeDigests:  # noqa: ARG002
        """Compute digests of the state and the log of the asked node, to compare nodes by.

        Nodes that agree have the same digests at the same entry.
        """
        found = await applied(self._admin.digests(query.index, query.log_first), 409)
        assert isinstance(found, NodeDigests)
        return found

    @operation("POST", "cluster/init", Action.ADMIN)
    async def init(self, call: Call, body: NewCluster) -> NodeStatus:  # noqa: ARG002
        """Create a cluster of the named nodes, or of the asked one alone.

        Repeating it changes nothing.
        """
        members = [member_of(one.node, one.peer_addr, one.client_addr) for one in body.nodes]
        await applied(self._admin.bootstrap(members), 409)
        return self._seen()

    @operation("POST", "cluster/transfer", Action.ADMIN)
    async def transfer(self, call: Call, body: Transfer) -> Cluster:  # noqa: ARG002
        """Let another node lead."""
        await applied(self._admin.transfer(body.to), 409)
        return self._shown()

    @operation("POST", "cluster/members", Action.ADMIN)
    async def add(self, call: Call, body: NewMember) -> Cluster:  # noqa: ARG002
        """Add a node. It gets a vote when it has caught up."""
        member = member_of(body.node, body.peer_addr, body.client_addr)
        await applied(self._admin.add(member), 409)
        return self._shown()

    @operation("DELETE", "cluster/members", Action.ADMIN)
    async def remove(self, call: Call, query: RemovalQuery) -> MemberRemoval:  # noqa: ARG002
        """Remove a node for good. Its number can never be used again."""
        status = self._admin.status()
        if not status.is_leader and status.leader:
            raise NotLeader(status.leader, status.leader_addr)
        if query.node not in {member.id for member in status.members}:
            raise RequestRefused(404, f"there is no node {query.node}", "GET cluster names all")
        voters = len([member for member in status.voters if member.id != query.node])
        if not query.dry_run:
            await applied(self._admin.remove(query.node), 409)
        return MemberRemoval(
            node=query.node,
            dry_run=query.dry_run,
            voters=voters,
            tolerates=tolerance(voters),
            text=removal_text(status, query.node),
            cluster=self._shown(),
        )

    @property
    def _admin(self) -> ClusterAdmin:
        assert self.parts.cluster is not None
        return self.parts.cluster

    def _seen(self) -> NodeStatus:
        own, status = self._admin.own(), self._admin.status()
        return NodeStatus(
            diagnosis=diagnosis(status),
            peer_addr=own.peer_addr,
            client_addr=own.client_addr,
            status=status,
        )

    def _shown(self) -> Cluster:
        return describe(self._admin.status(), self._admin.own())
