"""Whether a device is there: what is known of it, and what follows from a message or its absence.

Pure: times come from outside, as milliseconds since 1970, and nothing here knows Spark.

::

              message                      silent_ms without one
    (unknown) ────────► there  ─────────────────────────────────► silent
                          ▲        emits "silent"                   │
                          │ message, emits "back"                   │ forget_ms without one
                          └─────────────────────────────────────────┴──────► (unknown)

A message that comes after ``silent_ms`` or more emits both, if nobody noticed the silence before:
when a backlog is worked through, a device that was away and came back is seen in one go.

Readings may be **numbered** by their device. A number that is not the next one after the highest
emits "gap", with the numbers that are missing. A number that was passed already is a repetition,
and no news; 0 and 1 are a device that began anew.
"""

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

UNNUMBERED: Final = -1
"""The number of a reading that has none, or of none yet."""

RESTARTED_BELOW: Final = 2


class PresenceTimeouts(NamedTuple):
    """After which time a device is silent, and after which it is forgotten."""

    silent_ms: int
    forget_ms: int


class DevicePresence(NamedTuple):
    """What is known of a device: when it was last heard, its highest number, and if it is told."""

    last_ms: int
    seq: int = UNNUMBERED
    is_silent: bool = False


class Event(NamedTuple):
    """What is worth telling. ``last_ms`` is when the device had been heard last, before that.

    Kind, device and ``last_ms`` name an event: whoever meets two that agree has met one twice.
    """

    kind: Literal["silent", "back", "gap"]
    at_ms: int
    last_ms: int
    first_missing: int | None = None
    last_missing: int | None = None


def seen(
    presence: DevicePresence | None, readings: Iterable[tuple[int, int]], limits: PresenceTimeouts
) -> tuple[DevicePresence | None, list[Event]]:
    """Take readings (time, number), the oldest first; one may be older than what is known."""
    events: list[Event] = []
    for at_ms, seq in readings:
        presence = _seen(presence, at_ms, seq, limits, events)
    return presence, events


def _seen(
    before: DevicePresence | None,
    at_ms: int,
    seq: int,
    limits: PresenceTimeouts,
    events: list[Event],
) -> DevicePresence:
    if before is None:
        return DevicePresence(at_ms, seq)
    last_ms = before.last_ms
    is_overdue = at_ms - last_ms >= limits.silent_ms
    if is_overdue and not before.is_silent:
        events.append(Event("silent", last_ms + limits.silent_ms, last_ms))
    if is_overdue or before.is_silent:
        events.append(Event("back", at_ms, last_ms))
    if UNNUMBERED < before.seq < seq - 1:
        events.append(Event("gap", at_ms, last_ms, before.seq + 1, seq - 1))
    is_new = seq > before.seq or UNNUMBERED < seq < RESTARTED_BELOW
    return DevicePresence(max(at_ms, last_ms), seq if is_new else before.seq)


def elapsed(
    presence: DevicePresence, now_ms: int, limits: PresenceTimeouts
) -> tuple[DevicePresence | None, list[Event]]:
    """Take that the time is ``now_ms``; None stands for a device that is forgotten."""
    events = []
    if not presence.is_silent and due_ms(presence, limits) <= now_ms:
        events = [Event("silent", due_ms(presence, limits), presence.last_ms)]
        presence = presence._replace(is_silent=True)
    is_forgotten = presence.is_silent and due_ms(presence, limits) <= now_ms
    return (None if is_forgotten else presence), events


def due_ms(presence: DevicePresence, limits: PresenceTimeouts) -> int:
    """When something happens to a device that is not heard."""
    wait_ms = limits.forget_ms if presence.is_silent else limits.silent_ms
    return presence.last_ms + wait_ms
