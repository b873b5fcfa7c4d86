"""What was cleared, for an hour: in memory of this node, within bounds."""

import secrets
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.core.retained import RetainedMessage
from penstock.limits import MIB

MESSAGES_MAX: Final = 100_000
BYTES_MAX: Final = 64 * MIB  # of all that is kept
KEPT_MS: Final = 3_600_000


class Kept(NamedTuple):
    """Messages of one clearing."""

    messages: Sequence[RetainedMessage]
    bytes: int
    until_ms: int
    user: str


class Undo:
    """The latest clearings, by a name that cannot be guessed."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Kept] = OrderedDict()

    @staticmethod
    def refusal(count: int, size: int) -> str | None:
        """Why so many messages cannot be kept, or None."""
        if count > MESSAGES_MAX:
            return f"more than {MESSAGES_MAX} messages are not kept for an undo"
        if size > BYTES_MAX:
            return f"more than {BYTES_MAX // MIB} MiB are not kept for an undo"
        return None

    def keep(self, messages: Sequence[RetainedMessage], size: int, user: str, now_ms: int) -> str:
        """Keep them; the oldest clearings give way. Returns the name."""
        self._expire(now_ms)
        while self._kept and sum(one.bytes for one in self._kept.values()) + size > BYTES_MAX:
            self._kept.popitem(last=False)
        while sum(len(one.messages) for one in self._kept.values()) + len(messages) > MESSAGES_MAX:
            self._kept.popitem(last=False)
        name = secrets.token_urlsafe(12)
        self._kept[name] = Kept(messages, size, now_ms + KEPT_MS, user)
        return name

    def get(self, name: str, now_ms: int) -> Kept | None:
        self._expire(now_ms)
        return self._kept.get(name)

    def forget(self, name: str) -> None:
        self._kept.pop(name, None)

    def _expire(self, now_ms: int) -> None:
        while self._kept and next(iter(self._kept.values())).until_ms <= now_ms:
            self._kept.popitem(last=False)
