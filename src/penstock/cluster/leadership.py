"""Changes of leadership: listeners hear of them; writes are refused if nobody leads for long."""

from penstock.cluster.consensus import Leadership, LeadershipListener
from penstock.cluster.local_node import LocalNode, removed_error
from penstock.errors import NoQuorum, PenstockError
from penstock.obs.log import get_logger
from penstock.raft.ready import SoftState
from penstock.raft.types import NO_NODE, Role

_log = get_logger("cluster")


class LeadershipTracker:
    """Announces each change once, and knows since when nobody leads."""

    def __init__(self, node: LocalNode) -> None:
        self._node = node
        self._listeners: list[LeadershipListener] = []
        self._announced = Leadership(NO_NODE, 0, is_leader=False)
        self.leaderless_at: float | None = node.monotonic()

    def add_listener(self, listener: LeadershipListener) -> None:
        self._listeners.append(listener)

    def announce(self) -> None:
        leadership = self._node.leadership
        if leadership == self._announced or self._node.is_closed:
            return
        self._announced = leadership
        for listener in self._listeners:
            listener(leadership)

    def restart_patience(self) -> None:
        """Wait for an election from now on: nobody can have led yet."""
        self.leaderless_at = self._node.monotonic()

    def roles_changed(self, state: SoftState) -> None:
        """Note who leads. ``announce`` comes later, after the parts of the replica know."""
        node = self._node
        if state.role is Role.CANDIDATE or state.lead not in {NO_NODE, node.node_id}:
            node.counts.elections += 1
        is_lost = state.lead == NO_NODE and self.leaderless_at is None
        if state.lead != NO_NODE:
            self.leaderless_at = None
        elif is_lost:
            self.leaderless_at = node.monotonic()
        term = node.record.term
        if is_lost and not node.is_lone:
            _log.warning("leader_lost", term=term, advice="Writes wait for an election.")
        log = _log.debug if node.is_lone else _log.info
        log("role", role=state.role.name.lower(), term=term, leader=state.lead)

    def write_refusal(self) -> PenstockError | None:
        """Why a write cannot succeed, not even after an election; None if it may."""
        node, since = self._node, self.leaderless_at
        if node.is_removed:
            return removed_error()
        if not node.is_initialised:
            return NoQuorum("this node is in no cluster yet", "Run penstock cluster init, or join.")
        if since is None or node.monotonic() - since < node.settings.no_leader_timeout_s:
            return None
        return NoQuorum(
            "no node leads the cluster: too few of them are up",
            "Start the others; writes resume by themselves.",
        )
