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
from penstock.wire.binary.events import ReceivedMessage

ARRIVED_MAX: Final = 1_024
"""Messages that may wait to be handed out before a driver that reads ahead stops reading."""

QUEUE_PREFIX: Final = "q:"
"""How the topics of queues begin."""

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
        """True: signed by a key of our ring. False: signed otherwise. None: not signed, or no
        ring to look it up in."""
        self._acks = acks

    def __repr__(self) -> str:
        return f"Message({self.topic!r}, {self.payload[:40]!r}, sequence={self.sequence})"

    def ack(self) -> None:
        """Say that it was dealt with; it leaves with the next acknowledgements, or ``flush``."""
        self._acks.handled(self.sequence)


def report_lost(lost: Lost) -> None:
    """Report what retention removed, unless the application does."""
    log.warning("%d messages of %s were removed by retention unread", lost.count, lost.topic)


def report_withheld(message: Message) -> None:
    """Report what could not be verified, unless the application does."""
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
        """Messages that retention removed before they could be read."""
        self.withheld = 0
        """Messages that had to be verified and could not be."""
        self._acks = acks
        self._auto_ack = auto_ack
        self._keyring = None if keyring is None else public_keys(keyring)
        self._require_signature = require_signature
        self._on_lost = on_lost or report_lost
        self._on_withheld = on_withheld or report_withheld
        self.arrived: deque[Message] = deque()
        self._given: Message | None = None

    def add(self, event: SessionEvent) -> None:
        """Take what the session told."""
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
        """The application has come back: it is done with what it was given last."""
        given, self._given = self._given, None
        if given is not None and self._auto_ack:
            self._acks.handled(given.sequence)

    def leave(self) -> None:
        """The application failed on what it was given last: it stays unacknowledged."""
        self._given = None

    def give(self) -> Message | None:
        """Hand out the next message, if there is one."""
        self._given = self.arrived.popleft() if self.arrived else None
        return self._given

    def connection_lost(self) -> None:
        """Let go of jobs that were not handed out: the broker deals them to whoever is there.

        Messages stay, as the broker's repetitions of them are recognised, and those of filters
        would not be repeated.
        """
        kept: deque[Message] = deque()
        for message in self.arrived:
            if message.topic.startswith(QUEUE_PREFIX):
                self._acks.given_back(message.sequence)
            else:
                kept.append(message)
        self.arrived = kept
