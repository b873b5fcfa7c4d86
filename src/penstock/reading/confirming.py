"""Reads of pages that must be current: waiting in a coroutine for the quorum's word."""

from penstock.errors import NoQuorum, PenstockError
from penstock.node.hub import Hub

_ADVICE = "ask another node, or with ?stale=true (penstock: --stale) for what this one has"


async def confirmed(hub: Hub) -> None:
    """Wait until everything acknowledged before is applied here; NoQuorum if nobody can say so."""
    waiting = hub.loop.create_future()

    def then(error: PenstockError | None) -> None:
        if not waiting.done():
            waiting.set_result(error)

    hub.cluster.read_barrier(then)
    error = await waiting
    if error is not None:
        raise NoQuorum(error.message, _ADVICE)
