"""Times, durations and recorded events in plain words."""

from collections.abc import Iterable
from datetime import UTC, datetime

from penstock.explain.explanation import Advice, Fact
from penstock.explain.fates import Certainty
from penstock.obs.events import CONNECTED, DROPPED, ENDED, REFUSED, RETURNED, Event
from penstock.obs.printable import printable
from penstock.obs.reasons import advice_for

ORDINARY = {"", "client_disconnect", "server_shutdown", "returned"}

_ENDS = {
    "client_disconnect": "it said goodbye",
    "client_ended": "it left and wants its will published",
    "connection_lost": "the connection broke",
    "connect_timeout": "nothing complete came in time",
    "keep_alive_timeout": "it was silent for longer than its keep-alive allows",
    "session_taken_over": "another connection came with the same client id",
    "session_ended": "its connection was given up by the cluster or by a restart",
    "not_authorized": "it did what it may not do",
    "bad_credentials": "its name, password or certificate is wrong",
    "credentials_revoked": "its user or credentials were taken away, or expired",
    "banned": "it is banned",
    "kicked": "an administrator ended it",
    "quota": "its user's quota is used up",
    "slow_reader": "it does not read what it is sent",
    "server_shutdown": "the broker was stopped",
    "signature_refused": "a signature was missing or bad",
    "storage_full": "the disk was full",
    "no_quorum": "the cluster had no quorum",
}

_DROPS = {
    "capture_overflow": "of QoS 0 were delivered but not journaled",
    "capture_failed": "were delivered but not journaled: the commit failed",
    "slow_reader": "of QoS 0 were dropped: the client reads too slowly",
    "queue_full_oldest": "gave way to newer ones: the queue was full",
    "queue_full_newest": "were not queued: the queue was full",
    "retention": "were removed by retention before they were delivered",
    "session_expired": "were dropped with the session, which expired",
    "retained_limit": "were delivered but not retained: the limit of retained messages",
    "acknowledgement_holes": "were given up: too many holes between acknowledgements",
    "signature_refused": "were refused for their signature",
    "not_authorized": "were refused or withheld: the user has no right to the topic",
    "expired": "expired before they were delivered",
    "too_large": "were larger than the client takes",
    "topic_deleted": "were deleted with the topic",
    "storage_full": "were refused: the disk was full",
    "storage_failed": "were refused: the disk failed",
    "no_quorum": "were refused: no quorum",
    "leadership_lost": "were not acknowledged: the leader changed",
}


def at(ms: int) -> str | None:
    """A moment as documents have it."""
    if not ms:
        return None
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"


def clock(ms: int) -> str:
    """A moment as a sentence has it."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%H:%M:%S")


def span(seconds: float) -> str:
    """A duration with one unit: 45 s, 17 min, 3 h, 2 d."""
    seconds = max(0.0, seconds)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def number(count: int) -> str:
    return f"{count:,}"


def several(count: int, what: str) -> str:
    return f"{number(count)} {what}" if count == 1 else f"{number(count)} {what}s"


def listed(names: Iterable[str], shown: int = 5) -> str:
    every = list(names)
    rest = len(every) - shown
    return ", ".join(every[:shown]) + (f" and {number(rest)} more" if rest > 0 else "")


def is_trouble(event: Event) -> bool:
    return event.kind == DROPPED or event.reason not in ORDINARY


def tell(event: Event) -> str:
    """A recorded event as a sentence."""
    detail = f": {event.detail}" if event.detail else ""
    who = f"user {event.user}" if event.user else ""
    times = f", {number(event.count)} times in a second" if event.count > 1 else ""
    match event.kind:
        case "connected":
            return f"Connected from {event.peer}{f' as {who}' if who else ''}{times}."
        case "ended":
            return f"Ended: {end_in_words(event)}{times}."
        case "refused":
            told = f"{_ENDS.get(event.reason, _plain(event.reason))}{detail}"
            place = f" from {event.peer}" if event.peer else ""
            return f"Refused{place}{f', {who}' if who else ''}: {told}{times}."
        case "dropped":
            place = f" of {printable(event.topic)}" if event.topic else ""
            group = f", group {printable(event.group)}" if event.group else ""
            told = _DROPS.get(event.reason, _plain(event.reason))
            return f"{several(event.count, 'message')}{place}{group} {told}{detail}."
        case "returned":
            holder = "A worker" if _is_made_up(event.client) else printable(event.client)
            return f"{holder} returned {several(event.count, 'message')}{detail or ': no reason'}."
        case _:
            return f"{event.kind.capitalize()}{times}{detail}."


def end_in_words(event: Event) -> str:
    words = _ENDS.get(event.reason, _plain(event.reason))
    if event.reason == "keep_alive_timeout" and event.detail:
        return event.detail
    return f"{words} ({event.detail})" if event.detail else words


def fact_of(event: Event) -> Fact:
    code = event.reason or event.kind
    return Fact(at(event.ms), code, Certainty.RECORDED, tell(event), is_trouble(event))


def in_order(event: Event) -> tuple[int, int]:
    """The order of records; those of one moment have numbers that grow."""
    return event.ms, event.number


def derived(ms: int, code: str, text: str, *, trouble: bool = False) -> Fact:
    return Fact(at(ms), code, Certainty.DERIVED, text, trouble)


def advice_on(event: Event, command: str | None = None) -> list[Advice]:
    text = advice_for(event.reason, is_drop=event.kind == DROPPED)
    return [Advice(text, command)] if text and not text.startswith("Nothing") else []


def _is_made_up(worker: bytes) -> bool:
    """Whether a worker has only the name that its connection gave it."""
    return not worker or worker.startswith(b"queue#")


def _plain(reason: str) -> str:
    return reason.replace("_", " ")


__all__ = [
    "CONNECTED", "DROPPED", "ENDED", "ORDINARY", "REFUSED", "RETURNED",
    "advice_on", "at", "clock", "derived", "end_in_words", "fact_of", "in_order", "is_trouble",
    "listed", "number", "several", "span", "tell",
]  # fmt: skip
