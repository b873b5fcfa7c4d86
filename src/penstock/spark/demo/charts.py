"""The charts of the report as data, which the page and the picture draw."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from penstock.spark.demo.results import DemoResults

Point: TypeAlias = tuple[float, float]


class Series(NamedTuple):
    """Points over time; ``band`` is the least and greatest value at each of them."""

    name: str
    points: Sequence[Point]
    band: Sequence[Point] = ()


class ChartData(NamedTuple):
    """A chart with a time axis; ``text`` says what to look for."""

    title: str
    y_label: str
    text: str
    series: Sequence[Series]
    y: tuple[float, float]
    has_dots: bool = False


def charts_of(results: DemoResults) -> list[ChartData]:
    return [_traffic(results), _lag(results), _rollups(results), _batches(results)]


def _traffic(results: DemoResults) -> ChartData:
    series = [
        Series(door, [(second + 0.5, count) for second, count in enumerate(counts)])
        for door, counts in results.traffic.items()
    ]
    text = "The broker does not notice that Spark is gone: it keeps acknowledging."
    return ChartData(
        "Readings per second, by protocol", "acknowledged / s", text, series, _from_zero(series)
    )


def _lag(results: DemoResults) -> ChartData:
    series = [Series(reader, points) for reader, points in results.lag.items()]
    text = (
        "As the broker sees it. The lag grows while no driver runs, and falls when it is back: the"
        " readings waited in the journal. Spark reports a batch when the next one begins."
    )
    return ChartData("Lag of the readers", "unread messages", text, series, _from_zero(series))


def _rollups(results: DemoResults) -> ChartData:
    series = [
        Series(
            sensor,
            [(window.start_s, window.mean) for window in windows],
            [(window.low, window.high) for window in windows],
        )
        for sensor, windows in results.rollups.items()
    ]
    bands = [band for one in series for band in one.band]
    y = min((low for low, _ in bands), default=0), max((high for _, high in bands), default=1)
    text = "Mean of each window, between its minimum and maximum; each window came once."
    return ChartData("Rollup of some sensors", "temperature, °C", text, series, y)


def _batches(results: DemoResults) -> ChartData:
    series = [
        Series(query, [(batch.at_s, batch.took_s) for batch in batches])
        for query, batches in results.batches.items()
    ]
    text = "A dot per batch. The first batches of a driver are slow, while Java warms up."
    y = _from_zero(series)
    return ChartData("Duration of the micro-batches", "seconds", text, series, y, has_dots=True)


def _from_zero(series: Sequence[Series]) -> tuple[float, float]:
    return 0, max((y for one in series for _, y in one.points), default=0) * 1.15
