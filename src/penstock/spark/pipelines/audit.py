"""``audit``: proves that every offset is archived exactly once, and that signatures verify.

Each task sets a bit per offset in bitmaps; only those are combined and counted, for each
incarnation of a topic. The claim holds if rows = distinct offsets = the length of the range in the
archiving query's checkpoint. Only other topics are examined row by row. The broker, if given, must
not have less; it tells whether a hole is a deleted message. Signatures are verified also with
expired keys: they were valid on arrival. A missing or truncated file is a fault.
"""

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
from pyarrow import ArrowException
from pyarrow import parquet as pq
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from penstock.client.queue.blocking import QueueClient
from penstock.errors import ConfigError
from penstock.model.columns import NUMBERS
from penstock.model.topic import has_wildcard
from penstock.spark.archived.frames import files
from penstock.spark.archived.layout import root_of
from penstock.spark.archived.snapshot import ArchiveFile, chosen, position, take
from penstock.spark.filters import filters_of, names_matching, topic_regex
from penstock.spark.login import login_of
from penstock.spark.offsets import OffsetRange
from penstock.spark.options import LOSS_TOPIC
from penstock.spark.pipelines import audit_report
from penstock.spark.pipelines.audit_report import AuditReport, Counted, Double, Forged, Key
from penstock.spark.pipelines.registry import JobOutcome, Option, PipelineJob
from penstock.spark.signatures import verdict_of

LISTED_MAX: Final = 10_000  # holes, and doubles, to list; more are only counted
FORGED_MAX: Final = 1_000
_PAGE: Final = 1_000
_TIMEOUT_S: Final = 30.0
Seen = tuple[int, int, int]


def audit(
    spark: SparkSession,
    path: str | Path | None = None,
    *,
    servers: str | None = None,
    subscribe: str = "",
    keys: Mapping[int, bytes] | None = None,
    verify: bool = True,
    loss_topic: str = LOSS_TOPIC,
) -> AuditReport:
    """Audit an archive, or a broker, or both; ``keys`` are public keys by id, else the broker's."""
    _check_subject(path, servers)
    began = time.monotonic()
    filters = filters_of(subscribe)
    with ExitStack() as stack:
        client: QueueClient | None = None
        if servers is not None:
            client = QueueClient(
                servers.split(","), timeout_s=_TIMEOUT_S, **login_of({}).keywords()
            )
            stack.enter_context(client.open())
        if path is None:
            assert client is not None
            assert servers is not None
            report, rows = _audit_broker(spark, client, servers, filters)
        else:
            report, rows = _audit_archive(spark, root_of(path), client, filters, loss_topic)
        if keys is None and client is not None:
            listed = client.keys()
            keys = {key.id: key.public_key for key in listed}
        if verify:
            _verify(report, rows, keys or {})
    report.seconds = round(time.monotonic() - began, 3)
    return report


def _check_subject(path: str | Path | None, servers: str | None) -> None:
    if path is None and servers is None:
        raise ConfigError("nothing to audit", "Give --path DIR, --servers HOST, or both.")


def _audit_archive(
    spark: SparkSession,
    root: Path,
    client: QueueClient | None,
    filters: Collection[str],
    loss_topic: str,
) -> tuple[AuditReport, DataFrame]:
    snapshot = take(root)
    archived = position(snapshot)
    names = names_matching(archived, filters) if filters else list(archived)
    # A filter may match deleted topics, which only the rows have.
    literal = filters if filters and not any(has_wildcard(x.encode()) for x in filters) else None
    wanted = chosen(snapshot.parts, literal)
    with ThreadPoolExecutor(8) as pool:
        faults = list(pool.map(_fault, wanted))
    good = [part for part, fault in zip(wanted, faults, strict=True) if not fault]
    damaged = [fault for fault in faults if fault]
    rows = files(spark, [part.path for part in good])
    if filters:
        rows = rows.where(f.col("topic").rlike(topic_regex(filters)))
    report = AuditReport(what=f"archive {root}", damaged=damaged)
    expected = {(n, archived[n].incarnation): (archived[n].first, archived[n].next) for n in names}
    _compare(report, rows, expected)
    archived_losses = files(spark, [part.path for part in good]).where(f.col("topic") == loss_topic)
    found = archived_losses.select("payload").limit(LISTED_MAX).collect()
    losses = _spans(bytes(row["payload"]) for row in found)
    if client is not None:
        published = islice(client.messages(loss_topic), LISTED_MAX)
        losses += _spans(record.payload for record in published)
        _ask(report, client, expected, filters)
    report.holes, report.lost = audit_report.without(report.holes, losses)
    return report, rows


