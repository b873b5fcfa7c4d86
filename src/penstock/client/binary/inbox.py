"""Messages that a subscriber was sent: verified, in order, handed out one at a time.

``MessageInbox`` stands between the session and the application. It verifies signatures, withholds
what must be verified and is not, and acknowledges: with ``auto_ack`` when the application asks for
the next message, else when ``Message.ack`` is called. A loop that an exception ended does not ask
for the next one, so the message that failed stays unacknowledged.

A withheld message stays unacknowledged: the broker keeps it for a subscriber with the right key.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from penstock.client.binary.ack_tracker import AckTracker
from penstock.client.binary.session import Lost, SessionEvent
from penstock.client.binary.signing import PublicKey, is_verified, public_keys
from penstock.client.errors import FailedJobsError
from penstock.client.handlers import HandlerMismatchError
from penstock.wire.binary.events import ReceivedMessage

ARRIVED_MAX: Final = 1_024  # messages that wait to be handed out before reading stops
FAILED_MAX: Final = 32  # half of the jobs that the broker gives a worker ahead
QUEUE_PREFIX: Final = "q:"  # of the topics of queues

log: Final = logging.getLogger("penstock.client")


class Message:
    """A message, or a job. ``sequence`` is the broker's, 0 if the journal does not keep it."""

    __slots__ = ("_acks", "payload", "sequence", "signature", "topic", "verified")

    def __init__(self, received: ReceivedMessage, verified: bool | None, acks: AckTracker) -> None:
        self.topic = received.topic.decode(errors="surrogateescape")
        self.payload = received.payload
        self.sequence = received.sequence
        self.signature = received.signature
        self.verified = verified
        """Signed by a key of the keyring; None: not signed, or there is no keyring."""
        self._acks = acks

    def __repr__(self) -> str:
        return f"Message({self.topic!r}, {self.payload[:40]!r}, sequence={self.sequence})"

    def ack(self) -> None:
        """Acknowledge; it is sent with the next acknowledgements, or by ``flush``."""
        self._acks.handled(self.sequence)


def report_lost(lost: Lost) -> None:
    log.warning("%d messages of %s were removed by retention unread", lost.count, lost.topic)


def report_withheld(message: Message) -> None:
    log.warning("withheld, as not verified: %r", message)


class MessageInbox:
    """See the module."""

    def __init__(
        self,
        acks: AckTracker,
        *,
        auto_ack: bool = True,
        keyring: Mapping[int, PublicKey] | None = None,
        require_signature: bool = False,
        on_lost: Callable[[Lost], None] | None = None,
        on_withheld: Callable[[Message], None] | None = None,
    ) -> None:
        self.lost = 0
        self.withheld = 0
        self._acks = acks
        self._auto_ack = auto_ack
        self._keyring = None if keyring is None else public_keys(keyring)
        self._require_signature = require_signature
        self._on_lost = on_lost or report_lost
        self._on_withheld = on_withheld or report_withheld
        self.arrived: deque[Message] = deque()
        self._given: Message | None = None

    def add(self, event: SessionEvent) -> None:
        if isinstance(event, Lost):
            self.lost += event.count
            self._on_lost(event)
            return
        message = Message(event, self._verdict(event), self._acks)
        if self._require_signature and not message.verified:
            self.withheld += 1
            self._on_withheld(message)
        else:
            self.arrived.append(message)

    def _verdict(self, received: ReceivedMessage) -> bool | None:
        if self._keyring is None or received.signature is None:
            return None
        return is_verified(self._keyring, received.topic, received.payload, received.signature)

    def settle(self) -> None:
        """Acknowledge what was handed out last, with ``auto_ack``: the next one is wanted."""
        given, self._given = self._given, None
        if given is not None and self._auto_ack:
            self._acks.handled(given.sequence)

    def leave(self) -> None:
        """Leave what was handed out last unacknowledged: the application failed."""
        self._given = None

    def give(self) -> Message | None:
        self._given = self.arrived.popleft() if self.arrived else None
        return self._given

    def connection_lost(self) -> None:
        """Drop jobs that were not handed out: the broker delivers them to other workers.

        Messages stay: their repetitions are recognised, and those of filters are not repeated.
        """
        kept: deque[Message] = deque()
        for message in self.arrived:
            if message.topic.startswith(QUEUE_PREFIX):
                self._acks.given_back(message.sequence)
            else:
                kept.append(message)
        self.arrived = kept


class FailedJobs:
    """The failed jobs of one worker.

    The protocol has no way to reject a job. A failed one stays unacknowledged with its worker, and
    counts as one of those that the broker gives it ahead. Before all of these have failed the
    worker leaves, with an error, and the broker delivers its jobs again.
    """

    def __init__(self, inbox: MessageInbox) -> None:
        self.count = 0
        self._inbox = inbox

    def add(
        self,
        job: Message,
        error: BaseException,
        report: Callable[[Message, Exception], None] | None = None,
    ) -> bool:
        """Keep a failed job unacknowledged, and report it; false if the error is not about it."""
        self._inbox.leave()
        if not isinstance(error, Exception) or isinstance(error, HandlerMismatchError):
            return False
        self.count += 1
        if report is None:
            log.error("job failed, and is left unacknowledged: %r", job, exc_info=error)
        else:
            report(job, error)
        if self.count >= FAILED_MAX:
            raise FailedJobsError(
                f"{self.count} jobs failed and are kept from other workers",
                "close the worker, so that the broker delivers them again; each error was reported",
            ) from error
        return True
