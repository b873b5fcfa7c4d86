"""Which address of the broker to try next, and when. Chance is a parameter.

A node that does not lead may name the leader, and that is next, whether it is one of our addresses
or not: one known node is enough. The named address may not be reachable from here; then our own
addresses are tried, and that one again only when it is named once more after that. Otherwise the
next address of the list is tried.

The pause doubles with each attempt, up to a limit, with jitter (see ``Backoff``); it starts again
once a broker has answered anything but that it does not lead. There is none before we go to a named
leader, unless a node named it to which we were sent as the leader: two nodes that name each other
must not keep us in a tight loop.

**Credentials** go to our own addresses only, and to a named leader that is on this machine or whose
certificate is verified: else any server could make us hand them to another.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock.client.addresses import addresses_of, parsed
from penstock.client.binary.timing import Backoff
from penstock.client.credentials import Credentials
from penstock.client.errors import ArgumentError, NotLeaderError
from penstock.client.queue.login import QueueLogin
from penstock.config.address import Address, parse_listen
from penstock.errors import LocalProtocolError

if TYPE_CHECKING:  # loads ``ssl``
    from penstock.client.tls_channel import TlsSettings

CALL_BACKOFF: Final = Backoff(first_s=0.05, longest_s=0.5)
PUSH_BACKOFF: Final = Backoff(first_s=0.05, longest_s=5.0)  # subscriptions retry for ever


class ServerPool:
    """The addresses of one client, and the current one."""

    def __init__(
        self,
        nodes: str | Sequence[str],
        backoff: Backoff = CALL_BACKOFF,
        tls: "TlsSettings | None" = None,
        credentials: Credentials | None = None,
    ) -> None:
        addresses = addresses_of(nodes)
        if not addresses:
            raise LocalProtocolError(
                "no address to connect to", 'give at least one, as in connect(["127.0.0.1:1883"])'
            )
        self._addresses = [parsed(address) for address in addresses]
        if credentials is not None and credentials.has_key:
            raise ArgumentError("the queue protocol has no login with a key", "use a token")
        self.tls = tls
        self._credentials = credentials
        self._backoff = backoff
        self._current = 0
        self._attempts = 0
        self._leader: Address | None = None  # named by a node, and none of our addresses
        self._avoided: Address | None = None  # named by a node, and not reachable
        self._was_sent = False  # the current address was named by a node

    @property
    def address(self) -> Address:
        return self._leader or self._addresses[self._current]

    def login(self) -> QueueLogin | None:
        """Return the first exchange of the next connection."""
        return None if self._credentials is None else QueueLogin(self._credentials)

    def failed(self, error: Exception, chance: float) -> float:
        """Choose the next address after a loss or a failed attempt; return the pause before it."""
        if not isinstance(error, NotLeaderError):
            self._avoided = self._leader
        named = self._trusted(_named(error), error)
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
        pause_s = self._backoff.pause_s(self._attempts - 1, chance)
        return max(pause_s, getattr(error, "retry_after_s", 0.0))  # of a broker that is busy

    def _trusted(self, named: Address | None, error: Exception) -> Address | None:
        """Send credentials to no server but ours, unless it proves who it is, or is on loopback."""
        if named is None or self._credentials is None or named in self._addresses:
            return named
        if named.is_loopback or (self.tls is not None and self.tls.is_verified):
            return named
        if isinstance(error, NotLeaderError):
            error.advice = f"the leader is {named}: name it, too, or use TLS to send it credentials"
        return None

    def succeeded(self) -> None:
        self._attempts = 0
        self._was_sent = False


def _named(error: Exception) -> Address | None:
    if not isinstance(error, NotLeaderError) or not error.leader_addr:
        return None
    try:
        return parse_listen(error.leader_addr)
    except ValueError:
        return None
