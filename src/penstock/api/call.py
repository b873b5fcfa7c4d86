"""One request of an operation, as its handler sees it: who asks, what they may do."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from penstock.admin.guard import Guard, caller_of
from penstock.trust.principal import Principal
from penstock.trust.rules import Action

_Arguments = ParamSpec("_Arguments")
_Value = TypeVar("_Value")


class Call:
    """A request that was admitted."""

    def __init__(self, request: Request, guard: Guard, reading: asyncio.Semaphore) -> None:
        self.request = request
        self.headers: dict[str, str] = {}  # of the answer
        self._guard = guard
        self._reading = reading

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

    async def read(
        self,
        work: Callable[_Arguments, _Value],
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> _Value:
        """Do in a thread what reads the journal; few requests at once may."""
        async with self._reading:
            return await run_in_threadpool(work, *args, **kwargs)
