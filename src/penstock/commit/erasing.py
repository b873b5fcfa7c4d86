"""Deleting messages, on every node that has them.

XDEL and XTRIM are decided at a door and journaled (``Trimmed``, ``Erased``); the store forgets the
messages when that is applied, on the writer thread, in its turn. So nodes of a cluster agree, and
the next entry of the journal finds them gone. A crash between the two is made good by the next
start, which goes through the same entries once more (``erase_leftover``).

Offsets begin anew if a topic is deleted and made again. The command names the topic that was meant
by its id, which no other topic ever has.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Protocol

from penstock.core.commands import Erased, Trimmed
from penstock.core.effects import Erasing
from penstock.errors import StorageError, StorageFull
from penstock.obs.log import get_logger
from penstock.obs.reasons import DisconnectReason
from penstock.store.store import Store

_log = get_logger("erasing")


class WriterThread(Protocol):
    """Runs jobs on the thread that writes the store, between two commits."""

    def run_on_writer(self, job: Callable[[], None]) -> None: ...


class Eraser:
    """Has the store forget messages on the writer thread; the waiter gets their number."""

    def __init__(self, store: Store, writer: WriterThread) -> None:
        self._store = store
        self._writer = writer
        self._loop = asyncio.get_running_loop()

    def erase(self, effect: Erasing) -> None:
        waiter = effect.waiter

        def job() -> None:
            try:
                count = _erased(self._store, effect.command)
            except StorageError as error:
                _log.warning("erasing_failed", error=error.message)
                if waiter is not None:
                    self._post(partial(waiter.refused, _reason(error), error.message))
            else:
                if waiter is not None:
                    self._post(partial(waiter.done, count))

        self._writer.run_on_writer(job)

    def _post(self, tell: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended, and everybody who waited with it
            self._loop.call_soon_threadsafe(tell)


def _reason(error: StorageError) -> DisconnectReason:
    is_full = isinstance(error, StorageFull)
    return DisconnectReason.STORAGE_FULL if is_full else DisconnectReason.STORAGE_FAILED


def _erased(store: Store, command: Trimmed | Erased) -> int:
    info = store.topic(command.topic)
    if info is None or info.id != command.topic_id:
        return 0
    if isinstance(command, Trimmed):
        return store.trim(command.topic, command.below)
    first, end = info.first_offset, info.next_offset
    wanted = [range(max(low, first), min(high, end)) for low, high in command.ranges]
    return store.delete(command.topic, [offset for stretch in wanted for offset in stretch])


def erase_leftover(store: Store, commands: Iterable[Trimmed | Erased]) -> None:
    """On a start: finish what the last incarnation may have left undone. Nothing else writes."""
    for command in commands:
        _erased(store, command)
