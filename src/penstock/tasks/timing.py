"""``cron`` and ``every``: when the broker sends a job of a task by itself.

A schedule is the broker's (``penstock schedule``), not a process of its own: it fires while no
worker runs, once, and survives crashes and the loss of a node. Mistakes are told where they are
written, by the rules of the broker.
"""

from typing import Final, Literal, TypeAlias

import msgspec

from penstock.client.errors import ArgumentError
from penstock.model.schedule import CRON, EVERY, Timing
from penstock.schedules.timing import check

Missed: TypeAlias = Literal["skip", "once", "all"]

_CRON_ADVICE: Final = "five fields, as in cron('0 8 * * mon-fri'), or @hourly and the like"


class Schedule(msgspec.Struct, frozen=True):
    """Exactly one of ``cron`` and ``every_s``; by the names of the API."""

    cron: str | None = None
    every_s: float | None = None
    timezone: str = "UTC"
    missed: Missed = "once"  # what becomes of firings while no broker was there to make them


def cron(fields: str, *, timezone: str = "UTC", missed: Missed = "once") -> Schedule:
    """By the calendar of a time zone, as in ``cron("0 8 * * mon-fri", timezone="Europe/Paris")``.

    >>> cron("0 8 * *")
    Traceback (most recent call last):
        ...
    penstock.client.errors.ArgumentError: ...
    """
    fields = " ".join(fields.split())
    _checked(Timing(CRON, cron=fields, timezone=timezone), _CRON_ADVICE)
    return Schedule(cron=fields, timezone=timezone, missed=missed)


def every(seconds: float, *, missed: Missed = "once") -> Schedule:
    """Every so many seconds, 1 at least, from when the broker first hears of it."""
    _checked(Timing(EVERY, interval_ms=round(seconds * 1000)), "every(30) is every 30 seconds")
    return Schedule(every_s=float(seconds), missed=missed)


def _checked(timing: Timing, advice: str) -> None:
    try:
        check(timing)
    except ValueError as error:
        raise ArgumentError(str(error), advice) from None
