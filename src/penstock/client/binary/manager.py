"""What both links do alike from connection to connection; time and chance are parameters.

A link opens a socket (``opened``), sends what ``turn`` returns, passes on what it reads
(``heard``), and asks when to reconnect after a loss (``ended``).
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from penstock.client.addresses import addresses_of, parsed
from penstock.client.binary.inbox import MessageInbox, log
from penstock.client.binary.login import BinaryLogin
from penstock.client.binary.session import BinarySession, SessionEvent
from penstock.client.binary.timing import Backoff, PingTimer, Retry
from penstock.client.credentials import Credentials
from penstock.client.dial import is_of_tls, lost
from penstock.client.errors import ClientError, ConnectionLostError
from penstock.client.tls import Tls, tls_settings

READ_BYTES: Final = 256 * 1024

WINDOW: Final = 1_000  # publishes in flight at once; the broker commits them together
WINDOW_BYTES: Final = 1024 * 1024  # payloads in flight at once, unless a single one is larger
ACKNOWLEDGE_DELAY_S: Final = 0.05  # longest delay of an acknowledgement while messages are left
LINGER_S: Final = 2.0  # how long ``close`` waits for the confirmation of acknowledgements


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Where the broker is, and how to keep the connection; see ``Backoff``.

    ``nodes`` are addresses of a cluster, tried in turn; then ``host`` and ``port`` do not count.

    A PING is sent after ``keep_alive_s`` without traffic, 0 for never; the connection is given up
    after three times as long without a byte.
    """

    backoff: Backoff = Backoff()
    host: str = "127.0.0.1"
    port: int = 1883
    nodes: str | Sequence[str] = ()
    keep_alive_s: float = 60.0
    connect_timeout_s: float = 10.0
    tls: Tls = None
    credentials: Credentials | None = None


class ConnectionManager:
    """The session, inbox and timing of one client; see the module."""

    def __init__(self, session: BinarySession, inbox: MessageInbox, options: Options) -> None:
        self.session = session
        self.inbox = inbox
        self.options = options
        self.tls = tls_settings(options.tls)
        self.addresses = [
            (node.host, node.port) for node in map(parsed, addresses_of(options.nodes))
        ]
        self.addresses = self.addresses or [(options.host, options.port)]
        self._attempts = 0
        self.is_leaving = False  # messages are dropped
        self._retry = Retry(options.backoff)
        self._ping_timer = PingTimer(0, 0)

    def login(self) -> BinaryLogin | None:
        """Return the first exchange of the next connection."""
        credentials = self.options.credentials
        return None if credentials is None else BinaryLogin(credentials)

    def next_address(self) -> tuple[str, int]:
        """Return where to connect next: the nodes take turns."""
        self._attempts += 1
        return self.addresses[(self._attempts - 1) % len(self.addresses)]

    @property
    def next_at(self) -> float:
        """When to call ``turn`` at the latest."""
        return self._ping_timer.next_at

    @property
    def has_room(self) -> bool:
        """Whether half of the window is free: publish on.

        Half, so that a broker that answers one by one gets the next publishes in large groups.
        """
        session = self.session
        return session.unanswered <= WINDOW // 2 and session.unanswered_bytes <= WINDOW_BYTES // 2

    @property
    def is_crowded(self) -> bool:
        """Whether to wait until there ``has_room``."""
        session = self.session
        return session.unanswered >= WINDOW or session.unanswered_bytes >= WINDOW_BYTES

    def opened(self, now: float) -> None:
        self._ping_timer = PingTimer(self.options.keep_alive_s, now)
        self.session.connected()

    def turn(self, now: float) -> bytes:
        if self._ping_timer.ping_due(now):
            self.session.barrier()
        data = self.session.data_to_send()
        if data:
            self._ping_timer.sent(now)
        return data

    def is_silent(self, now: float) -> bool:
        return self._ping_timer.is_lost(now)

    @property
    def awaits_sign(self) -> bool:
        """Whether a PING is unanswered: read even if the inbox is full."""
        return self._ping_timer.is_pinging

    def heard(self, data: bytes, now: float) -> None:
        """Process bytes of the broker; raise when a retry is pointless.

        An exception of a callback is raised after everything else was processed: the broker does
        not repeat it.
        """
        self._ping_timer.heard(now)
        events = self.session.receive(data)
        if not self.session.farewell:
            self._retry.succeeded()
        if not self.is_leaving:
            self._add(events)

    def _add(self, events: list[SessionEvent]) -> None:
        raised: Exception | None = None
        for event in events:
            try:
                self.inbox.add(event)
            except Exception as error:  # noqa: BLE001 - of the application; see ``heard``
                raised = raised or error
        if raised is not None:
            raise raised

    def ended(self, now: float, chance: float, cause: OSError | ClientError | None = None) -> float:
        """Return when to try again after a loss or a failed attempt; raise to give up."""
        self.inbox.connection_lost()
        farewell = self.session.farewell or _reason(cause)
        when = self._retry.next_at(now, chance)
        if when is None:
            raise ConnectionLostError(
                f"the connection was lost ({farewell}), and reconnecting failed for"
                f" {self.options.backoff.give_up_s:g} s",
                "the outcome of unconfirmed publishes is unknown; retry",
            )
        log.info("connection lost (%s); next attempt in %.2f s", farewell, when - now)
        return when


def _reason(cause: OSError | ClientError | None) -> str:
    """What a failed attempt, or TLS, says; the system says no more than that it was lost."""
    if isinstance(cause, ClientError):
        return cause.message
    return lost(cause).message if is_of_tls(cause) else "no reason given"
