"""Whether a broker that says nothing is still there: asked by pings of our own.

TCP tells of a peer that is gone only when the other machine answers for it. One that lost its
power, or a network that swallows everything, is noticed by silence. So after some silence a
**ping** is sent, which every node answers at once, whatever it is busy with; if nothing at all is
heard for a while after that, the connection is dead. Any byte counts as an answer.

A large request on a slow line may be on its way for long, and the ping stands behind it: what was
sent and not answered gives the broker more time.

Brokers of other makers know no ping and answer in order, so that one behind a long poll would not
be answered in time. ``is_known`` says that this one does; until then nobody is judged by silence.

No clock here: time is a parameter.
"""

from typing import Final

from penstock.wire.queue import encode
from penstock.wire.queue._generated.queue_pb2 import Ping, Request

CALL_PACE: Final = (1.0, 3.0)
PUSH_PACE: Final = (3.0, 4.0)
"""Seconds of silence before a ping, and before the connection is given up after that.

Somebody waits for the answer to a call. A subscription may be one of thousands that have nothing to
do, so its pings are fewer.
"""

SLOWEST_BYTES_S: Final = 128 * 1024
"""How fast a line is at least, to be worth waiting for."""

LOOK_S: Final = 0.5
"""How often to look at the clock."""


class Heartbeat:
    """The watch over one connection at a time."""

    def __init__(self, pace: tuple[float, float]) -> None:
        self._quiet_s, self._patience_s = pace
        self._silent_since = 0.0
        self._asked_at: float | None = None
        """When the ping was sent that is not answered; nothing was heard since."""
        self.is_known = False
        """Whether the broker answers pings, whatever else it has to answer."""

    def heard(self, now: float) -> None:
        """The broker has said something, or the connection begins."""
        self._silent_since = now
        self._asked_at = None

    def expects(self, now: float) -> None:
        """From now on an answer is due; before, there was nothing to say."""
        if self._asked_at is None:
            self._silent_since = now

    def asked(self, now: float) -> None:
        """A ping has been sent without being due."""
        self._asked_at = now

    def is_due(self, now: float) -> bool:
        """Whether to send a ping now; if so, it counts as sent."""
        is_due = (
            self.is_known and self._asked_at is None and now - self._silent_since >= self._quiet_s
        )
        if is_due:
            self._asked_at = now
        return is_due

    def is_dead(self, now: float, unanswered_bytes: int = 0) -> bool:
        """Whether the broker has had its time to answer."""
        patience_s = self._patience_s + unanswered_bytes / SLOWEST_BYTES_S
        return self._asked_at is not None and now - self._asked_at >= patience_s


def ping(number: int) -> bytes:
    """The frame of a ping."""
    return encode.request(Request(ping=Ping(), request_id=number))
