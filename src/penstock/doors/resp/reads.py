"""The barrier that reads of one client pass: a quorum confirms that this node is current."""

from collections.abc import Callable

from penstock.cluster.consensus import Consensus
from penstock.errors import PenstockError
from penstock.wire.resp.events import Event


class ReadBarrier:
    """Which commands of one client the quorum's answer covers; see ``confirming``."""

    __slots__ = ("_cluster", "_error", "_go_on", "is_asking", "is_local", "last")

    def __init__(self, cluster: Consensus, go_on: Callable[[], None]) -> None:
        self._cluster = cluster
        self._go_on = go_on
        self._error: PenstockError | None = None
        self.is_local = False  # the client has sent READONLY
        self.is_asking = False  # the quorum has yet to answer; nothing runs until then
        self.last: Event | None = None  # the last command that the question covers

    def may_run(self, last: Event) -> bool:
        """Whether a read may run, or be refused, now; ``last`` was received after it, or is it."""
        if not self.is_local and self.last is None:
            self.last, self.is_asking = last, True
            self._cluster.read_barrier(self._answered)
        return self.is_local or not self.is_asking

    def _answered(self, error: PenstockError | None) -> None:
        self.is_asking = False
        self._error = error
        self._go_on()

    def passed(self) -> None:
        self.last = self._error = None

    def refusal(self) -> str:
        return "" if self._error is None or self.is_local else unconfirmed(self._error)


def unconfirmed(error: PenstockError) -> str:
    advice = "try another node, or say READONLY to read what this one has"
    return f"CLUSTERDOWN {error.message}: {advice}"
