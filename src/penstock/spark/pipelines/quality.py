"""``quality``: what JSON payloads look like, topic by topic, and whether that has changed.

::

    messages ─► each partition: topic → Shape ─► by topic: merged ─► report, file, drift

A shape (:mod:`penstock.spark.pipelines.shapes`) is gathered where the messages are; only shapes
travel, a few kilobytes per topic and partition. A report can be kept, and a later one compared with
it: then the exit status says whether anything drifted.

``quarantine`` is its other half, for streams: what cannot be read is set aside.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import ConfigError
from penstock.spark.options import source_options
from penstock.spark.pipelines.registry import (
    IGNORE_LOSS,
    SERVERS,
    SUBSCRIBE,
    JobOutcome,
    Option,
    PipelineJob,
)
from penstock.spark.pipelines.shapes import Field, Shape, drift, merged
from penstock.spark.pipelines.streams import without_heartbeats

PARTIAL: Final = "topic string, shape binary"

_ARROW: Final = pa.schema([("topic", pa.string()), ("shape", pa.binary())])

TOPICS_AT_A_TIME: Final = 1000
"""How many shapes a partition gathers before it passes them on."""

TOPICS_MAX: Final = 10_000
"""How many topics a report has; more would not be read by anybody, and must fit the driver."""

HEADINGS: Final = ("TOPIC", "FIELD", "IN", "TYPES", "NULL", "RANGE", "EXAMPLES")


class QualityReport(msgspec.Struct):
    """The shapes of topics, and what is different from an earlier report."""

    topics: dict[str, Shape]
    drift: dict[str, list[str]] = {}
    left_out: int = 0


# ── On Spark ──────────────────────────────────────────────────────────────────────────────────


def profile(messages: DataFrame) -> DataFrame:
    """Return ``topic``, ``shape`` (as JSON): one row per topic."""
    partial = messages.select("topic", "payload").mapInArrow(_gather, PARTIAL)
    return partial.groupBy("topic").applyInArrow(_merge, PARTIAL)


def _gather(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    shapes: dict[str, Shape] = {}
    for batch in batches:
        topics = batch.column("topic").to_pylist()
        payloads = batch.column("payload").to_pylist()
        for topic, payload in zip(topics, payloads, strict=True):
            shape = shapes.get(topic)
            if shape is None:
                shape = shapes[topic] = Shape()
            shape.add(payload)
        if len(shapes) >= TOPICS_AT_A_TIME:
            yield _batch(shapes)
            shapes = {}
    if shapes:
        yield _batch(shapes)


def _batch(shapes: Mapping[str, Shape]) -> pa.RecordBatch:
    documents = [msgspec.json.encode(shape) for shape in shapes.values()]
    return pa.RecordBatch.from_arrays(
        [pa.array(list(shapes), pa.string()), pa.array(documents, pa.binary())], schema=_ARROW
    )


def _merge(table: pa.Table) -> pa.Table:
    parts = (msgspec.json.decode(each, type=Shape) for each in table.column("shape").to_pylist())
    topic = table.column("topic")[0].as_py()
    return pa.Table.from_batches([_batch({topic: merged(parts)})])


def report(messages: DataFrame, before: Mapping[str, Shape] | None = None) -> QualityReport:
    """Look at messages, and compare what they look like with what they did before."""
    rows = profile(messages).orderBy("topic").limit(TOPICS_MAX + 1).collect()
    kept = rows[:TOPICS_MAX]
    topics = {row.topic: msgspec.json.decode(bytes(row["shape"]), type=Shape) for row in kept}
    left_out = profile(messages).count() - len(kept) if len(rows) > TOPICS_MAX else 0
    return QualityReport(topics, _drifts(before, topics) if before is not None else {}, left_out)


def _drifts(before: Mapping[str, Shape], after: Mapping[str, Shape]) -> dict[str, list[str]]:
    """Compare topic by topic. One that is silent has not changed; one that is new has."""
    changes = {
        topic: drift(before[topic], shape) if topic in before else ["the topic is new"]
        for topic, shape in after.items()
    }
    return {topic: told for topic, told in changes.items() if told}


# ── Reading and writing ───────────────────────────────────────────────────────────────────────


def load_shapes(file: str) -> dict[str, Shape]:
    """Read the shapes of a report that was kept."""
    try:
        return msgspec.json.decode(Path(file).read_bytes(), type=QualityReport).topics
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(
            f"{file} is no report of quality: {error}", "--save FILE writes one"
        ) from None


def as_table(found: QualityReport) -> str:
    """Write a report for a terminal."""
    rows = [HEADINGS, *_rows(found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, *_remarks(found)])


def as_markdown(found: QualityReport) -> str:
    """Write a report for a page."""
    rows = [HEADINGS, ("---",) * len(HEADINGS), *_rows(found)]
    lines = [
        "| " + " | ".join(re.sub(r"([|`<])", r"\\\1", cell) for cell in row) + " |" for row in rows
    ]
    return "\n".join([*lines, "", *(f"* {remark}" for remark in _remarks(found))])


def _rows(found: QualityReport) -> Iterator[tuple[str, ...]]:
    for topic, shape in found.topics.items():
        name = _shown(topic)
        for path, field in shape.fields.items():
            yield name, *_cells(_shown(path), shape.presence(path), field)
            name = ""
        if not shape.fields:
            yield name, *["-"] * (len(HEADINGS) - 1)


def _cells(path: str, presence: float, field: Field) -> tuple[str, ...]:
    types = ", ".join(sorted(set(field.types) - {"null"})) or "null"
    limits = "-" if field.low is None else f"{field.low:g} … {field.high:g}"
    examples = ", ".join(map(_shown, field.examples)) or "-"
    return path, f"{presence:.0%}", types, f"{field.null_rate:.0%}", limits, examples


def _remarks(found: QualityReport) -> list[str]:
    remarks = []
    for topic, shape in found.topics.items():
        for reason, count in sorted(shape.bad.items()):
            remarks.append(f"{_shown(topic)}: {count:,} of {shape.messages:,} messages: {reason}")
        if shape.cut:
            remarks.append(f"{_shown(topic)}: {shape.cut:,} values of too many fields left out")
    for topic, changes in found.drift.items():
        remarks += [f"{_shown(topic)}: drift: {_shown(change)}" for change in changes]
    if found.left_out:
        remarks.append(f"{found.left_out:,} more topics are not shown")
    return remarks


def _shown(text: str) -> str:
    """Write what a stranger sent so that it cannot steer a terminal."""
    return "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in text)


# ── The job ───────────────────────────────────────────────────────────────────────────────────


def run(
    spark: SparkSession,
    *,
    servers: str,
    subscribe: str,
    since: str | None = None,
    against: str | None = None,
    save: str | None = None,
    form: str = "table",
    ignore_loss: bool = False,
) -> JobOutcome:
    """Find out what JSON payloads look like: fields, types, nulls, ranges, examples.

    With --against, compares with a report that was kept by --save: the exit status is 1 if a topic
    or a field is new or gone, has other types, or more nulls or unreadable messages.
    """
    before = load_shapes(against) if against else None
    reader = spark.read.format("penstock").option("servers", servers)
    reader = reader.option("subscribe", subscribe).option("columns", "topic,payload")
    reader = reader.option("failOnDataLoss", not ignore_loss)
    if since:
        reader = reader.option("startingTimestamp", since)
    found = report(without_heartbeats(reader.load()), before)
    if save:
        Path(save).write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1))
    text = as_markdown(found) if form == "markdown" else as_table(found)
    document: Any = msgspec.to_builtins(found)
    return JobOutcome(text, document, is_ok=not found.drift)


def check(
    *, servers: str, subscribe: str, since: str | None, against: str | None, **_: Any
) -> None:
    """Refuse options that ``run`` would refuse."""
    if since is not None:
        source_options({"servers": servers, "subscribe": subscribe, "startingTimestamp": since})
    if against is not None:
        load_shapes(against)


JOB: Final = PipelineJob(
    "quality",
    (
        SERVERS,
        SUBSCRIBE,
        Option(
            "since",
            "Only messages from that time on: ISO 8601, or milliseconds since 1970.",
            metavar="TIME",
        ),
        Option("against", "A report that was kept, to compare with.", metavar="FILE"),
        Option("save", "Keep the report, as JSON.", metavar="FILE"),
        Option(
            "form",
            "How the report looks.",
            "choice",
            default="table",
            choices=("table", "markdown"),
        ),
        IGNORE_LOSS,
    ),
    run,
    check=check,
)
