"""Completions of commands (``core/completion``): callbacks, and a future for coroutines."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.core.completion import Journaled
from penstock.errors import PenstockError, StorageError, StorageFull
from penstock.obs.reasons import DisconnectReason

Result = TypeVar("Result")


class _Callback(Generic[Result]):
    """A completion that calls functions."""

    __slots__ = ("_done", "_refused")

    def __init__(
        self,
        done: Callable[[Result], None],
        refused: Callable[[DisconnectReason, str], None] | None = None,
    ) -> None:
        self._done = done
        self._refused = refused

    def done(self, result: Result) -> None:
        self._done(result)

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        if self._refused is not None:
            self._refused(reason, detail)


class Callback(_Callback[object]):
    """For the result of any command."""


class JournaledCallback(_Callback[Journaled]):
    """For a publish whose caller needs the offset."""


class ProducedCallback(_Callback[list[tuple[int, int]]]):
    """For messages produced together: their offsets, as pairs of first and count."""


class FutureCompletion:
    """A completion that a coroutine awaits: ``await completion.future``.

    ``undone`` ends the error text if the command is refused: "the key is not stored".
    """

    def __init__(self, undone: str) -> None:
        self.future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._undone = undone

    def done(self, result: object) -> None:
        if not self.future.done():
            self.future.set_result(result)

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        if not self.future.done():
            self.future.set_exception(_error(reason, self._undone, detail))


def _error(reason: DisconnectReason, undone: str, detail: str) -> PenstockError:
    match reason:
        case DisconnectReason.SIGNATURE_REFUSED:
            what, _, advice = detail.partition(": ")
            return PenstockError(f"{what}: {undone}", advice)
        case DisconnectReason.STORAGE_FULL:
            return StorageFull(f"the disk is full: {undone}")
        case DisconnectReason.NO_QUORUM:
            advice = "start the other nodes; penstock cluster status names them"
            return PenstockError(f"too few nodes of the cluster are up: {undone}", advice)
        case DisconnectReason.LEADERSHIP_LOST:
            return PenstockError(f"another node leads now: {undone}", "retry")
        case _:
            return StorageError(f"the disk failed: {undone}")
