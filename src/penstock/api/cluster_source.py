"""The source ``cluster`` of the stream: the cluster whenever something about it has changed.

Positions in the log and the seconds since a node was heard change all the time; they are in the
event, but are no reason for one.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from penstock.admin.view import ClusterAdmin
from penstock.api.call import Call
from penstock.api.cluster_health import describe
from penstock.api.documents.cluster import Cluster
from penstock.api.stream import Feed, Source, StreamEvent, StreamQuery
from penstock.trust.rules import Action


class ClusterSource(Source):
    """As this node sees it."""

    name = "cluster"
    action = Action.MONITOR

    def open(self, call: Call, query: StreamQuery, position: str | None) -> Feed:  # noqa: ARG002
        assert self.parts.cluster is not None
        return ClusterFeed(self.parts.cluster)


class ClusterFeed:
    """The cluster now, then each change."""

    resumed = True  # whoever comes back is told how it is now
    position = ""

    def __init__(self, admin: ClusterAdmin) -> None:
        self._admin = admin
        self._told: Cluster | None = None

    async def read(self) -> Sequence[StreamEvent]:
        cluster = describe(self._admin.status(), self._admin.own())
        if self._told is not None and _lasting(cluster) == self._told:
            return []
        self._told = _lasting(cluster)
        return [StreamEvent("cluster", msgspec.json.encode(cluster))]

    def close(self) -> None:
        pass


def _lasting(cluster: Cluster) -> Cluster:
    """Without what changes all the time."""
    members = [replace(m, match=None, lag=None, heard_s=None) for m in cluster.members]
    return replace(cluster, commit=0, applied=0, members=members)
