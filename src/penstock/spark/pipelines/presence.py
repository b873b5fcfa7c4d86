"""The presence of a device: what follows from a message, or from its absence. Pure.

::

              message                      silent_ms without one
    (unknown) ────────► there  ─────────────────────────────────► silent
                          ▲        emits "silent"                   │
                          │ message, emits "back"                   │ forget_ms without one
                          └─────────────────────────────────────────┴──────► (unknown)

Readings may be **numbered**. A number above the next expected one emits "gap", with the missing
numbers. A lower number is a repetition; 0 and 1 mean that the device restarted.
"""

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

UNNUMBERED: Final = -1  # no number
RESTARTED_BELOW: Final = 2


class PresenceTimeouts(NamedTuple):
    """When a device counts as silent, and when it is forgotten."""

    silent_ms: int
    forget_ms: int


class DevicePresence(NamedTuple):
    """When a device was last heard, its highest number, and whether its silence was reported."""

    last_ms: int
    seq: int = UNNUMBERED
    is_silent: bool = False


class Event(NamedTuple):
    """An event; kind, device and ``last_ms`` (the last message before it) identify it."""

    kind: Literal["silent", "back", "gap"]
    at_ms: int
    last_ms: int
    first_missing: int | None = None
    last_missing: int | None = None


def seen(
    presence: DevicePresence | None, readings: Iterable[tuple[int, int]], limits: PresenceTimeouts
) -> tuple[DevicePresence | None, list[Event]]:
    """Process readings (time, number), oldest first; one may be older than what is known."""
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
    """Apply the passage of time; None: the device is forgotten."""
    events = []
    if not presence.is_silent and due_ms(presence, limits) <= now_ms:
        events = [Event("silent", due_ms(presence, limits), presence.last_ms)]
        presence = presence._replace(is_silent=True)
    is_forgotten = presence.is_silent and due_ms(presence, limits) <= now_ms
    return (None if is_forgotten else presence), events


def due_ms(presence: DevicePresence, limits: PresenceTimeouts) -> int:
    wait_ms = limits.forget_ms if presence.is_silent else limits.silent_ms
    return presence.last_ms + wait_ms
