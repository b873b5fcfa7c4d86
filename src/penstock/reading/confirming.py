"""Linearizable reads of the HTTP pages: wait until the quorum confirms this node."""

import asyncio

from penstock.cluster.consensus import Consensus
from penstock.errors import NoQuorum, PenstockError

_ADVICE = "ask another node, or with ?stale=true (penstock: --stale) for what this one has"


async def confirmed(cluster: Consensus) -> None:
    """Wait until everything acknowledged before is applied here. Raises NoQuorum."""
    waiting = asyncio.get_running_loop().create_future()

    def done(error: PenstockError | None) -> None:
        if not waiting.done():
            waiting.set_result(error)

    cluster.read_barrier(done)
    error = await waiting
    if error is not None:
        raise NoQuorum(error.message, _ADVICE)
