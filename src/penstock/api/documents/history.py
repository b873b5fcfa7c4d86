"""What was measured: series of the last minutes or of the last day."""

from typing import Literal

import msgspec

from penstock.api.documents.common import Moment

Range = Literal["15m", "24h"]


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One value, over time."""

    name: str
    unit: str  # per_s, ms, bytes or count
    text: str  # what it is
    values: list[float | None]  # the oldest first; null: not measured


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Series with the same times: ``start``, and every ``step_s`` after it."""

    start: Moment
    step_s: int
    count: int
    series: list[Series]


class RatesEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event ``rates`` of the stream: each series' value of one second."""

    at: Moment
    values: dict[str, float | None]
