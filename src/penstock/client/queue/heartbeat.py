"""Whether a silent broker is still alive: pings of our own.

TCP reports a dead peer only if its machine still answers. A machine without power, or a network
that drops everything, is noticed by silence. So after some silence a **ping** is sent, which every
node answers at once; if nothing is received for a while after that, the connection is dead. Any
byte counts as an answer. A large request on a slow line delays the ping behind it: bytes that were
sent and not answered give the broker more time.

Other implementations of the protocol know no ping and answer in order, so that a ping behind a long
poll is not answered in time. ``is_known`` tells that the broker answers pings; until then silence
has no consequence.

No clock here: time is a parameter.
"""

from typing import Final

from penstock.wire.queue import encode
from penstock.wire.queue._generated.queue_pb2 import Ping, Request

# Seconds of silence before a ping, and after it until the connection is given up. A subscription
# may be one of thousands that are idle, so it pings less often.
CALL_PACE: Final = (1.0, 3.0)
PUSH_PACE: Final = (3.0, 4.0)

SLOWEST_BYTES_S: Final = 128 * 1024  # the slowest line that is worth waiting for
LOOK_S: Final = 0.5  # how often to check the clock


class Heartbeat:
    """The pings of one connection at a time."""

    def __init__(self, pace: tuple[float, float]) -> None:
        self._quiet_s, self._patience_s = pace
        self._silent_since = 0.0
        self._asked_at: float | None = None  # when the ping was sent that is not answered
        self.is_known = False  # the broker answers pings out of order

    def heard(self, now: float) -> None:
        """Note that something was received, or that the connection begins."""
        self._silent_since = now
        self._asked_at = None

    def expects(self, now: float) -> None:
        if self._asked_at is None:
            self._silent_since = now

    def asked(self, now: float) -> None:
        self._asked_at = now

    def is_due(self, now: float) -> bool:
        """Whether to ping now; if so, the ping counts as sent."""
        is_due = (
            self.is_known and self._asked_at is None and now - self._silent_since >= self._quiet_s
        )
        if is_due:
            self._asked_at = now
        return is_due

    def is_dead(self, now: float, unanswered_bytes: int = 0) -> bool:
        patience_s = self._patience_s + unanswered_bytes / SLOWEST_BYTES_S
        return self._asked_at is not None and now - self._asked_at >= patience_s


def ping(number: int) -> bytes:
    return encode.request(Request(ping=Ping(), request_id=number))
