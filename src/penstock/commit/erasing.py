"""Deleting messages, on every node that has them.

XDEL and XTRIM are decided at a door and journaled (``Trimmed``, ``Erased``); the store forgets the
messages when that is applied, on the writer thread, in its turn. So nodes of a cluster agree, and
the next entry of the journal finds them gone. A crash between the two is made good by the next
start, which goes through the same entries once more (``erase_leftover``).

Offsets begin anew if a topic is deleted and made again. The command names the topic that was meant
by its id, which no other topic ever has.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.core.commands import Erased, Trimmed
from penstock.errors import StorageError, StorageFull
from penstock.obs.log import get_logger
from penstock.obs.reasons import DisconnectReason
from penstock.store.store import Store

if TYPE_CHECKING:
    from penstock.node.hub import Hub


_log = get_logger("erasing")


def erase(hub: "Hub", command: Trimmed | Erased, outlet: Any) -> None:
    """Have the store forget messages; ``outlet`` learns how many there were."""

    def job() -> None:
        try:
            count = _erased(hub.store, command)
        except StorageError as error:
            _log.warning("erasing_failed", error=error.message)
            _tell(hub, outlet, "close", _reason(error), error.message)
        else:
            _tell(hub, outlet, "outcome", count)

    hub.pipeline.run_on_writer(job)


def _tell(hub: "Hub", outlet: Any, verb: str, *what: object) -> None:
    if outlet is not None:
        with suppress(RuntimeError):  # the loop is gone by now, and so is everybody who waited
            hub.loop.call_soon_threadsafe(getattr(outlet, verb), *what)


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
    """On a start: do what the last life may have left undone. Nothing else writes yet."""
    for command in commands:
        _erased(store, command)
