"""Reads of pages that must be current: waiting in a coroutine for the quorum's word."""

import asyncio

from penstock.cluster.consensus import Consensus
from penstock.errors import NoQuorum, PenstockError

_ADVICE = "ask another node, or with ?stale=true (penstock: --stale) for what this one has"


async def confirmed(cluster: Consensus) -> None:
    """Wait until everything acknowledged before is applied here; NoQuorum if nobody can say so."""
    waiting = asyncio.get_running_loop().create_future()

    def then(error: PenstockError | None) -> None:
        if not waiting.done():
            waiting.set_result(error)

    cluster.read_barrier(then)
    error = await waiting
    if error is not None:
        raise NoQuorum(error.message, _ADVICE)
