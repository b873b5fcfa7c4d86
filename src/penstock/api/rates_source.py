"""The source ``rates`` of the stream: every series, once a second."""

from collections.abc import Sequence

from penstock.api.call import Call
from penstock.api.measurements import Measurements
from penstock.api.stream import Feed, Source, StreamEvent, StreamQuery


class RatesSource(Source):
    """The same bytes for everybody."""

    name = "rates"

    def open(self, call: Call, query: StreamQuery, position: str | None) -> Feed:  # noqa: ARG002
        assert self.parts.measurements is not None
        return _RatesFeed(self.parts.measurements, position)


class _RatesFeed:
    def __init__(self, measurements: Measurements, position: str | None) -> None:
        self._measurements = measurements
        recent = measurements.recent
        last = recent[-1].number if recent else 0
        self.resumed = position is None
        self._after = last - 1  # the newest at once
        if position is not None and position.isascii() and position.isdecimal():
            oldest = recent[0].number if recent else 0
            self.resumed = oldest - 1 <= int(position) <= last
            self._after = int(position) if self.resumed else last - 1

    @property
    def position(self) -> str:
        return str(self._after) if self._after > 0 else ""

    async def read(self) -> Sequence[StreamEvent]:
        new = [s for s in self._measurements.recent if s.number > self._after]
        if new:
            self._after = new[-1].number
        return [StreamEvent("rates", self._measurements.event(sample)) for sample in new]

    def close(self) -> None:
        pass
