"""Waiting in a coroutine for a command to be applied: how pages change what is durable."""

from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError, StorageError, StorageFull
from penstock.node.hub import Hub
from penstock.obs.reasons import DisconnectReason

if TYPE_CHECKING:
    import asyncio


class Waiter:
    """Somebody who waits for what was asked to be durable; an outlet like any other."""

    def __init__(self, hub: Hub, undone: str) -> None:
        """Say what is to be told if the disk refuses, as in "the key is not stored"."""
        self.done: asyncio.Future[Any] = hub.loop.create_future()
        self._undone = undone

    def outcome(self, value: object) -> None:
        """It is."""
        if not self.done.done():
            self.done.set_result(value)

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        """The disk refused it, or something else that ``detail`` says."""
        if self.done.done():
            return
        self.done.set_exception(_error(reason, self._undone, detail))


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
            return PenstockError(f"another node leads by now: {undone}", "ask again")
        case _:
            return StorageError(f"the disk failed: {undone}")
