"""A subscription whose history is being sent: what its session remembers of it.

A subscriber that asks for history gets an **offer**, like the one for retained messages
(``core.retained_offers``): a filter and a position, which is the sequence up to which everything
was sent. **Pages** follow, each a command (``Replayed``), as the client's window and its outbox
allow; ``doors/mqtt/replays.py`` reads the journal and makes them.

The subscription belongs to the session at once, but it is not in the routes. So no live message
overtakes history, and no queue fills while a slow client reads a million messages: what is
published meanwhile is read from the journal, too.

**The seam.** A page is made from what the journal holds, and applied a commit later. Messages that
are applied in between are in no page, and must not be lost. So the last pages come in two steps:

1. ``JOINS``: when the reader has come to the end of the journal, the subscription enters the
   routes, in the guise of a ``JoiningSubscription``. That happens at one place of the journal:
   ``joined_at`` is the last sequence that was applied before. Messages applied after it are held
   back: their sequences are noted in ``held``, nothing is sent.
2. ``ENDS``: the reader has sent everything up to ``joined_at``. What was held back is put in flight
   or queued, and the session itself takes the place in the routes.

If more is held back than the client takes (``HELD_MAX``, or window and queue), the subscription
leaves the routes again, and goes on reading: all that was held back is in the journal. A topic that
grows faster than a client reads stays in replay, and loses nothing.

**What survives.** All of it is part of the session's row, and pages of durable sessions are
journaled. A client that disconnects in the middle goes on where it was, at whatever node: nothing
is queued for it meanwhile, because the journal has it.

QoS 0 does not pass through ``core``: what is live when a subscription joins is the door's affair.
"""

from collections.abc import Iterable

import msgspec

from penstock.core.subscription_options import qos_of

HELD_MAX = 1_024  # messages held back while the last pages are sent


class ReplayOffer(msgspec.Struct, array_like=True):
    """One subscription whose history is being sent, and the position."""

    number: int  # changes whenever pages under way become void
    topic_filter: bytes
    options: int  # of the subscription
    start: tuple[int, int, int]  # ``model.history_start.HistoryStart``
    horizon: int  # sequence of the last message when the subscription was made
    after: int = -1  # everything up to this sequence was sent; -1: nothing yet
    joined_at: int = -1  # see above; -1: it is not in the routes
    held: list[int] = []  # sequence and QoS, packed

    @property
    def qos(self) -> int:
        return qos_of(self.options)

    @property
    def is_joining(self) -> bool:
        return self.joined_at >= 0

    def leave(self) -> None:
        """Back to reading: what was held back is in the journal."""
        self.joined_at = -1
        self.held = []


_QOS_BITS = 2


def hold(offer: ReplayOffer, sequence: int, count: int, qos: int) -> None:
    """Hold back consecutive messages."""
    offer.held += [number << _QOS_BITS | qos for number in range(sequence, sequence + count)]


def held_back(offer: ReplayOffer) -> Iterable[tuple[int, int]]:
    """Sequence and QoS of what was held back, in order."""
    return [(packed >> _QOS_BITS, packed & 0b11) for packed in offer.held]
