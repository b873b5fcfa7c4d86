"""``quality``: the fields of JSON payloads, topic by topic, and whether they changed."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import ConfigError
from penstock.spark.options import source_options
from penstock.spark.pipelines import registry
from penstock.spark.pipelines.registry import JobOutcome, Option, PipelineJob, choice
from penstock.spark.pipelines.shapes import Shape, drift, merged
from penstock.spark.pipelines.streams import without_heartbeats

PARTIAL: Final = "topic string, shape binary"
_ARROW: Final = pa.schema([("topic", pa.string()), ("shape", pa.binary())])
TOPICS_AT_A_TIME: Final = 1000  # shapes that a partition collects before it passes them on
TOPICS_MAX: Final = 10_000  # topics in a report, which must fit the driver
HEADINGS: Final = ("TOPIC", "FIELD", "IN", "TYPES", "NULL", "RANGE", "EXAMPLES")


class QualityReport(msgspec.Struct):
    """The shapes of topics, and the differences to an earlier report."""

    topics: dict[str, Shape]
    drift: dict[str, list[str]] = {}
    left_out: int = 0


def profile(messages: DataFrame) -> DataFrame:
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
    rows = profile(messages).orderBy("topic").limit(TOPICS_MAX + 1).collect()
    kept = rows[:TOPICS_MAX]
    topics = {row.topic: msgspec.json.decode(bytes(row["shape"]), type=Shape) for row in kept}
    left_out = profile(messages).count() - len(kept) if len(rows) > TOPICS_MAX else 0
    if before is None:
        return QualityReport(topics, left_out=left_out)
    changes = {  # a silent topic has not changed
        topic: drift(before[topic], shape) if topic in before else ["the topic is new"]
        for topic, shape in topics.items()
    }
    return QualityReport(
        topics, {name: found for name, found in changes.items() if found}, left_out
    )


def load_shapes(file: str) -> dict[str, Shape]:
    try:
        return msgspec.json.decode(Path(file).read_bytes(), type=QualityReport).topics
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(
            f"{file} is not a quality report: {error}", "create one with --save FILE"
        ) from None


def as_table(found: QualityReport) -> str:
    rows = [HEADINGS, *_rows(found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, *_remarks(found)])


def as_markdown(found: QualityReport) -> str:
    rows = [HEADINGS, ("---",) * len(HEADINGS), *_rows(found)]
    lines = [
        "| " + " | ".join(re.sub(r"([|`<])", r"\\\1", cell) for cell in row) + " |" for row in rows
    ]
    return "\n".join([*lines, "", *(f"* {remark}" for remark in _remarks(found))])


def _rows(found: QualityReport) -> Iterator[tuple[str, ...]]:
    for topic, shape in found.topics.items():
        name = _shown(topic)
        for path, field in shape.fields.items():
            types = ", ".join(sorted(set(field.types) - {"null"})) or "null"
            limits = "-" if field.low is None else f"{field.low:g} … {field.high:g}"
            examples = ", ".join(map(_shown, field.examples)) or "-"
            presence, nulls = f"{shape.presence(path):.0%}", f"{field.null_rate:.0%}"
            yield name, _shown(path), presence, types, nulls, limits, examples
            name = ""
        if not shape.fields:
            yield name, *["-"] * (len(HEADINGS) - 1)


def _remarks(found: QualityReport) -> list[str]:
    remarks = []
    for topic, shape in found.topics.items():
        for reason, count in sorted(shape.bad.items()):
            remarks.append(f"{_shown(topic)}: {count:,} of {shape.messages:,} messages: {reason}")
        if shape.cut:
            remarks.append(f"{_shown(topic)}: {shape.cut:,} values left out: too many fields")
    for topic, changes in found.drift.items():
        remarks += [f"{_shown(topic)}: drift: {_shown(change)}" for change in changes]
    if found.left_out:
        remarks.append(f"{found.left_out:,} more topics are not shown")
    return remarks


def _shown(text: str) -> str:
    """Escape control characters: payloads are untrusted and must not steer a terminal."""
    return "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in text)


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
    """Report the fields of JSON payloads: types, nulls, ranges, examples.

    With --against, compare with a report saved by --save: the exit status is 1 if a topic or a
    field is new or gone, or has other types, more nulls or more unreadable messages.
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
    return JobOutcome(text, msgspec.to_builtins(found), is_ok=not found.drift)


def check(
    *, servers: str, subscribe: str, since: str | None, against: str | None, **_: object
) -> None:
    if since is not None:
        source_options({"servers": servers, "subscribe": subscribe, "startingTimestamp": since})
    if against is not None:
        load_shapes(against)


JOB: Final = PipelineJob(
    "quality",
    (
        registry.SERVERS,
        registry.SUBSCRIBE,
        Option(
            "since",
            "Only messages from this time on: ISO 8601, or milliseconds since 1970.",
            metavar="TIME",
        ),
        Option("against", "Saved report to compare with.", metavar="FILE"),
        Option("save", "Save the report as JSON.", metavar="FILE"),
        choice("form", "Output format.", "table", "markdown"),
        registry.IGNORE_LOSS,
    ),
    run,
    check=check,
)
