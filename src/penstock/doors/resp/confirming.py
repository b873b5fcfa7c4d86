"""Reads that a quorum must confirm; READONLY and READWRITE.

In a cluster a node may be cut off. So a command that only reads is answered once a quorum has
confirmed that everything acknowledged before is applied here, or refused with CLUSTERDOWN. One
question to the quorum covers all commands that the client sent before it, and clients that ask at
the same time share it (``cluster.reads``). A broker that stands alone answers at once. After
READONLY, as to a replica of a Redis Cluster, a client gets what this node has, however old.
"""

import asyncio
from collections.abc import Callable

from penstock.doors.resp.access import OPEN
from penstock.doors.resp.calls import OK, Call, Commands, Spec
from penstock.doors.resp.faults import CommandError
from penstock.doors.resp.reads import unconfirmed
from penstock.errors import PenstockError


def confirm(call: Call, then: Callable[[str], None]) -> None:
    """Call ``then`` with the reason why this node may not be current; empty: the quorum agrees."""

    def answered(error: PenstockError | None) -> None:
        if not call.closed:
            then("" if error is None else unconfirmed(error))

    if call.connection.reads.is_local:
        then("")
    else:
        call.door.cluster.read_barrier(answered)


async def confirmed(call: Call) -> None:
    """Wait until the quorum confirms that there is nothing; raises CommandError if it does not."""
    waiting: asyncio.Future[str] = call.door.loop.create_future()
    confirm(call, waiting.set_result)  # who is cancelled has a connection that is closed
    if refusal := await waiting:
        raise CommandError(refusal)


def _readonly(call: Call) -> None:
    """Read what this node has from now on, however old."""
    call.connection.reads.is_local = True
    call.reply(OK)


def _readwrite(call: Call) -> None:
    """Undo READONLY."""
    call.connection.reads.is_local = False
    call.reply(OK)


COMMANDS: Commands = {
    b"READONLY": Spec(_readonly, 1, OPEN, flags=("loading", "stale", "fast")),
    b"READWRITE": Spec(_readwrite, 1, OPEN, flags=("loading", "stale", "fast")),
}
