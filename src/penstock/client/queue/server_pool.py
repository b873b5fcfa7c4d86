"""Which of the broker's addresses to try next, and when. Chance is a parameter.

A node that does not lead may say who does, and that is next, whether it is one of our addresses or
not: whoever knows one node finds the leader. A cluster may name it by an address that means nothing
where we are; so if it cannot be reached there, our own addresses are gone through, and that one is
tried again only when it is named once more after that. Otherwise the one after the present one is
next.

The pause before each attempt is twice the one before, up to a longest, and by chance up to half of
it shorter (see ``Backoff``); it is short again once a broker has answered something other than that
it does not lead. There is none before we go where a node has sent us, unless we were sent there by
another one that does not lead: nodes that take each other for the leader must not keep us running.
"""

from collections.abc import Sequence
from typing import Final

from penstock.client.binary.timing import Backoff
from penstock.client.errors import ArgumentError, NotLeaderError
from penstock.config.address import Address, parse_listen
from penstock.errors import LocalProtocolError

CALL_BACKOFF: Final = Backoff(first_s=0.05, longest_s=0.5)
"""For calls: somebody waits."""

PUSH_BACKOFF: Final = Backoff(first_s=0.05, longest_s=5.0)
"""For subscriptions, which try for ever."""


def addresses_of(nodes: str | Sequence[str]) -> Sequence[str]:
    """The nodes of a list, or of a text with commas between them."""
    if not isinstance(nodes, str):
        return nodes
    if "," not in nodes:
        raise ArgumentError(f"{nodes!r} is one address, not a list", f'write connect(["{nodes}"])')
    return [part.strip() for part in nodes.split(",")]


class ServerPool:
    """One client's way through a list of addresses."""

    def __init__(self, nodes: str | Sequence[str], backoff: Backoff = CALL_BACKOFF) -> None:
        addresses = addresses_of(nodes)
        if not addresses:
            raise LocalProtocolError(
                "no address to connect to", 'give at least one, as in connect(["127.0.0.1:1883"])'
            )
        self._addresses = [_parsed(address) for address in addresses]
        self._backoff = backoff
        self._current = 0
        self._attempts = 0
        self._leader: Address | None = None
        """Where a node has sent us, if that is none of our addresses."""
        self._avoided: Address | None = None
        """Where one has sent us in vain."""
        self._was_sent = False
        """Whether a node has sent us where we are."""

    @property
    def address(self) -> Address:
        """Where to connect to now."""
        return self._leader or self._addresses[self._current]

    def failed(self, error: Exception, chance: float) -> float:
        """Connection or attempt failed: choose the next address; say how long to wait before."""
        if not isinstance(error, NotLeaderError):
            self._avoided = self._leader
        named = _named(error)
        if named is not None and named == self._avoided:
            named = self._avoided = None
        self._leader = None
        if named in self._addresses:
            self._current = self._addresses.index(named)
        elif named is not None:
            self._leader = named
        else:
            self._current = (self._current + 1) % len(self._addresses)
        self._attempts += 1
        was_sent, self._was_sent = self._was_sent, named is not None
        if self._was_sent and not was_sent:
            return 0.0
        return self._backoff.pause_s(self._attempts - 1, chance)

    def succeeded(self) -> None:
        """The broker has answered."""
        self._attempts = 0
        self._was_sent = False


def _named(error: Exception) -> Address | None:
    """Where the leader is, as a node that does not lead says."""
    if not isinstance(error, NotLeaderError) or not error.leader_addr:
        return None
    try:
        return parse_listen(error.leader_addr)
    except ValueError:
        return None  # what it says is no address


def _parsed(address: str) -> Address:
    try:
        return parse_listen(address)
    except ValueError as error:
        raise LocalProtocolError(str(error)) from error
