"""What a query did, batch by batch, for people on a terminal, for logs and for programs.

Spark reports each batch as a document. :func:`batch_of` takes from it what somebody who waits wants
to know; the rest of this module is how that looks. It needs no Spark.

The **lag** of a source is how many messages the broker has that the batch did not reach. Spark does
not count it for a source in Python, but its report has both ends: where the batch ended
(``endOffset``) and what there was at that time (``latestOffset``).
"""

import json
from collections.abc import Mapping
from typing import IO, Any, Final, Self

import msgspec

__all__ = ["Batch", "JsonLines", "PlainLines", "batch_of", "display", "lag_of", "line"]

NAME_DIGITS: Final = 8
"""How much of its id stands for a query without a name."""


class Batch(msgspec.Struct, frozen=True):
    """One report of a query. ``lag`` has a number per source that tells, in Spark's order."""

    query: str
    batch: int
    rows: int
    rows_per_s: float
    lag: tuple[int, ...]
    state_rows: int
    watermark: str | None
    duration_ms: int
    time: str
    observed: dict[str, Any]


def batch_of(progress: Mapping[str, Any]) -> Batch:
    """Take what we show from a report of Spark's (``StreamingQueryProgress``, or its JSON)."""
    lags = [lag_of(source) for source in progress["sources"]]
    return Batch(
        query=progress.get("name") or str(progress["id"])[:NAME_DIGITS],
        batch=progress["batchId"],
        rows=progress["numInputRows"],
        rows_per_s=_number(progress.get("processedRowsPerSecond")),
        lag=tuple(lag for lag in lags if lag is not None),
        state_rows=sum(state["numRowsTotal"] for state in progress["stateOperators"]),
        watermark=progress["eventTime"].get("watermark"),
        duration_ms=progress.get("durationMs", {}).get("triggerExecution", 0),
        time=progress["timestamp"],
        observed={name: _plain(row) for name, row in progress["observedMetrics"].items()},
    )


def lag_of(source: Mapping[str, Any]) -> int | None:
    """Count the messages between where a batch ended and what its topics had; None: not told."""
    end, latest = _topics(source.get("endOffset")), _topics(source.get("latestOffset"))
    if end is None or latest is None:
        return None
    return sum(_behind(end.get(name), there) for name, there in latest.items())


def _behind(reached: list[int] | None, there: list[int]) -> int:
    """Count what is unread of one topic: [incarnation, next offset, first offset]."""
    incarnation, end, first = there
    if reached is None or reached[0] != incarnation:
        return max(end - first, 0)
    return max(end - reached[1], 0)


def _topics(offset: Any) -> dict[str, list[int]] | None:
    """Return the topics of an offset of ours; None for one of another kind, or none."""
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return None
    topics = offset.get("topics") if isinstance(offset, Mapping) else None
    return topics if isinstance(topics, dict) else None


def _number(value: Any) -> float:
    """Read a rate: Spark writes none, NaN or infinity for a batch too short to tell."""
    number = float(value) if value is not None else 0.0
    return number if 0 <= number < float("inf") else 0.0


def _plain(row: Any) -> Any:
    return row.asDict(recursive=True) if hasattr(row, "asDict") else dict(row)


class _Lines:
    """What all displays can do. They are contexts, for one that draws must stop drawing."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        return None


class PlainLines(_Lines):
    """A line per batch that had rows, for logs."""

    def show(self, batch: Batch) -> None:
        """Write a batch; one without rows is not worth a line."""
        if batch.rows:
            print(line(batch), file=self._stream, flush=True)

    def say(self, figures: Mapping[str, Any]) -> None:
        """Write a step of a job that is not a stream."""
        text = ", ".join(f"{name} {value}" for name, value in figures.items())
        print(text, file=self._stream, flush=True)


class JsonLines(_Lines):
    """An object per report, for programs."""

    def show(self, batch: Batch) -> None:
        """Write a batch, also an empty one: it says that the query is alive."""
        self.say(msgspec.to_builtins(batch))

    def say(self, figures: Mapping[str, Any]) -> None:
        """Write a step of a job that is not a stream."""
        print(json.dumps(figures, default=str), file=self._stream, flush=True)


def line(batch: Batch) -> str:
    """Say in one line what a batch did."""
    parts = [
        f"{batch.query} batch {batch.batch}: {batch.rows:,} rows in {batch.duration_ms:,} ms",
        f"{batch.rows_per_s:,.0f} rows/s",
    ]
    if batch.lag:
        parts.append(f"lag {sum(batch.lag):,}")
    if batch.state_rows:
        parts.append(f"state {batch.state_rows:,} rows")
    if batch.watermark:
        parts.append(f"watermark {batch.watermark}")
    return ", ".join(parts)


def display(stream: IO[str], *, as_json: bool) -> PlainLines | JsonLines:
    """Choose how to show progress: JSON where it is asked for, else lines."""
    return JsonLines(stream) if as_json else PlainLines(stream)
