"""Which nodes were heard of, and when."""

from collections.abc import Callable, Iterable
from math import inf

from penstock.raft.types import NodeId


class PeerActivity:
    """What one node has heard of the others. ``clock`` tells durations only."""

    def __init__(self, clock: Callable[[], float], grace_s: float) -> None:
        self._clock = clock
        self._grace_s = grace_s
        self._heard: dict[NodeId, float] = {}
        self._led_at: float | None = None
        """When we were first asked, as leader, who is there."""

    def heard(self, node: NodeId) -> None:
        """A node has said something."""
        self._heard[node] = self._clock()

    def heard_s(self, node: NodeId) -> float | None:
        """Seconds since a node was heard of; None: never."""
        heard = self._heard.get(node)
        return None if heard is None else self._clock() - heard

    def present(
        self, members: Iterable[NodeId], own: NodeId, *, is_leader: bool
    ) -> frozenset[NodeId]:
        """Members that spoke within the grace; all while we are too new to have heard of them."""
        everybody = frozenset(members)
        if not is_leader:
            self._led_at = None
            return everybody
        now = self._clock()
        self._led_at = now if self._led_at is None else self._led_at
        if now - self._led_at < self._grace_s:
            return everybody
        heard = self._heard | {own: now}
        return everybody - {n for n in everybody if now - heard.get(n, -inf) > self._grace_s}
