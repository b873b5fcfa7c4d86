"""Which nodes were heard from, and when."""

from collections.abc import Callable, Iterable
from math import inf

from penstock.raft.types import NodeId


class PeerActivity:
    """When this node last heard from each of the others, by a monotonic clock."""

    def __init__(self, monotonic: Callable[[], float], grace_s: float) -> None:
        self._monotonic = monotonic
        self._grace_s = grace_s
        self._heard: dict[NodeId, float] = {}
        self._led_at: float | None = None  # when ``present`` was first called as leader

    def heard(self, node: NodeId) -> None:
        self._heard[node] = self._monotonic()

    def heard_s(self, node: NodeId) -> float | None:
        """Seconds since a node was heard from; None: never."""
        heard = self._heard.get(node)
        return None if heard is None else self._monotonic() - heard

    def active(self, members: Iterable[NodeId], own: NodeId, within_s: float) -> frozenset[NodeId]:
        heard = ((node, self.heard_s(node)) for node in members)
        return frozenset(
            {own, *(node for node, ago in heard if ago is not None and ago < within_s)}
        )

    def present(
        self, members: Iterable[NodeId], own: NodeId, *, is_leader: bool
    ) -> frozenset[NodeId]:
        """Members heard from within the grace; all of them unless we have led for that long."""
        everybody = frozenset(members)
        if not is_leader:
            self._led_at = None
            return everybody
        now = self._monotonic()
        self._led_at = now if self._led_at is None else self._led_at
        if now - self._led_at < self._grace_s:
            return everybody
        heard = self._heard | {own: now}
        return everybody - {n for n in everybody if now - heard.get(n, -inf) > self._grace_s}
