"""From connection to connection: what both drivers do alike, with time and chance as parameters.

A driver opens a socket and tells (``opened``), sends what ``turn`` returns, and tells what it reads
(``heard``) and when the connection broke (``ended``), to learn when to try again. Everything that
must not be different between a client with threads and one with a loop is decided here.
"""

from typing import Final

import msgspec

from penstock.client.binary.inbox import MessageInbox, log
from penstock.client.binary.session import BinarySession, SessionEvent
from penstock.client.binary.timing import Backoff, PingTimer, Retry
from penstock.client.errors import ConnectionLostError

READ_BYTES: Final = 256 * 1024

WINDOW: Final = 1_000
"""Publishes under way at once. The broker commits those that came together in one go."""

WINDOW_BYTES: Final = 1024 * 1024
"""Payloads under way at once, save for one that alone is larger."""

ACKNOWLEDGE_DELAY_S: Final = 0.05
"""Longest wait of an acknowledgement for company while there are messages left to hand out."""

LINGER_S: Final = 2.0
"""How long ``close`` waits for the broker's word that it has all acknowledgements."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Where the broker is, and how to keep the connection; see ``Backoff``.

    A PING leaves after ``keep_alive_s`` without traffic, 0 for never; the connection is given up
    after three times as long without any byte.
    """

    backoff: Backoff
    host: str = "127.0.0.1"
    port: int = 1883
    keep_alive_s: float = 60.0
    connect_timeout_s: float = 10.0


class ConnectionManager:
    """One client's way; see the module."""

    def __init__(self, session: BinarySession, inbox: MessageInbox, options: Options) -> None:
        self.session = session
        self.inbox = inbox
        self.options = options
        self.is_leaving = False
        """Whether nobody wants messages any more."""
        self._retry = Retry(options.backoff)
        self._watch = PingTimer(0, 0)

    @property
    def next_at(self) -> float:
        """When ``turn`` wants to be called at the latest, if nothing happens before."""
        return self._watch.next_at

    @property
    def has_room(self) -> bool:
        """Whether more may be published without waiting: half of the window is free.

        Half, so that a broker that answers one by one gets its next publishes by the hundred.
        """
        session = self.session
        return session.unanswered <= WINDOW // 2 and session.unanswered_bytes <= WINDOW_BYTES // 2

    @property
    def is_crowded(self) -> bool:
        """Whether whoever publishes should wait until there ``has_room``."""
        session = self.session
        return session.unanswered >= WINDOW or session.unanswered_bytes >= WINDOW_BYTES

    def opened(self, now: float) -> None:
        """A connection was made."""
        self._watch = PingTimer(self.options.keep_alive_s, now)
        self.session.connected()

    def turn(self, now: float) -> bytes:
        """Return what to send now."""
        if self._watch.ping_due(now):
            self.session.barrier()
        data = self.session.data_to_send()
        if data:
            self._watch.sent(now)
        return data

    def is_silent(self, now: float) -> bool:
        """Tell whether the broker has to be given up for its silence."""
        return self._watch.is_lost(now)

    @property
    def awaits_sign(self) -> bool:
        """Whether a PING is without an answer: who does not listen now hears only silence."""
        return self._watch.is_pinging

    def heard(self, data: bytes, now: float) -> None:
        """The broker sent something; raises when there is no point in coming back.

        What a callback of the application raises is raised when everything else has been taken:
        what came in the same piece would not come again.
        """
        self._watch.heard(now)
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

    def ended(self, now: float, chance: float) -> float:
        """Connection or attempt failed: return when to try again, or raise to give up."""
        self.inbox.connection_lost()
        farewell = self.session.farewell or "nothing was said"
        when = self._retry.next_at(now, chance)
        if when is None:
            raise ConnectionLostError(
                f"the connection was lost ({farewell}), and could not be made again within"
                f" {self.options.backoff.give_up_s:g} s",
                "what was not confirmed may or may not be with the broker",
            )
        log.info("connection lost (%s); next attempt in %.2f s", farewell, when - now)
        return when
