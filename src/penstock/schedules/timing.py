"""When a timing fires next. Pure, save that time zones come from the tz database.

Once and every are moments and intervals, without a calendar. A cron expression is about the
calendar of a time zone, which has days with 23 and 25 hours:

===========================  ======================================  ==============================
the local time of a firing    expressions for some hours (0 8 * * *)  for every hour (*/10 * * * *)
===========================  ======================================  ==============================
is skipped (in spring)        at the moment of the change, once       does not exist
comes twice (in autumn)       the first time                          both times
===========================  ======================================  ==============================

So a daily job runs once a day, and one for every ten minutes runs every ten minutes.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from penstock.model.schedule import CRON, EVERY, ONCE, Timing
from penstock.schedules.cron import SEARCH_YEARS, Cron, parse_cron

INTERVAL_MS_MIN = 1_000
INTERVAL_MS_MAX = 366 * 24 * 3600 * 1000
TIME_MS_MAX = 32_503_680_000_000  # the year 3000
TIMEZONE_BYTES_MAX = 64

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - naive UTC, for arithmetic
_MINUTE = timedelta(minutes=1)
_MS = timedelta(milliseconds=1)


def check(timing: Timing) -> None:
    """Raises ValueError, with a sentence about what is wrong."""
    zone_of(timing.timezone)
    if timing.kind == ONCE:
        _check_time(timing.at_ms)
    elif timing.kind == EVERY:
        _check_time(timing.anchor_ms)
        if not INTERVAL_MS_MIN <= timing.interval_ms <= INTERVAL_MS_MAX:
            raise ValueError("an interval is 1 second to 366 days")
    elif timing.kind == CRON:
        parse_cron(timing.cron)
    else:
        raise ValueError("a schedule fires at a time, every so often, or by a cron expression")


def _check_time(time_ms: int) -> None:
    if not 0 <= time_ms <= TIME_MS_MAX:
        raise ValueError("a time is between the years 1970 and 3000")


def zone_of(name: str) -> ZoneInfo:
    """Raises ValueError if the tz database has no such zone."""
    try:
        if len(name) > TIMEZONE_BYTES_MAX:
            raise ValueError  # noqa: TRY301 - told below, like all that name no zone
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        shown = repr(name[:TIMEZONE_BYTES_MAX])
        raise ValueError(
            f"there is no time zone {shown}: write UTC or a name such as Europe/Paris"
            " (the broker needs the tz database of the system, or the Python package tzdata)"
        ) from None


def local_ms(moment: datetime, timezone: str) -> int:
    """A time as it was written: with an offset, or as a local time of a zone."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone_of(timezone))
    return _ms_of(_naive_utc(moment))


def next_ms(timing: Timing, after_ms: int) -> int:
    """The first firing after a moment; 0: there is none."""
    if timing.kind == ONCE:
        return timing.at_ms if timing.at_ms > after_ms else 0
    if timing.kind == EVERY:
        anchor, interval = timing.anchor_ms, timing.interval_ms
        steps = max((after_ms - anchor) // interval + 1, 0)
        return anchor + steps * interval
    return _next_of_cron(timing, after_ms)


def next_firings(timing: Timing, after_ms: int, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count and (after_ms := next_ms(timing, after_ms)):
        found.append(after_ms)
    return found


def in_words(timing: Timing) -> str:
    if timing.kind == ONCE:
        return "once"
    if timing.kind == EVERY:
        return f"every {timing.interval_ms / 1000:g} s"
    return f"cron {timing.cron}, {timing.timezone}"


# ── cron ──────────────────────────────────────────────────────────────────────────────────────

_parsed = lru_cache(maxsize=1_024)(parse_cron)


def _next_of_cron(timing: Timing, after_ms: int) -> int:
    cron, zone = _parsed(timing.cron), zone_of(timing.timezone)
    after = _EPOCH + after_ms * _MS
    found = _follow_clock(cron, zone, after) if cron.is_hourly else _follow_days(cron, zone, after)
    return 0 if found is None else _ms_of(found)


def _follow_days(cron: Cron, zone: ZoneInfo, after: datetime) -> datetime | None:
    """Each local time once. The moments of local times rise with them, or stay the same."""
    local = _local(after, zone).replace(tzinfo=None, fold=0)
    while (candidate := cron.first_from(local)) is not None:
        moment = _first_moment(candidate, zone)
        if moment > after:
            return moment
        local = candidate + _MINUTE
    return None


def _first_moment(local: datetime, zone: ZoneInfo) -> datetime:
    """When a local time is for the first time; one that is skipped: when the clock changes."""
    moment = _naive_utc(local.replace(tzinfo=zone))
    if _local(moment, zone).replace(tzinfo=None, fold=0) == local:
        return moment
    later = _naive_utc(local.replace(tzinfo=zone, fold=1))  # by the offset after the change
    return _change_between(min(moment, later), max(moment, later), zone)


def _follow_clock(cron: Cron, zone: ZoneInfo, after: datetime) -> datetime | None:
    """Every moment whose local time matches, offset by offset."""
    end_year = after.year + SEARCH_YEARS
    start = after + timedelta(microseconds=1)
    while start.year <= end_year:
        offset = _offset(start, zone)
        candidate = cron.first_from(start + offset)
        if candidate is None:
            return None
        moment = candidate - offset
        change = _next_change(start, moment, zone)
        if change is None:
            return moment
        start = change
    return None


def _next_change(start: datetime, end: datetime, zone: ZoneInfo) -> datetime | None:
    """The first change of the offset after ``start``, up to and including ``end``."""
    while start < end:
        stop = min(start + timedelta(days=1), end)
        if _offset(stop, zone) != _offset(start, zone):
            return _change_between(start, stop, zone)
        start = stop
    return None


def _change_between(start: datetime, end: datetime, zone: ZoneInfo) -> datetime:
    """The first moment with the offset of ``end``, to the second: there is one change between."""
    before = _offset(start, zone)
    low, high = 0, int((end - start) / timedelta(seconds=1)) + 1
    start = start.replace(microsecond=0)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(start + timedelta(seconds=middle), zone) == before:
            low = middle
        else:
            high = middle
    return start + timedelta(seconds=high)


def _local(utc: datetime, zone: ZoneInfo) -> datetime:
    return utc.replace(tzinfo=UTC).astimezone(zone)


def _offset(utc: datetime, zone: ZoneInfo) -> timedelta:
    return _local(utc, zone).utcoffset() or timedelta()


def _naive_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None)


def _ms_of(utc: datetime) -> int:
    return (utc - _EPOCH) // _MS