def _audit_broker(
    spark: SparkSession, client: QueueClient, servers: str, filters: Collection[str]
) -> tuple[AuditReport, DataFrame]:
    """Count what the broker returns; an offset without a message was deleted on purpose."""
    now = _topics(client, (), filters or ("#",))
    expected: dict[Key, tuple[int, int]] = {
        (name, incarnation): (first, end) for name, (incarnation, first, end) in now.items()
    }
    report = AuditReport(what=f"broker {servers}")
    reader = spark.read.format("penstock").option("servers", servers)
    reader = reader.options(
        columns="topic,incarnation,offset,payload,signature",
        assign=json.dumps(sorted(now)),
        startingOffsets=json.dumps({name: first for name, (_, first, _) in now.items()}),
        endingOffsets=json.dumps({name: end for name, (_, _, end) in now.items()}),
    )
    rows = reader.load() if now else files(spark, ())
    _compare(report, rows, expected)
    _excuse(report, client, now)
    return report, rows


def count(rows: DataFrame) -> DataFrame:
    bitmap = f.bitmap_count(f.bitmap_construct_agg(f.bitmap_bit_position("offset")))
    pieces = rows.groupBy("topic", "incarnation", f.bitmap_bucket_number("offset").alias("bucket"))
    counted = pieces.agg(
        f.count("*").alias("rows"),
        bitmap.alias("distinct"),
        f.min("offset").alias("lowest"),
        f.max("offset").alias("highest"),
    )
    return counted.groupBy("topic", "incarnation").agg(
        f.sum("rows").alias("rows"),
        f.sum("distinct").alias("distinct"),
        f.min("lowest").alias("lowest"),
        f.max("highest").alias("highest"),
    )


def _compare(report: AuditReport, rows: DataFrame, expected: dict[Key, tuple[int, int]]) -> None:
    """Count, and examine topics whose figures differ from what is expected."""
    counted = [Counted(*row) for row in count(rows).collect()]
    seen: dict[Key, Counted] = {(one.topic, one.incarnation): one for one in counted}
    for key, one in seen.items():
        expected.setdefault(key, (one.lowest, one.highest + 1))
    report.is_void = not expected
    report.rows = sum(one.rows for one in counted)
    report.incarnations = len(seen)
    report.topics = len({one.topic for one in counted})
    report.doubled = sum(one.rows - one.distinct for one in counted)
    odd = audit_report.suspects(counted, expected)
    gaps = _gaps(report, rows, odd & seen.keys())
    for key in sorted(odd):
        span, one_seen = OffsetRange(*key, *expected[key]), seen.get(key)
        report.holes += audit_report.missing(span, gaps.get(key, []), one_seen)
        report.strays += _strays(span, one_seen)
    report.missing = sum(hole.end - hole.begin for hole in report.holes)
    if report.doubled:
        many = _of(rows, odd).groupBy("topic", "incarnation", "offset").count().where("count > 1")
        report.doubles = sorted(Double(*row) for row in many.limit(LISTED_MAX).collect())


def _strays(expected: OffsetRange, seen: Counted | None) -> list[OffsetRange]:
    if seen is None:
        return []
    below = expected._replace(begin=seen.lowest, end=min(expected.begin, seen.highest + 1))
    above = expected._replace(begin=max(expected.end, seen.lowest), end=seen.highest + 1)
    return [span for span in (below, above) if span.begin < span.end]


def _gaps(
    report: AuditReport, rows: DataFrame, odd: Collection[Key]
) -> dict[Key, list[tuple[int, int]]]:
    if not odd:
        return {}
    order = Window.partitionBy("topic", "incarnation").orderBy("offset")
    following = _of(rows, odd).withColumn("after", f.lag("offset").over(order))
    found = following.where(f.col("offset") > f.col("after") + 1)
    listed = found.select("topic", "incarnation", "after", "offset").limit(LISTED_MAX + 1).collect()
    report.is_listed = len(listed) <= LISTED_MAX
    gaps: dict[Key, list[tuple[int, int]]] = {}
    for topic, incarnation, after, offset in listed[:LISTED_MAX]:
        gaps.setdefault((topic, incarnation), []).append((after + 1, offset))
    return gaps


