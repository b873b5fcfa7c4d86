"""Which changes of topics and groups by clients are recorded one by one, and which are counted.

Administrators change things now and then. Clients may do it all the time: some trim a stream with
each message. So the first change of its kind in a minute is recorded with its commit, repetitions
are counted, and the counts are recorded when the minute is over. A user has ``DISTINCT_MAX`` kinds
a minute; further ones are one count. So a user can neither fill the audit log nor act unseen.
"""

from collections import Counter
from typing import NamedTuple

from penstock.trust.principal import Principal

DISTINCT_MAX = 100  # changes of one user that are told apart in a minute
TOLD_APART_MAX = 10_000  # of all users
NAME_BYTES_MAX = 256  # of a topic or a group, as far as it is recorded


class ClientChange(NamedTuple):
    """What counts as the same change. Without a topic: all that are not told apart."""

    user: str
    what: str = ""
    topic: bytes = b""
    group: bytes = b""


class ClientChanges:
    """The changes of the current minute."""

    def __init__(self) -> None:
        self._authors: dict[ClientChange, Principal] = {}  # who made it last
        self._repeated: Counter[ClientChange] = Counter()
        self._distinct: Counter[str] = Counter()  # by user

    def is_first(self, change: ClientChange, author: Principal) -> bool:
        """Whether to record a change; if not, it was counted."""
        if change in self._authors:
            self._repeated[change] += 1
            self._authors[change] = author
            return False
        is_full = len(self._authors) >= TOLD_APART_MAX
        if is_full or self._distinct[author.user] >= DISTINCT_MAX:
            others = ClientChange(author.user)
            self._repeated[others] += 1
            self._authors[others] = author
            return False
        self._distinct[author.user] += 1
        self._authors[change] = author
        return True

    def forget(self, change: ClientChange) -> None:
        """It was not stored: the next one is the first."""
        if self._authors.pop(change, None) is not None:
            self._distinct[change.user] -= 1

    def take(self) -> list[tuple[ClientChange, Principal, int]]:
        """What was repeated, who did it last and how often; the next minute begins."""
        found = [(one, self._authors[one], count) for one, count in self._repeated.items()]
        self._authors, self._repeated, self._distinct = {}, Counter(), Counter()
        return found
