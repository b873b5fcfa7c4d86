"""A node of a cluster that is whatever the test says: who leads, and what becomes of requests."""

import msgspec

from penstock.cluster.frames import Member
from penstock.cluster.status import ClusterStatus, MemberStatus, NodeState

LEADER_ADDR = "10.0.0.2:1883"


class Node:
    """Node 1 of three. Requests are noted, and answered when the test does, or at once."""

    node_id = 1
    is_clustered = True

    def __init__(self, leader=1, *, is_writable=True, state=NodeState.MEMBER):
        self.leader = leader
        self.is_writable = is_writable
        self.state = state
        self.term = 7
        self.asked = []
        self.error = None
        """What everything is answered with at once; "wait": nothing is."""

    @property
    def is_leader(self):
        return self.leader == self.node_id

    @property
    def leader_addr(self):
        return LEADER_ADDR if self.leader else ""

    def own(self):
        return Member(1, "10.0.0.1:7700", "10.0.0.1:1883")

    def status(self):
        members = tuple(
            MemberStatus(id=n, peer_addr=f"10.0.0.{n}:7700", client_addr=f"10.0.0.{n}:1883")
            for n in (1, 2, 3)
        )
        if self.is_leader:
            members = tuple(
                msgspec.structs.replace(m, match=40 + m.id, lag=3 - m.id, is_active=True)
                for m in members
            )
        return ClusterStatus(
            node_id=1,
            cluster_id="ab" * 16,
            state=self.state,
            role="leader" if self.is_leader else "follower",
            term=self.term,
            leader=self.leader,
            leader_addr=self.leader_addr,
            commit=42,
            applied=41,
            last_index=43,
            members=members,
        )

    def _noted(self, then, *request):
        self.asked.append((*request, then))
        if self.error != "wait":
            then(self.error)

    def read_barrier(self, then):
        self._noted(then, "read")

    def bootstrap(self, members, then):
        self._noted(then, "bootstrap", list(members))

    def add(self, member, then):
        self._noted(then, "add", member)

    def remove(self, node_id, then):
        self._noted(then, "remove", node_id)

    def transfer(self, node_id, then):
        self._noted(then, "transfer", node_id)
