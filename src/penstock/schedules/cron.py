"""Cron expressions: five fields, and which minutes of a calendar they match. Pure.

``minute hour day-of-month month day-of-week``. A field is a list of ``*``, numbers, names (of
months and weekdays) and ranges, each but a single number with a step, if wanted: ``*/15``,
``8-18/2``, ``mon-fri``. Sunday is 0 and 7. ``@hourly`` and its like stand for five fields.

If day of month and day of week are both restricted, a day matches by either; a field that begins
with ``*`` is not restricted. That is how Vixie cron does it, and everyone after it.

Times are those of a calendar without a zone; ``timing`` finds the moments.
"""

from bisect import bisect_left
from datetime import datetime, timedelta
from typing import NamedTuple

TEXT_BYTES_MAX = 512  # every value of every field needs 333

SEARCH_YEARS = 50
"""How far the next match is looked for. 29 February on a given weekday is 40 years away at most."""

SHORTHANDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()


_WEEKDAY = _Field("day of week", 0, 7, _WEEKDAYS)
_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _WEEKDAY,
)


class Cron(NamedTuple):
    """A parsed expression; the tuples are sorted."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]  # 0 is Sunday
    is_day_free: bool  # whether the field begins with ``*``
    is_weekday_free: bool

    @property
    def is_hourly(self) -> bool:
        """Whether every hour has a match, so that it follows the clock and not the calendar."""
        return len(self.hours) == 24

    def has_day(self, moment: datetime) -> bool:
        in_month = moment.day in self.days
        in_week = moment.isoweekday() % 7 in self.weekdays
        is_day = in_month and in_week
        if not (self.is_day_free or self.is_weekday_free):
            is_day = in_month or in_week
        return is_day and moment.month in self.months

    def matches(self, moment: datetime) -> bool:
        is_time = moment.hour in self.hours and moment.minute in self.minutes
        return is_time and self.has_day(moment)

    def first_from(self, start: datetime) -> datetime | None:
        """The first matching minute at ``start`` or later; None: none for ``SEARCH_YEARS``."""
        moment = start.replace(second=0, microsecond=0)
        if moment < start:
            moment += timedelta(minutes=1)
        last_year = start.year + SEARCH_YEARS
        while moment.year <= last_year:
            if moment.month not in self.months:
                moment = _next_month(moment)
            elif not self.has_day(moment) or (found := self._within_day(moment)) is None:
                moment = _midnight(moment) + timedelta(days=1)
            else:
                return found
        return None

    def _within_day(self, moment: datetime) -> datetime | None:
        place = bisect_left(self.hours, moment.hour)
        if place == len(self.hours):
            return None
        hour = self.hours[place]
        if hour > moment.hour:
            return moment.replace(hour=hour, minute=self.minutes[0])
        later = bisect_left(self.minutes, moment.minute)
        if later < len(self.minutes):
            return moment.replace(minute=self.minutes[later])
        if place + 1 == len(self.hours):
            return None
        return moment.replace(hour=self.hours[place + 1], minute=self.minutes[0])


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0)


def _next_month(moment: datetime) -> datetime:
    first = _midnight(moment).replace(day=1)
    return (first + timedelta(days=32)).replace(day=1)


def parse_cron(text: str) -> Cron:
    """Raises ValueError, with a sentence about what is wrong."""
    if len(text.encode("utf-8", "surrogatepass")) > TEXT_BYTES_MAX:
        raise ValueError(f"a cron expression has at most {TEXT_BYTES_MAX} bytes")
    words = text.lower().split()
    if len(words) == 1 and words[0].startswith("@"):
        if words[0] not in SHORTHANDS:
            raise ValueError(f"{words[0]!r} is none of {', '.join(SHORTHANDS)}")
        words = SHORTHANDS[words[0]].split()
    if len(words) != len(_FIELDS):
        raise ValueError(
            f"a cron expression has five fields, not {len(words)}:"
            " minute, hour, day of month, month, day of week"
        )
    found = [_values(word, field) for word, field in zip(words, _FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = found
    folded = tuple(sorted({day % 7 for day in weekdays}))
    is_free = [word.startswith("*") for word in words]
    cron = Cron(minutes, hours, days, months, folded, is_free[2], is_free[4])
    if cron.first_from(datetime(2000, 1, 1)) is None:  # noqa: DTZ001 - a calendar without a zone
        raise ValueError(f"{text!r} never fires: there is no such day")
    return cron


def _values(word: str, field: _Field) -> tuple[int, ...]:
    values: set[int] = set()
    for part in word.split(","):
        values.update(_range(part, field))
    return tuple(sorted(values))


def _range(part: str, field: _Field) -> range:
    span, slash, step_text = part.partition("/")
    step = _number(step_text, field, "step") if slash else 1
    if step < 1:
        raise ValueError(f"{field.name} {part!r}: a step is at least 1")
    if span == "*":
        high = 6 if field is _WEEKDAY else field.high
        return range(field.low, high + 1, step)
    first_text, dash, last_text = span.partition("-")
    first = _value(first_text, field)
    if not dash:
        return range(first, field.high + 1 if slash else first + 1, step)
    last = _value(last_text, field)
    if field is _WEEKDAY and last == 0 < first:
        last = 7  # sat-sun
    if last < first:
        raise ValueError(f"{field.name} {part!r}: the range ends before it begins")
    return range(first, last + 1, step)


def _value(text: str, field: _Field) -> int:
    if text in field.names:
        return field.names.index(text) + (field is not _WEEKDAY)
    value = _number(text, field, "number")
    if not field.low <= value <= field.high:
        raise ValueError(f"{field.name} {text}: it is {field.low} to {field.high}")
    return value


def _number(text: str, field: _Field, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise ValueError(f"{field.name}: {text!r} is no {what}")
    return int(text)
