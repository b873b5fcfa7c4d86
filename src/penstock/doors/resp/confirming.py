"""Reads that need the quorum's word; READONLY and READWRITE.

In a cluster a node may be cut off and not know what was written since. So a command that only reads
is answered once a quorum has confirmed that everything acknowledged before is applied here, or
refused with CLUSTERDOWN, as a node of a Redis Cluster does without a majority.

One question to the quorum covers all commands that the client had sent by then: a pipeline of a
thousand reads costs one round, and clients that ask at the same time share it
(``cluster.reads``). A broker that stands alone answers at once.

A client that would rather have old news than none says READONLY, as to a replica of a Redis
Cluster, and from then on gets what this node has.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.doors.resp.calls import OK, Call, Commands, Spec
from penstock.doors.resp.stream_faults import StreamFault
from penstock.errors import PenstockError
from penstock.wire.resp.events import Event

if TYPE_CHECKING:
    import asyncio

    from penstock.doors.resp.connection import RespConnection


class Reads:
    """Which commands of one client the quorum's word covers."""

    __slots__ = ("_connection", "_error", "is_asking", "is_local", "last")

    def __init__(self, connection: "RespConnection") -> None:
        self._connection = connection
        self._error: PenstockError | None = None
        self.is_local = False
        """Whether the client has said READONLY."""
        self.is_asking = False
        """Whether the quorum has yet to answer; nothing runs until then."""
        self.last: Event | None = None
        """The last command that the question covers; None: no question was put."""

    def may_run(self, last: Event) -> bool:
        """Whether a read may run, or be refused, now; ``last`` was received after it, or is it."""
        if not self.is_local and self.last is None:
            self.last, self.is_asking = last, True
            self._connection.hub.cluster.read_barrier(self._answered)
        return self.is_local or not self.is_asking

    def _answered(self, error: PenstockError | None) -> None:
        self.is_asking = False
        self._error = error
        self._connection.go_on_if_held()

    def passed(self) -> None:
        """The last command that was covered is done with."""
        self.last = self._error = None

    def refusal(self) -> str:
        """Why reads are refused; empty if they are not."""
        return "" if self._error is None or self.is_local else _unconfirmed(self._error)


def confirm(call: Call, then: Callable[[str], None]) -> None:
    """Tell ``then`` why it cannot be said that there is nothing; empty: the quorum agrees."""

    def answered(error: PenstockError | None) -> None:
        if not call.closed:
            then("" if error is None else _unconfirmed(error))

    if call.connection.reads.is_local:
        then("")
    else:
        call.connection.hub.cluster.read_barrier(answered)


async def confirmed(call: Call) -> None:
    """Wait for the quorum's word, to say that there is nothing; StreamFault if it does not come."""
    waiting: asyncio.Future[str] = call.connection.hub.loop.create_future()
    confirm(call, waiting.set_result)  # who is cancelled has a connection that is closed
    if refusal := await waiting:
        raise StreamFault(refusal)


def _unconfirmed(error: PenstockError) -> str:
    advice = "try another node, or say READONLY to read what this one has"
    return f"CLUSTERDOWN {error.message}: {advice}"


def _readonly(call: Call) -> None:
    """Read what this node has from now on, however old."""
    call.connection.reads.is_local = True
    call.reply(OK)


def _readwrite(call: Call) -> None:
    """Undo READONLY."""
    call.connection.reads.is_local = False
    call.reply(OK)


COMMANDS: Commands = {
    b"READONLY": Spec(_readonly, 1, flags=("loading", "stale", "fast")),
    b"READWRITE": Spec(_readwrite, 1, flags=("loading", "stale", "fast")),
}
