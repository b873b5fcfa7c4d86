"""Which of the broker's addresses to try next, and when. Chance is a parameter.

A node that does not lead may say who does: if that is one of our addresses it is next, else the one
after the present one. The pause before each attempt is twice the one before, up to a longest, and
by chance up to half of it shorter (see ``Backoff``); it is short again once a broker has answered
something other than that it does not lead.
"""

from collections.abc import Sequence
from typing import Final

from penstock.client.edge.pace import Backoff
from penstock.client.errors import ArgumentError, NotLeaderError
from penstock.config.address import Address, parse_listen
from penstock.errors import LocalProtocolError

__all__ = ["CALL_BACKOFF", "PUSH_BACKOFF", "Route"]

CALL_BACKOFF: Final = Backoff(first_s=0.05, longest_s=0.5)
"""For calls: somebody waits."""

PUSH_BACKOFF: Final = Backoff(first_s=0.05, longest_s=5.0)
"""For subscriptions, which try for ever."""


class Route:
    """One client's way through a list of addresses."""

    def __init__(self, addresses: Sequence[str], backoff: Backoff = CALL_BACKOFF) -> None:
        if isinstance(addresses, str):
            raise ArgumentError(
                f"{addresses!r} is one address, not a list", f'write connect(["{addresses}"])'
            )
        if not addresses:
            raise LocalProtocolError(
                "no address to connect to", 'give at least one, as in connect(["127.0.0.1:1883"])'
            )
        self._addresses = [_parsed(address) for address in addresses]
        self._backoff = backoff
        self._current = 0
        self._attempts = 0

    @property
    def address(self) -> Address:
        """Where to connect to now."""
        return self._addresses[self._current]

    def failed(self, error: Exception, chance: float) -> float:
        """Connection or attempt failed: choose the next address; say how long to wait before."""
        hint = error.leader_addr if isinstance(error, NotLeaderError) else ""
        named = [str(address) for address in self._addresses]
        if hint in named:
            self._current = named.index(hint)
        else:
            self._current = (self._current + 1) % len(named)
        self._attempts += 1
        return self._backoff.pause_s(self._attempts - 1, chance)

    def succeeded(self) -> None:
        """The broker has answered."""
        self._attempts = 0


def _parsed(address: str) -> Address:
    try:
        return parse_listen(address)
    except ValueError as error:
        raise LocalProtocolError(str(error)) from error
