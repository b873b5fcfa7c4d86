"""What this process knows of messages: which it has, which it is done with, which to acknowledge.

The broker sends again, after a reconnect, whatever it holds no acknowledgement of. That is more
than what was not dealt with: an acknowledgement may have been lost on the wire with the
connection, and a message may be in the hands of the application still. Neither may be given out a
second time. A message is known here by its sequence, which is the broker's and unique among all
topics, and goes through these stages::

    arrived ─► in hand ─► handled ─► acknowledgement sent ─► confirmed ─► forgotten, in time
                             ▲                 │ connection lost
                             └─────────────────┘

A repetition of one that is in hand is dropped. A repetition of one that is handled is dropped and
acknowledged again: that the broker sent it proves that it does not know.

**Confirmed** is an acknowledgement when the broker has answered a PING sent behind it: it does so
only when the disk has what came before. Those not confirmed when a connection ends are sent again
on the next one. Confirmed ones are remembered for a while all the same, since a job that was on its
way when its acknowledgement reached the broker may arrive behind the PONG.

**Memory** is bounded: beyond the bounds the oldest are forgotten, and should they be sent again,
given out again.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

SEND_EVERY: Final = 1_024
"""Acknowledgements that need not wait for more company."""

CONFIRM_EVERY: Final = 4_096
"""Acknowledgements after which the broker is asked whether it has them."""

KNOWN_MAX: Final = 131_072
"""Messages remembered in each stage, some 100 bytes each."""

RECENT_MAX: Final = 16_384
"""Confirmed messages still remembered."""


class AckTracker:
    """See the module. Sequence 0 is that of messages which the journal does not keep."""

    def __init__(self) -> None:
        self._when_gathered: Callable[[], None] = lambda: None
        self._in_hand: dict[int, None] = {}
        self._handled: dict[int, None] = {}
        self._gathered: list[int] = []
        """To be acknowledged."""
        self._unconfirmed: deque[int] = deque(maxlen=KNOWN_MAX)
        """Acknowledged on this connection; in the order they were sent."""
        self._recent: deque[int] = deque()
        self._sent = 0
        """How many were ever sent; the last of them are the unconfirmed ones."""

    def tell(self, when_gathered: Callable[[], None]) -> None:
        """Call this whenever there is an acknowledgement to be sent, and there was none before."""
        self._when_gathered = when_gathered

    @property
    def is_ample(self) -> bool:
        """Whether so many acknowledgements wait that they should be sent."""
        return len(self._gathered) >= SEND_EVERY

    @property
    def is_settled(self) -> bool:
        """Whether the broker's disk has every acknowledgement there ever was."""
        return not self._gathered and not self._unconfirmed

    @property
    def is_confirmation_due(self) -> bool:
        """Whether so much is unconfirmed that the broker should be asked."""
        return len(self._unconfirmed) >= CONFIRM_EVERY

    def arrived(self, sequence: int) -> bool:
        """Tell whether a message is to be given out; false for a repetition."""
        if not sequence:
            return True
        if sequence in self._handled:
            self._gather(sequence)
            return False
        if sequence in self._in_hand:
            return False
        _remember(self._in_hand, sequence)
        return True

    def handled(self, sequence: int) -> None:
        """The application is done with a message; saying so twice does nothing."""
        if not sequence or sequence in self._handled:
            return
        self._in_hand.pop(sequence, None)
        _remember(self._handled, sequence)
        self._gather(sequence)

    def _gather(self, sequence: int) -> None:
        self._gathered.append(sequence)
        if len(self._gathered) == 1:
            self._when_gathered()

    def given_back(self, sequence: int) -> None:
        """It was not handed out, and the broker will deal it anew, maybe to another."""
        self._in_hand.pop(sequence, None)

    def take(self) -> list[int]:
        """Hand over the acknowledgements that are to be sent now."""
        taken, self._gathered = self._gathered, []
        self._unconfirmed.extend(taken)
        self._sent += len(taken)
        return taken

    @property
    def mark(self) -> int:
        """What ``confirm`` needs to know of a PING that is sent now."""
        return self._sent

    def confirm(self, mark: int) -> None:
        """The broker's disk has all that was sent before this mark."""
        while self._unconfirmed and self._sent - len(self._unconfirmed) < mark:
            self._recent.append(self._unconfirmed.popleft())
        while len(self._recent) > RECENT_MAX:
            self._handled.pop(self._recent.popleft(), None)

    def connection_lost(self) -> None:
        """Acknowledgements that were not confirmed are to be sent again, before later ones."""
        self._gathered = [*self._unconfirmed, *self._gathered]
        self._unconfirmed.clear()


def _remember(known: dict[int, None], sequence: int) -> None:
    known[sequence] = None
    if len(known) > KNOWN_MAX:
        del known[next(iter(known))]
