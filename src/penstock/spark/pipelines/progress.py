"""Shows the progress of queries on a terminal, in logs, and as JSON.

The **lag** of a source is the number of messages at the broker beyond the end of the batch. Spark
does not compute it for a Python source, but reports ``endOffset`` and ``latestOffset``.
"""

import json
from collections.abc import Mapping
from math import inf
from typing import IO, Any, ClassVar, Final, Self, TypeAlias

import msgspec
from rich.console import Console
from rich.live import Live
from rich.table import Table

from penstock.spark.pipelines.lateness import ENDS, late_rows

Document: TypeAlias = Mapping[str, Any]  # a progress report of Spark, or a part of it
NAME_DIGITS: Final = 8  # of the id of a query without a name


class BatchProgress(msgspec.Struct, frozen=True):
    """The progress of one batch. ``lag`` has a number per source that reports it."""

    query: str
    batch: int
    rows: int
    rows_per_s: float
    lag: tuple[int, ...]
    state_rows: int
    late_rows: int
    untimed_rows: int
    watermark: str | None
    duration_ms: int
    time: str
    observed: dict[str, dict[str, object]]


def batch_of(progress: Document, judged_ms: int | None = None) -> BatchProgress:
    """Extract the figures; ``judged_ms`` is the watermark that decided which rows were too late."""
    lags = [lag_of(source) for source in progress["sources"]]
    observed = {name: _plain(row) for name, row in progress["observedMetrics"].items()}
    windows = [ends for row in observed.values() for ends in row.pop(ENDS, None) or ()]
    watermark = progress["eventTime"].get("watermark") or ""  # 1970 until there is one
    late = _total(progress, "numRowsDroppedByWatermark")
    if late and windows and judged_ms is not None:
        late = max(late, late_rows(windows, judged_ms))
    speed = float(progress.get("processedRowsPerSecond") or 0.0)
    return BatchProgress(
        query=progress.get("name") or str(progress["id"])[:NAME_DIGITS],
        batch=progress["batchId"],
        rows=progress["numInputRows"],
        rows_per_s=speed if 0 <= speed < inf else 0.0,  # a short batch has NaN or infinity
        lag=tuple(lag for lag in lags if lag is not None),
        state_rows=_total(progress, "numRowsTotal"),
        late_rows=late,
        untimed_rows=sum(row.get("untimed") or 0 for row in observed.values()),
        watermark=None if watermark.startswith("1970-01-01") else watermark or None,
        duration_ms=progress.get("durationMs", {}).get("triggerExecution", 0),
        time=progress["timestamp"],
        observed={name: row for name, row in observed.items() if row},
    )


def _total(progress: Document, figure: str) -> int:
    return sum(state[figure] for state in progress["stateOperators"])


def lag_of(source: Document) -> int | None:
    end, latest = _topics(source.get("endOffset")), _topics(source.get("latestOffset"))
    if end is None or latest is None:
        return None
    lag = 0
    for name, (incarnation, last, first) in latest.items():
        reached = end.get(name, [incarnation, first])
        lag += max(last - (reached[1] if reached[0] == incarnation else first), 0)
    return lag


def _topics(offset: object) -> dict[str, list[int]] | None:
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return None
    topics = offset.get("topics") if isinstance(offset, Mapping) else None
    return topics if isinstance(topics, dict) else None


def _plain(row: Any) -> Any:
    return row.asDict(recursive=True) if hasattr(row, "asDict") else dict(row)


class _Display:
    """A display; it is a context manager, because a live one must stop drawing."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        return


class PlainLines(_Display):
    """A line per batch that had rows, for logs."""

    def show(self, batch: BatchProgress) -> None:
        if batch.rows:
            print(line(batch), file=self._stream, flush=True)

    def say(self, figures: Mapping[str, object]) -> None:
        print(steps(figures), file=self._stream, flush=True)


class JsonLines(_Display):
    """An object per report, for programs."""

    def show(self, batch: BatchProgress) -> None:
        self.say(msgspec.to_builtins(batch))

    def say(self, figures: Mapping[str, object]) -> None:
        print(json.dumps(figures, default=str), file=self._stream, flush=True)


def line(batch: BatchProgress) -> str:
    parts = [
        f"{batch.query} batch {batch.batch}: {batch.rows:,} rows in {batch.duration_ms:,} ms",
        f"{batch.rows_per_s:,.0f} rows/s",
    ]
    optional = (
        (batch.lag, f"lag {sum(batch.lag):,}"),
        (batch.state_rows, f"state {batch.state_rows:,} rows"),
        (batch.late_rows, f"too late {batch.late_rows:,}"),
        (batch.untimed_rows, f"untimed {batch.untimed_rows:,}"),
        (batch.watermark, f"watermark {batch.watermark}"),
    )
    return ", ".join([*parts, *(text for figure, text in optional if figure)])


def steps(figures: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in figures.items())


class LiveTable(_Display):
    """A live table with a line per query, for a terminal."""

    HEADINGS: ClassVar = (
        *("query", "batch", "rows", "rows/s", "lag", "state", "late"),
        *("untimed", "watermark", "last batch"),
    )

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream)
        self._queries: dict[str, QueryTotals] = {}
        self._live = Live(console=Console(file=stream), auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._live.stop()

    def show(self, batch: BatchProgress) -> None:
        self._queries.setdefault(batch.query, QueryTotals()).add(batch)
        self._live.update(self._table(), refresh=True)

    def say(self, figures: Mapping[str, object]) -> None:
        self._live.console.print(steps(figures), markup=False, highlight=False)

    def note(self, text: str) -> None:
        self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _table(self) -> Table:
        table = Table(box=None, header_style="bold", pad_edge=False)
        for number, heading in enumerate(self.HEADINGS):
            table.add_column(heading, justify="right" if number else "left", no_wrap=True)
        for query, tally in self._queries.items():
            table.add_row(query, *tally.cells())
        return table


class QueryTotals:
    """The totals of a query."""

    def __init__(self) -> None:
        self._rows = 0
        self._late = 0
        self._untimed = 0
        self._last: BatchProgress | None = None
        self._full: BatchProgress | None = None

    def add(self, batch: BatchProgress) -> None:
        self._rows += batch.rows
        self._late += batch.late_rows
        self._untimed += batch.untimed_rows
        self._last = batch
        if batch.rows:
            self._full = batch

    def cells(self) -> tuple[str, ...]:
        last = self._last
        if last is None:
            return ("",) * (len(LiveTable.HEADINGS) - 1)
        speed = f"{self._full.rows_per_s:,.0f}" if self._full else "-"
        lag = " ".join(f"{each:,}" for each in last.lag) or "-"
        watermark = (last.watermark or "-").removesuffix("Z").replace("T", " ")
        figures = (f"{last.batch}", f"{self._rows:,}", speed, lag)
        state = (f"{last.state_rows:,}", f"{self._late:,}", f"{self._untimed:,}", watermark)
        return *figures, *state, f"{last.duration_ms:,} ms"


def display(stream: IO[str], *, as_json: bool) -> PlainLines | JsonLines | LiveTable:
    if as_json:
        return JsonLines(stream)
    return LiveTable(stream) if stream.isatty() else PlainLines(stream)