def _of(rows: DataFrame, keys: Collection[Key]) -> DataFrame:
    names = sorted({topic for topic, _ in keys})
    return rows.select("topic", "incarnation", "offset").where(f.col("topic").isin(names))


class _LossMessage(msgspec.Struct):
    """A message of the loss topic; ``end`` is None if unknown."""

    topic: str
    incarnation: int
    begin: int
    end: int | None


def _spans(payloads: Iterable[bytes]) -> list[OffsetRange]:
    """Decode loss messages; others are ignored, because anybody may write to that topic."""
    spans = []
    for payload in payloads:
        try:
            loss = msgspec.json.decode(payload, type=_LossMessage)
        except msgspec.MsgspecError:
            continue
        if loss.end is not None:
            spans.append(OffsetRange(loss.topic, loss.incarnation, loss.begin, loss.end))
    return spans


def _topics(
    client: QueueClient, names: Collection[str], filters: Collection[str]
) -> dict[str, Seen]:
    asked = filters or ("#", *(name for name in names if name.startswith("$")))
    found: dict[str, Seen] = {}
    after, more = "", True
    while more:
        page = client.changes(asked, max=_PAGE, after=after)
        for topic in page.topics:
            found[topic.name] = (topic.incarnation, topic.first_offset, topic.end_offset)
            after = topic.name
        more = page.more
    return found if filters else {name: found[name] for name in names if name in found}


def _ask(
    report: AuditReport,
    client: QueueClient,
    expected: Mapping[Key, tuple[int, int]],
    filters: Collection[str],
) -> None:
    now = _topics(client, {name for name, _ in expected}, filters)
    last = {
        name: end
        for (name, incarnation), (_, end) in expected.items()
        if _is(now, name, incarnation)
    }
    for name, (incarnation, first, end) in now.items():
        archived = last.get(name, first)
        report.waiting += max(0, end - max(archived, first))
        if archived < first:
            report.holes.append(OffsetRange(name, incarnation, archived, first))
        if end < archived:
            report.ahead.append(OffsetRange(name, incarnation, end, archived))
    _excuse(report, client, now)


def _excuse(report: AuditReport, client: QueueClient, now: Mapping[str, Seen]) -> None:
    for hole in list(report.holes):
        if _is(now, hole.topic, hole.incarnation) and hole.end > now[hole.topic][1]:
            visible = hole._replace(begin=max(hole.begin, now[hole.topic][1]))
            gone, _ = audit_report.without([visible], _present(client, visible))
            report.holes, deleted = audit_report.without(report.holes, gone)
            report.deleted += deleted


def _is(now: Mapping[str, Seen], name: str, incarnation: int) -> bool:
    return name in now and now[name][0] == incarnation


def _present(client: QueueClient, span: OffsetRange) -> Iterator[OffsetRange]:
    begin = span.begin
    while begin < span.end:
        answer = client.fetch_raw(span.topic, begin, span.end, columns=NUMBERS)
        for piece in answer.slices:
            first = piece.first_offset
            yield span._replace(begin=first, end=first + piece.count)
        if answer.next_offset <= begin:
            return
        begin = answer.next_offset


def _fault(part: ArchiveFile) -> str:
    path = Path(part.path)
    try:
        size = path.stat().st_size
        if size != part.size:
            return f"{path}: has {size} bytes instead of {part.size}"
        pq.read_metadata(path)
    except (OSError, ArrowException) as error:
        return f"{path}: {error}"
    return ""


_JUDGED: Final = "verdict string, number bigint, topic string, offset bigint, key_id bigint"
_JUDGED_ARROW: Final = pa.schema(
    {
        "verdict": pa.string(),
        "number": pa.int64(),
        "topic": pa.string(),
        "offset": pa.int64(),
        "key_id": pa.int64(),
    }
)


