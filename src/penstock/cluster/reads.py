"""Linearizable reads: wait until everything acknowledged before the request is applied here.

The core is asked how far that is (ReadIndex: one round of heartbeats, no entry). Requests that
arrive while a round is in flight share the next one, so any number of them costs one round at a
time. An answer can get lost with a leader, so the request is repeated, under another number.
"""

from collections.abc import Callable

from penstock.cluster.consensus import DoneCallback
from penstock.errors import NoQuorum, PenstockError
from penstock.raft.types import ReadState

_Waiting = tuple[DoneCallback, int]  # a caller, and the tick of its request


class ReadBarriers:
    """``ask`` sends a ReadIndex request, with a context of its own, to the core."""

    def __init__(
        self, node_id: int, incarnation: int, ask: Callable[[bytes], None], *, retry_ticks: int
    ) -> None:
        self._prefix = node_id.to_bytes(8, "big") + incarnation.to_bytes(8, "big")
        self._ask = ask
        self._retry_ticks = retry_ticks
        self._number = 0
        self._tick = 0
        self._asked_at = 0
        self._context = b""
        self._asked: list[_Waiting] = []
        self._next: list[_Waiting] = []
        self._known: list[tuple[int, list[_Waiting]]] = []  # answered, but not applied yet

    def add(self, done: DoneCallback) -> None:
        self._next.append((done, self._tick))
        if not self._context:
            self._begin_round()

    def _begin_round(self) -> None:
        self._number += 1
        self._context = self._prefix + self._number.to_bytes(8, "big")
        self._asked += self._next
        self._next = []
        self._asked_at = self._tick
        self._ask(self._context)

    def answered(self, state: ReadState, applied: int) -> None:
        """Take the core's answer. One to an earlier request is ignored."""
        if state.context != self._context:
            return
        self._known.append((state.index, self._asked))
        self._asked = []
        self._context = b""
        self.applied(applied)
        if self._next:
            self._begin_round()

    def applied(self, index: int) -> None:
        if not self._known:
            return
        done = [waiting for needed, waiting in self._known if needed <= index]
        self._known = [known for known in self._known if known[0] > index]
        for waiting in done:
            for callback, _ in waiting:
                callback(None)

    def tick(self, patience_ticks: int) -> None:
        self._tick += 1
        if not self._context and not self._known:
            return
        late = self._take_late(self._tick - patience_ticks)
        if not self._asked and not self._next:
            self._context = b""
        elif self._tick - self._asked_at >= self._retry_ticks:
            self._begin_round()
        for callback in late:
            callback(NoQuorum("no quorum of the cluster confirmed the read", "Try again."))

    def _take_late(self, oldest: int) -> list[DoneCallback]:
        """Remove callers that have waited since ``oldest``, for an answer or for its entries."""
        waiting = [*self._asked, *(one for _, known in self._known for one in known)]
        late = [callback for callback, since in waiting if since <= oldest]
        if late:
            self._asked = [one for one in self._asked if one[1] > oldest]
            known = [(index, [w for w in ws if w[1] > oldest]) for index, ws in self._known]
            self._known = [(index, waiting) for index, waiting in known if waiting]
        return late

    def fail(self, error: PenstockError) -> None:
        waiting = [*self._asked, *self._next, *(w for _, known in self._known for w in known)]
        self._asked, self._next, self._known, self._context = [], [], [], b""
        for callback, _ in waiting:
            callback(error)
