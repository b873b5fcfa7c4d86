"""One request of an operation, as its handler sees it: who asks, what they may do."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from penstock.admin.guard import Guard, caller_of
from penstock.api.paging import BYTES_FOR_NODE, BYTES_MAX
from penstock.api.peer_requests import (
    Nodes,
    Others,
    is_of_node,
    of_leader,
    others,
)
from penstock.trust.principal import Principal
from penstock.trust.rules import Action

_Arguments = ParamSpec("_Arguments")
_Value = TypeVar("_Value")
_Answer = TypeVar("_Answer", bound=msgspec.Struct)


class Call:
    """A request that was admitted."""

    def __init__(
        self,
        request: Request,
        guard: Guard,
        reading: asyncio.Semaphore,
        nodes: Nodes | None = None,
    ) -> None:
        self.request = request
        self.headers: dict[str, str] = {}  # of the answer
        self._guard = guard
        self._reading = reading
        self._nodes = nodes

    @property
    def principal(self) -> Principal:
        return caller_of(self.request).principal

    def may(self, action: Action, topic: bytes = b"") -> bool:
        """Whether the caller may do this; for lists, which leave out the rest."""
        return self._guard.may(self.request, action, topic)

    def rights_to(self, action: Action) -> Callable[[bytes], bool]:
        """``may`` for one action, for whoever wants a function of the topic."""
        return lambda topic: self.may(action, topic)

    def require(self, action: Action, topic: bytes = b"") -> None:
        """Refuse the request unless the caller may do this."""
        self._guard.require(self.request, action, topic)

    @property
    def is_of_node(self) -> bool:
        """Whether another node asks, which wants to know about this one alone."""
        return is_of_node(self.request)

    @property
    def page_bytes(self) -> int:
        """How large the rows of a list may be together."""
        return BYTES_FOR_NODE if self.is_of_node else BYTES_MAX

    async def others(
        self, kind: type[_Answer], body: msgspec.Struct | None = None
    ) -> Others[_Answer]:
        """Ask all other nodes the same; ``kind`` is what they answer.

        A change needs its ``body``. A node that does not answer is among those ``missing``.
        """
        if self._nodes is None:
            return Others([], [])
        return await others(self._nodes, self.request, kind, _encoded(body))

    async def leader(self, kind: type[_Answer]) -> _Answer | None:
        """Ask the leader the same; None if this node leads, or the leader does not answer."""
        return None if self._nodes is None else await of_leader(self._nodes, self.request, kind)

    async def read(
        self,
        work: Callable[_Arguments, _Value],
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> _Value:
        """Do in a thread what reads the journal; few requests at once may."""
        async with self._reading:
            return await run_in_threadpool(work, *args, **kwargs)


def _encoded(body: msgspec.Struct | None) -> bytes:
    return b"" if body is None else msgspec.json.encode(body)