def judge_signatures(
    keys: Mapping[int, bytes],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Yield one count of valid rows per batch; others one by one, up to a limit per task."""

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        room = FORGED_MAX
        for batch in batches:
            lines = _judged(batch, keys, room)
            room -= sum(line[2] is not None for line in lines)
            columns = [list(column) for column in zip(*lines, strict=True)]
            yield pa.RecordBatch.from_arrays(
                [pa.array(c, t) for c, t in zip(columns, _JUDGED_ARROW.types, strict=True)],
                schema=_JUDGED_ARROW,
            )

    return judge


_Line = tuple[str, int, str | None, int | None, int | None]


def _judged(batch: pa.RecordBatch, keys: Mapping[int, bytes], room: int) -> list[_Line]:
    topics, offsets = batch.column("topic").to_pylist(), batch.column("offset").to_pylist()
    payloads, proofs = batch.column("payload").to_pylist(), batch.column("signature").to_pylist()
    numbers = {"valid": 0, "invalid": 0, "unknown_key": 0}
    lines: list[_Line] = []
    for topic, offset, payload, proof in zip(topics, offsets, payloads, proofs, strict=True):
        verdict = verdict_of(keys, topic, payload, proof)
        if verdict == "valid" or len(lines) >= room:
            numbers[verdict] += 1
        else:
            lines.append((verdict, 1, topic, offset, proof["key_id"]))
    return lines + [(verdict, number, None, None, None) for verdict, number in numbers.items()]


def _verify(report: AuditReport, rows: DataFrame, keys: Mapping[int, bytes]) -> None:
    signed = rows.select("topic", "offset", "payload", "signature").where("signature is not null")
    judged = signed.mapInArrow(judge_signatures(dict(keys)), _JUDGED)
    found = f.when(f.col("topic").isNotNull(), f.struct("topic", "offset", "key_id", "verdict"))
    totals = judged.groupBy("verdict").agg(
        f.sum("number").alias("number"), f.collect_list(found).alias("found")
    )
    numbers = dict.fromkeys(("valid", "invalid", "unknown_key"), 0)
    for row in totals.collect():
        numbers[row["verdict"]] = row["number"]
        report.forged += [Forged(*one) for one in row["found"][:FORGED_MAX]]
    report.has_signatures = True
    report.valid, report.signed = numbers["valid"], sum(numbers.values())
    report.unsigned = report.rows - report.signed
    report.forged.sort()


def keys_from(path: str | Path) -> dict[int, bytes]:
    try:
        listed = json.loads(Path(path).read_text())
        return {int(key["id"]): bytes.fromhex(key["public_key"]) for key in listed}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"cannot read public keys from {path}: {error}",
            "Create it with: penstock keys list --json > keys.json",
        ) from None


def run(
    spark: SparkSession,
    *,
    path: str | None = None,
    servers: str | None = None,
    subscribe: str | None = None,
    keys: str | None = None,
    no_signatures: bool = False,
    loss_topic: str = LOSS_TOPIC,
) -> JobOutcome:
    """Prove that an archive has every offset exactly once, and that signatures verify.

    With --path alone, check the archive against its own records; with --servers, also against the
    broker. With --servers alone, audit the broker.

    The exit status is 0 if all is well; otherwise it is 1, after a list of holes and doubles.
    """
    report = audit(
        spark,
        path,
        servers=servers,
        subscribe=subscribe or "",
        keys=keys_from(keys) if keys else None,
        verify=not no_signatures,
        loss_topic=loss_topic,
    )
    document = {"ok": report.is_ok, "faults": report.faults(), **msgspec.to_builtins(report)}
    return JobOutcome(audit_report.text_of(report), document, is_ok=report.is_ok)


def check(*, path: str | None, servers: str | None, keys: str | None, **_: object) -> None:
    _check_subject(path, servers)
    if path is not None:
        take(root_of(path))
    if keys is not None:
        keys_from(keys)


JOB: Final = PipelineJob(
    "audit",
    (
        Option("path", "Directory of the archive; without it, audit the broker.", metavar="DIR"),
        Option(
            "servers",
            "The broker of the archive; without it, audit the archive alone.",
            metavar="HOST:PORT,...",
        ),
        Option("subscribe", "Only these topics: names and MQTT filters.", metavar="FILTER,..."),
        Option(
            "keys",
            "File of public keys (penstock keys list --json), instead of the broker's.",
            metavar="FILE",
        ),
        Option("no_signatures", "Do not verify signatures.", "flag"),
        Option("loss_topic", "Topic with reported losses.", default=LOSS_TOPIC, metavar="TOPIC"),
    ),
    run,
    check=check,
)
