"""``history``: what was measured, as series."""

from typing import Annotated

from msgspec import Meta, field

from penstock.api.call import Call
from penstock.api.documents.common import Query, moment
from penstock.api.documents.history import History, Range, Series
from penstock.api.measurements import Measurements
from penstock.api.operations import Resource, operation
from penstock.api.problems import Problem
from penstock.api.series import NAMES, SERIES
from penstock.trust.rules import Action


class HistoryQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which series, and how far back."""

    of: Annotated[
        list[str],
        Meta(
            description="Names of series, repeated or separated by commas; all by default.",
            max_length=len(NAMES),
        ),
    ] = field(default_factory=list)
    range: Annotated[
        Range, Meta(description="The last 15 minutes by seconds, or 24 hours by minutes.")
    ] = "15m"


class HistoryPages(Resource):
    """Series."""

    @operation("GET", "history", Action.MONITOR)
    async def show(self, call: Call, query: HistoryQuery) -> History:  # noqa: ARG002
        """Show measurements, as series of the same length.

        The last value is the newest. A node knows what it measured itself since its start.
        """
        assert self.parts.measurements is not None
        names = [name for text in query.of for name in text.split(",") if name]
        return _history(self.parts.measurements, names or list(NAMES), query.range)


def _history(measurements: Measurements, names: list[str], range_: Range) -> History:
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        advice = f"series are {', '.join(NAMES)}"
        raise Problem(400, "unknown_series", f"no series {unknown[0]}", advice)
    ring = measurements.seconds if range_ == "15m" else measurements.minutes
    series = []
    for name in dict.fromkeys(names):
        place = NAMES.index(name)
        about = SERIES[place]
        values = ring.column(place)
        series.append(Series(name=name, unit=about.unit, text=about.text, values=values))
    end_ms = measurements.ended_ms(ring)
    start_ms = end_ms - max(len(ring) - 1, 0) * ring.step_s * 1000
    return History(start=moment(start_ms), step_s=ring.step_s, count=len(ring), series=series)
