"""What the administration pages may know of a running broker, and the one thing they may change.

A ``View`` is read only. The keys of devices can be changed too, through a ``KeyBook``. Everything
but ``store`` and ``store_key`` is answered from memory, at once, on the event loop: a scrape must
not wait for a disk, nor a disk for a scrape.
"""

from typing import NamedTuple, Protocol

from penstock.obs.counters import Counters
from penstock.store.store import Store
from penstock.trust.keys import Key

__all__ = ["JournalView", "KeyBook", "View"]


class JournalView(NamedTuple):
    """The journal in numbers, as of the last commit. Sequences are 0 while there is no message."""

    bytes: int
    """Disk used by the store: pages in use, not the size of the map."""
    map_bytes: int
    """Address space the store may use before it has to grow."""
    entries: int
    messages: int
    oldest_sequence: int
    newest_sequence: int


class View(Protocol):
    """A running broker, as the pages see it."""

    @property
    def version(self) -> str:
        """The version of the package."""

    @property
    def store(self) -> Store:
        """The journal; its reading methods may be called from any thread."""

    @property
    def counters(self) -> Counters:
        """All that is counted."""

    def sessions(self) -> tuple[int, int]:
        """Sessions with a connection, and sessions without (away)."""

    def queued(self) -> int:
        """Messages waiting in the queues of all sessions."""

    def retained(self) -> int:
        """Retained messages."""

    def subscriptions(self) -> int:
        """Filters of all sessions."""

    def journal(self) -> JournalView:
        """The journal in numbers."""

    def pending_capture_bytes(self) -> int:
        """Bytes of QoS 0 messages waiting to be journaled."""

    def uptime_s(self) -> float:
        """Seconds since the broker began to listen."""

    def ready(self) -> tuple[bool, str]:
        """Whether new work is welcome; if not, why (storage full or failing, shutting down)."""


class KeyBook(Protocol):
    """The keys that devices sign with, as the pages see and change them."""

    def keys(self) -> list[Key]:
        """All registered keys, by id, whether or not they are in force."""

    def next_key_id(self) -> int:
        """An id that no key has."""

    def wall_ms(self) -> int:
        """The time of day, in milliseconds since 1970: the clock by which keys expire."""

    async def store_key(self, key: Key) -> None:
        """Register a key or replace the one of its id; durable and in force when it returns."""
