"""Deletes single messages on every node.

XDEL and XTRIM are journaled as commands (``Trimmed``, ``Erased``); when one is applied, the writer
thread removes the messages from the store before the next entry. So all nodes agree. After a crash
in between, the next start replays the command and removes them (``erase_leftover``).

Offsets restart if a topic is deleted and created again, so the command has the unique id of the
topic.
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
    """Removes messages on the writer thread; the waiter gets their number."""

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

    def _post(self, complete: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(complete)


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
    return store.delete(command.topic, [offset for offsets in wanted for offset in offsets])


def erase_leftover(store: Store, commands: Iterable[Trimmed | Erased]) -> None:
    """On a start, before anything is written: finish deletions of the last incarnation."""
    for command in commands:
        _erased(store, command)
