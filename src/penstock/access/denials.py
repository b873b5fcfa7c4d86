"""What was denied, to whom: counted, and the last few kept for each user.

``penstock acl log``, ``ACL LOG`` and ``penstock_denied_total`` read it.
"""

from collections import OrderedDict, deque
from typing import NamedTuple

from penstock.trust.principal import Principal
from penstock.trust.rules import Action

KEPT_PER_USER = 32
USERS_KEPT = 1_000  # with denials; the one denied longest ago is forgotten first


class Denial(NamedTuple):
    """One request that was denied."""

    time_ms: int
    user: str
    door: str
    address: str
    action: Action
    topic: bytes


class Denials:
    """The denials of this node."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], int] = {}  # by door and action
        self._by_user: OrderedDict[str, deque[Denial]] = OrderedDict()

    def note(
        self, principal: Principal, action: Action, topic: bytes, now_ms: int, count: int = 1
    ) -> None:
        key = (principal.door, action.word)
        self.counts[key] = self.counts.get(key, 0) + count
        kept = self._by_user.pop(principal.user, None) or deque(maxlen=KEPT_PER_USER)
        denial = Denial(
            now_ms, principal.user, principal.door, principal.address, action, topic[:256]
        )
        kept.append(denial)
        self._by_user[principal.user] = kept
        if len(self._by_user) > USERS_KEPT:
            self._by_user.popitem(last=False)

    def clear(self) -> None:
        """Forget single denials; they stay counted."""
        self._by_user.clear()

    def of(self, user: str) -> list[Denial]:
        return list(self._by_user.get(user, ()))

    def latest(self, count: int) -> list[Denial]:
        """The latest denials of all users, newest first."""
        every = (denial for kept in self._by_user.values() for denial in kept)
        return sorted(every, key=lambda denial: -denial.time_ms)[:count]
