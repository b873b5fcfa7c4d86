"""What patterns of RESP subscribers may cost: all together, and whose.

Each topic that is new to the route cache is held against every pattern, so their cost is bounded
for the whole broker. Nobody may use up the bound for the others: an account may have as much as it
leaves free. So the first takes half at most, the next one half of the rest, and so on; some room is
always left. A few patterns (``SMALL_COST``) are allowed as long as there is any.

An **account** is a user. Clients without a user count by their address, and those on this machine
one by one: there is nothing else to tell them apart.
"""

from collections.abc import Iterable
from typing import Protocol

from penstock.net.origin import Origin
from penstock.wire.resp import glob

PATTERN_COST_MAX = 65_536
"""What all patterns of all clients may cost together (``glob.cost``): a new topic then takes twenty
milliseconds at worst."""

_MORE = "those with '?' or '[' count as more"

SMALL_COST = 256  # what an account may have beyond its share

Account = object


class PricedRoutes(Protocol):
    """The broker's routes."""

    pattern_cost: int  # of all patterns that somebody subscribed to


def account_of(user: str, origin: Origin, connection: object) -> Account:
    if user:
        return user
    return connection if origin.is_local or not origin.host else (origin.host,)


class _Share:
    """The patterns of one account, each counted once, and on how many connections it is."""

    __slots__ = ("connections", "cost")

    def __init__(self) -> None:
        self.connections: dict[bytes, int] = {}
        self.cost = 0


class PatternBudget:
    """Who has which patterns."""

    def __init__(self, routes: PricedRoutes) -> None:
        self._routes = routes
        self._shares: dict[Account, _Share] = {}

    def fault(self, account: Account, patterns: Iterable[bytes]) -> str:
        """Why an account may not have these patterns as well; empty if it may."""
        share = self._shares.get(account) or _Share()
        more = sum(glob.cost(pattern) for pattern in patterns if pattern not in share.connections)
        if not more:
            return ""
        free = PATTERN_COST_MAX - self._routes.pattern_cost - more
        if free < 0:
            return f"too many patterns, of all clients together; {_MORE}"
        if share.cost + more > max(free, SMALL_COST):
            return f"too many patterns: others need room as well; {_MORE}"
        return ""

    def take(self, account: Account, pattern: bytes) -> None:
        share = self._shares.setdefault(account, _Share())
        if pattern not in share.connections:
            share.cost += glob.cost(pattern)
        share.connections[pattern] = share.connections.get(pattern, 0) + 1

    def give_back(self, account: Account, pattern: bytes) -> None:
        share = self._shares[account]
        share.connections[pattern] -= 1
        if not share.connections[pattern]:
            del share.connections[pattern]
            share.cost -= glob.cost(pattern)
        if not share.connections:
            del self._shares[account]
