"""What a subscriber has been sent: verified, in order, handed out one at a time.

``Inbox`` stands between the session and the application. It withholds what must be verified and is
not, turns the rest into ``Message``, and acknowledges: by itself when the application comes back
for the next one (``auto_ack``), else when ``Message.ack`` is called. To come back says that the one
before has been dealt with; a loop that was left by an exception does not come back.

What is withheld stays unacknowledged, so the broker keeps it for a subscriber with the right key.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from penstock.client.edge.receipts import Receipts
from penstock.client.edge.session import Happening, Lost
from penstock.client.edge.signing import PublicKey, is_verified, public_keys
from penstock.wire.binary.events import Received

ARRIVED_MAX: Final = 1_024
"""Messages that may wait to be handed out before a driver that reads ahead stops reading."""

QUEUE_PREFIX: Final = "q:"
"""How the topics of queues begin."""

log: Final = logging.getLogger("penstock.client")


class Message:
    """A message, or a job. ``sequence`` is the broker's, 0 if the journal does not keep it."""

    __slots__ = ("_receipts", "payload", "sequence", "signature", "topic", "verified")

    def __init__(self, received: Received, verified: bool | None, receipts: Receipts) -> None:
        self.topic = received.topic.decode(errors="surrogateescape")
        self.payload = received.payload
        self.sequence = received.sequence
        self.signature = received.signature
        self.verified = verified
        """True: signed by a key of our ring. False: signed otherwise. None: not signed, or no
        ring to look it up in."""
        self._receipts = receipts

    def __repr__(self) -> str:
        return f"Message({self.topic!r}, {self.payload[:40]!r}, sequence={self.sequence})"

    def ack(self) -> None:
        """Say that it was dealt with; it leaves with the next acknowledgements, or ``flush``."""
        self._receipts.handled(self.sequence)


def report_lost(lost: Lost) -> None:
    """Report what retention removed, unless the application does."""
    log.warning("%d messages of %s were removed by retention unread", lost.count, lost.topic)


def report_withheld(message: Message) -> None:
    """Report what could not be verified, unless the application does."""
    log.warning("withheld, as not verified: %r", message)


class Inbox:
    """See the module."""

    def __init__(
        self,
        receipts: Receipts,
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
        self._receipts = receipts
        self._auto_ack = auto_ack
        self._keyring = None if keyring is None else public_keys(keyring)
        self._require_signature = require_signature
        self._on_lost = on_lost or report_lost
        self._on_withheld = on_withheld or report_withheld
        self._arrived: deque[Message] = deque()
        self._given: Message | None = None

    def __len__(self) -> int:
        return len(self._arrived)

    def add(self, happening: Happening) -> None:
        """Take what the session told."""
        if isinstance(happening, Lost):
            self.lost += happening.count
            self._on_lost(happening)
            return
        message = Message(happening, self._verdict(happening), self._receipts)
        if self._require_signature and not message.verified:
            self.withheld += 1
            self._on_withheld(message)
        else:
            self._arrived.append(message)

    def _verdict(self, received: Received) -> bool | None:
        if self._keyring is None or received.signature is None:
            return None
        return is_verified(self._keyring, received.topic, received.payload, received.signature)

    def settle(self) -> None:
        """The application has come back: it is done with what it was given last."""
        given, self._given = self._given, None
        if given is not None and self._auto_ack:
            given.ack()

    def leave(self) -> None:
        """The application failed on what it was given last: it stays unacknowledged."""
        self._given = None

    def give(self) -> Message | None:
        """Hand out the next message, if there is one."""
        self._given = self._arrived.popleft() if self._arrived else None
        return self._given

    def connection_lost(self) -> None:
        """Let go of jobs that were not handed out: the broker deals them to whoever is there.

        Messages stay, as the broker's repetitions of them are recognised, and those of filters
        would not be repeated.
        """
        kept: deque[Message] = deque()
        for message in self._arrived:
            if message.topic.startswith(QUEUE_PREFIX):
                self._receipts.given_back(message.sequence)
            else:
                kept.append(message)
        self._arrived = kept
