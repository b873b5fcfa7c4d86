"""Which messages this process has, has handled, and has to acknowledge.

After a reconnect the broker repeats every message whose acknowledgement it does not have. Some of
them were handled (the acknowledgement was lost with the connection), or are being handled. Neither
may be handed out twice. A message is identified by its sequence, which is the broker's and unique
among all topics, and goes through these stages::

    arrived ─► in hand ─► handled ─► acknowledgement sent ─► confirmed ─► forgotten, in time
                             ▲                 │ connection lost
                             └─────────────────┘

A repetition of a message in hand is dropped. A repetition of a handled one is dropped and
acknowledged again: the broker does not have the acknowledgement.

An acknowledgement is **confirmed** when the broker has answered a PING sent after it, which it does
only when its disk has what came before. Unconfirmed ones are sent again on the next connection.
Confirmed ones are remembered for a while: a job that was on its way when its acknowledgement
reached the broker may arrive after the PONG.

**Memory** is bounded: beyond the bounds the oldest are forgotten, and handed out again if repeated.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

SEND_EVERY: Final = 1_024  # acknowledgements that are sent without waiting for more
CONFIRM_EVERY: Final = 4_096  # acknowledgements after which a PING asks for confirmation
KNOWN_MAX: Final = 131_072  # messages remembered in each stage, some 100 bytes each
RECENT_MAX: Final = 16_384  # confirmed messages still remembered


class AckTracker:
    """See the module. Messages that the journal does not keep have the sequence 0."""

    def __init__(self) -> None:
        self._when_gathered: Callable[[], None] = lambda: None
        self._in_hand: dict[int, None] = {}
        self._handled: dict[int, None] = {}
        self._gathered: list[int] = []  # to be acknowledged
        self._unconfirmed: deque[int] = deque(maxlen=KNOWN_MAX)  # in the order they were sent
        self._recent: deque[int] = deque()
        self._sent = 0  # how many were ever sent; the last of them are the unconfirmed ones

    def tell(self, when_gathered: Callable[[], None]) -> None:
        """Set a callback for the first acknowledgement that waits to be sent."""
        self._when_gathered = when_gathered

    @property
    def is_ample(self) -> bool:
        return len(self._gathered) >= SEND_EVERY

    @property
    def is_settled(self) -> bool:
        return not self._gathered and not self._unconfirmed

    @property
    def is_confirmation_due(self) -> bool:
        return len(self._unconfirmed) >= CONFIRM_EVERY

    def arrived(self, sequence: int) -> bool:
        """Return whether to hand a message out; false for a repetition."""
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
        """Note that the application has handled a message; twice is once."""
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
        """Forget a job that was not handed out; the broker delivers it again."""
        self._in_hand.pop(sequence, None)

    def take(self) -> list[int]:
        """Return the acknowledgements to send, once."""
        taken, self._gathered = self._gathered, []
        self._unconfirmed.extend(taken)
        self._sent += len(taken)
        return taken

    @property
    def mark(self) -> int:
        """The position of a PING that is sent now, for ``confirm``."""
        return self._sent

    def confirm(self, mark: int) -> None:
        """Note that the broker's disk has all that was sent before this mark."""
        while self._unconfirmed and self._sent - len(self._unconfirmed) < mark:
            self._recent.append(self._unconfirmed.popleft())
        while len(self._recent) > RECENT_MAX:
            self._handled.pop(self._recent.popleft(), None)

    def connection_lost(self) -> None:
        """Send unconfirmed acknowledgements again, before later ones."""
        self._gathered = [*self._unconfirmed, *self._gathered]
        self._unconfirmed.clear()


def _remember(known: dict[int, None], sequence: int) -> None:
    known[sequence] = None
    if len(known) > KNOWN_MAX:
        del known[next(iter(known))]
