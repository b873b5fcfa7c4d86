"""What a subscriber asks for: the words of a replay, ``last=100``, ``since=-5m`` or ``offset=0``.

They come as a user property of SUBSCRIBE or within the filter, ``$replay/<what>/<filter>``, which
any client can send. From the door on both are the latter, with a time that no longer moves: in
milliseconds since 1970.
"""

from datetime import datetime
from typing import Final, NamedTuple

REPLAY_PREFIX: Final = b"$replay/"

_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DIGITS_MAX: Final = 15  # of a number; a time in milliseconds has thirteen

ALLOWED: Final = (
    "replay is last=N with N from 1 on, offset=N, or since= with a time as in "
    "2026-11-15T12:00:00Z or -5m (s, m, h, d)"
)


class HistoryStart(NamedTuple):
    """Where the history of each topic begins; a message must fulfil all conditions."""

    last: int = 0  # the last so many messages; 0: all
    since_ms: int = 0
    offset: int = 0

    def text(self) -> str:
        """The words for it, which mean the same at any time."""
        if self.last:
            return f"last={self.last}"
        return f"since={self.since_ms}" if self.since_ms else f"offset={self.offset}"


class HistoryRequest(NamedTuple):
    """A filter whose history is wanted first."""

    start: HistoryStart
    topic_filter: bytes

    def text(self) -> bytes:
        return b"%b%b/%b" % (REPLAY_PREFIX, self.start.text().encode(), self.topic_filter)


def parse_start(words: str, now_ms: int) -> HistoryStart | None:
    """What the words ask for; None if they are not understood."""
    name, _, value = words.partition("=")
    if name == "since":
        since_ms = _time_ms(value, now_ms)
        return None if since_ms is None else HistoryStart(since_ms=max(since_ms, 1))
    number = _number(value)
    if name == "last" and number:
        return HistoryStart(last=number)
    return HistoryStart(offset=number) if name == "offset" and number is not None else None


def split_request(topic_filter: bytes) -> tuple[str, bytes] | None:
    """Words and filter of ``$replay/<what>/<filter>``; None if it is an ordinary filter."""
    if not topic_filter.startswith(REPLAY_PREFIX):
        return None
    words, _, wanted = topic_filter[len(REPLAY_PREFIX) :].partition(b"/")
    return words.decode(errors="replace"), wanted


def parse_request(topic_filter: bytes, now_ms: int = 0) -> HistoryRequest | None:
    """A request of the form above; None if it is an ordinary filter, or has other words."""
    found = split_request(topic_filter)
    start = parse_start(found[0], now_ms) if found else None
    return HistoryRequest(start, found[1]) if found and start else None


def _number(text: str) -> int | None:
    if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS_MAX:
        return None
    return int(text)


def _time_ms(text: str, now_ms: int) -> int | None:
    if text.startswith("-"):
        amount, unit = _number(text[1:-1]), _UNITS_MS.get(text[-1:])
        return None if amount is None or unit is None else now_ms - amount * unit
    number = _number(text)
    if number is not None:
        return number
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if moment.tzinfo is None else int(moment.timestamp() * 1000)
