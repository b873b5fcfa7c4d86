"""Archive and broker as one table: a batch read with the option ``archive``.

What retention has removed from the broker comes from the archive's Parquet files, the rest from the
broker, each offset once. For each topic there is one place where the one ends and the other begins,
and that is the oldest offset that the broker has, as it was when the DataFrame was loaded::

    archive   first ─────────────────────────────── next
    broker                        first ─────────────────────── end
    read      └──── from files ───┘└───── from the broker ──────┘

What neither has is lost, and treated as any loss is (``failOnDataLoss``). Retention may go on
between loading and reading: then the broker lacks what it was to give, and that is reported too;
load again. A topic that was deleted and made anew has its present incarnation read; one that is
gone from the broker has the last one that was archived. (``archive.read`` has all of them.)

Files are read in tasks, by pyarrow, and only those that the manifest and the sink's log name
(``archived.snapshot``). Row groups are passed over by their statistics: after compaction rows are
sorted by topic and offset, so a read of little costs little.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import ArrowException
from pyarrow import compute as pc
from pyarrow import parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition

from penstock.errors import StorageDamaged
from penstock.limits import MIB
from penstock.spark.archived.layout import day_of, key_of, root_of, topic_key
from penstock.spark.archived.proofs import verdict_of
from penstock.spark.archived.snapshot import Archived, chosen, position, take
from penstock.spark.archived.snapshot import Part as FilePart
from penstock.spark.broker import client_of, patiently
from penstock.spark.columns import BATCH_ROWS_MAX
from penstock.spark.filters import names_matching
from penstock.spark.loss import report
from penstock.spark.offsets import Range
from penstock.spark.options import Places, SourceOptions
from penstock.spark.planning import Loss, Seen
from penstock.spark.watch import Watch, resolve

__all__ = ["Divided", "FilesPart", "Stored", "divide", "merged", "plan", "read", "rows_of"]

PART_BYTES: Final = 64 * MIB
"""Bytes of files that one task reads: two seconds or so."""

_KEYS: Final = ("topic", "incarnation", "offset", "timestamp")


class Stored(NamedTuple):
    """Offsets ``begin … end - 1`` of a topic that are read from files, of some times (ms)."""

    topic: str
    incarnation: int
    begin: int
    end: int
    since_ms: int | None = None
    until_ms: int | None = None


class Divided(NamedTuple):
    """What is read of a topic, and from where; any of it may be nothing."""

    stored: Stored | None
    live: Range | None
    losses: tuple[Loss, ...] = ()


class FilesPart(InputPartition):
    """What one task reads of an archive: some files, and which rows of them."""

    def __init__(self, paths: Sequence[str], wanted: Sequence[Stored]) -> None:
        super().__init__(None)
        self.paths = tuple(paths)
        self.wanted = tuple(wanted)


# ── Who serves what, pure ─────────────────────────────────────────────────────────────────────


def merged(
    seen: Mapping[str, Seen], archived: Mapping[str, Archived]
) -> dict[str, tuple[Seen, Archived | None]]:
    """Return each topic as broker and archive have it together.

    One that the broker does not have ends where the archive does.
    """
    both: dict[str, tuple[Seen, Archived | None]] = {}
    for name in sorted(seen.keys() | archived.keys()):
        stored, live = archived.get(name), seen.get(name)
        if live is None:
            assert stored is not None
            live = Seen(stored.incarnation, stored.next, stored.next)
        is_same = stored is not None and stored.incarnation == live.incarnation
        both[name] = (live, stored if is_same else None)
    return both


def first_of(live: Seen, stored: Archived | None) -> int:
    """Return the oldest offset that one of both has."""
    return live.first if stored is None else min(live.first, stored.first)


def divide(asked: Stored, live: Seen, stored: Archived | None) -> Divided:
    """Divide what is asked for at the broker's oldest offset."""
    end = max(asked.begin, asked.end)
    border = min(max(live.first, asked.begin), end)
    low, high = (stored.first, stored.next) if stored is not None else (border, border)
    begin = min(max(asked.begin, low), border)
    stop = max(min(border, high), begin)
    gaps = [(b, e) for b, e in ((asked.begin, begin), (stop, border)) if b < e]
    return Divided(
        asked._replace(begin=begin, end=stop) if begin < stop else None,
        Range(asked.topic, asked.incarnation, border, end) if border < end else None,
        tuple(Loss(asked.topic, asked.incarnation, *gap, "removed") for gap in gaps),
    )


# ── Planning ──────────────────────────────────────────────────────────────────────────────────


def plan(options: SourceOptions) -> tuple[list[FilesPart], list[Range]]:
    """Settle what is read from files, and what from the broker; what is lost is reported."""
    assert options.archive is not None
    watch = Watch(options)
    watch.look()
    # The archive is looked at after the broker: what retention removes in between is in it.
    snapshot = take(root_of(options.archive))
    archived = position(snapshot)
    names = names_matching(archived, options.filters)
    if options.pattern is not None:
        names = [name for name in names if re.fullmatch(options.pattern, name)]
    topics = merged(watch.topics, {name: archived[name] for name in names})
    divided = [
        divide(asked, *topics[asked.topic]) for asked in _asked(options, topics, watch.topics)
    ]
    report(options, [loss for each in divided for loss in each.losses])
    stored = [each.stored for each in divided if each.stored is not None]
    live = [each.live for each in divided if each.live is not None]
    return files_parts(snapshot.parts, stored), live


def _asked(
    options: SourceOptions,
    topics: Mapping[str, tuple[Seen, Archived | None]],
    known: Collection[str],
) -> Iterator[Stored]:
    """Tell what the options mean, for each topic; ``known`` are those that the broker has."""
    whole = {
        name: live._replace(first=first_of(live, stored)) for name, (live, stored) in topics.items()
    }
    begins, sinces = _resolved(options, options.start, whole, known)
    ends, untils = _resolved(options, options.end, whole, known)
    for name, (live, _) in topics.items():
        begin, end = begins[name], ends[name]
        if name in sinces and begin <= live.first:
            # The broker's first message is late enough: there may be more of them in the archive.
            begin = whole[name].first
        if begin < end:
            yield Stored(name, live.incarnation, begin, end, sinces.get(name), untils.get(name))


def _resolved(
    options: SourceOptions, places: Places, whole: Mapping[str, Seen], known: Collection[str]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the offsets of places; and for those that are times, the times (ms).

    Of a topic that the broker does not have, a time is somewhere in the archive: before its end.
    """
    times = {name: places.of(name).value for name in whole if places.of(name).kind == "time"}
    gone = {name: topic.end for name, topic in whole.items() if name in times and name not in known}
    asked = {name: topic for name, topic in whole.items() if name not in gone}
    return {**gone, **resolve(options, places, asked)}, times


def files_parts(parts: Sequence[FilePart], stored: Sequence[Stored]) -> list[FilesPart]:
    """Deal files to tasks, with the ranges that may be in them."""
    if not stored:
        return []
    by_key: dict[str, list[Stored]] = {}
    for each in stored:
        by_key.setdefault(topic_key(each.topic), []).append(each)
    found: list[FilesPart] = []
    paths: list[str] = []
    wanted: dict[Stored, None] = {}
    size = 0
    for part in chosen(parts, [each.topic for each in stored], *_days(stored)):
        if paths and size + part.size > PART_BYTES:
            found.append(FilesPart(paths, list(wanted)))
            paths, wanted, size = [], {}, 0
        key = key_of(part.path)
        paths.append(part.path)
        wanted.update(dict.fromkeys(stored if key is None else by_key[key]))
        size += part.size
    return [*found, FilesPart(paths, list(wanted))] if paths else found


def _days(stored: Sequence[Stored]) -> tuple[date | None, date | None]:
    """Return the first and the last day that any range has rows of; None is without a limit."""
    sinces = [each.since_ms for each in stored if each.since_ms is not None]
    untils = [each.until_ms for each in stored if each.until_ms is not None]
    first = min(sinces) if len(sinces) == len(stored) else None
    last = max(untils) if len(untils) == len(stored) else None
    return _day(first), _day(last)


def _day(time_ms: int | None) -> date | None:
    return None if time_ms is None else day_of(datetime.fromtimestamp(time_ms / 1000, UTC))


# ── Reading, in tasks ─────────────────────────────────────────────────────────────────────────


def rows_of(options: SourceOptions, part: FilesPart, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read the wanted rows of some files, as the columns of a schema."""
    needed = {*_KEYS, *schema.names}
    keys: dict[int, bytes] | None = None
    if options.verifies and "signature_verdict" in needed:
        needed |= {"payload", "signature"}
        listed = patiently(options.patience, lambda: client_of(options.servers).keys())
        keys = {key.id: key.public_key for key in listed}
    wanted = {each.topic: each for each in part.wanted}
    for path in part.paths:
        for batch in _batches(path, sorted(needed), wanted):
            kept = batch.filter(_mask(batch, wanted))
            if kept.num_rows:
                yield _as(schema, kept, keys)


def _batches(
    path: str, columns: list[str], wanted: Mapping[str, Stored]
) -> Iterator[pa.RecordBatch]:
    try:
        with pq.ParquetFile(path) as file:
            groups = [g for g in range(file.num_row_groups) if _may_have(file, g, wanted)]
            yield from file.iter_batches(BATCH_ROWS_MAX, groups, columns)
    except FileNotFoundError:
        raise StorageDamaged(
            f"{path} is gone: it was compacted after this DataFrame was loaded",
            "Load it again. If it was just loaded, `penstock spark run audit` tells what is amiss.",
        ) from None
    except ArrowException as error:
        raise StorageDamaged(
            f"{path} cannot be read: {error}", "`penstock spark run audit` tells what is amiss."
        ) from None


def _may_have(file: pq.ParquetFile, group: int, wanted: Mapping[str, Stored]) -> bool:
    """Tell by its statistics whether a row group may have rows that are wanted."""
    limits = _limits(file.metadata.row_group(group))
    low_topic, high_topic = limits.get("topic", (None, None))
    if low_topic is None or low_topic != high_topic:
        return True
    each = wanted.get(low_topic)
    if each is None:
        return False
    low, high = limits.get("offset", (each.begin, each.begin))
    if low >= each.end or high < each.begin:
        return False
    early, late = limits.get("timestamp", (None, None))
    is_late = each.until_ms is not None and early and early.timestamp() * 1000 >= each.until_ms
    is_early = each.since_ms is not None and late and late.timestamp() * 1000 < each.since_ms
    return not (is_late or is_early)


def _limits(group: Any) -> dict[str, tuple[Any, Any]]:
    columns = [group.column(number) for number in range(group.num_columns)]
    return {
        column.path_in_schema: (column.statistics.min, column.statistics.max)
        for column in columns
        if column.path_in_schema in {"topic", "offset", "timestamp"}
        and column.statistics is not None
        and column.statistics.has_min_max
    }


def _mask(batch: pa.RecordBatch, wanted: Mapping[str, Stored]) -> pa.Array:
    """Tell which rows are wanted; a loop over the topics of a batch, not over its rows."""
    topics = batch.column("topic").dictionary_encode()
    ranges = [wanted.get(name) for name in topics.dictionary.to_pylist()]
    which = topics.indices.to_numpy(zero_copy_only=False)

    def of(values: Iterable[int]) -> Any:
        return np.array(list(values), np.int64)[which]

    offsets = batch.column("offset").to_numpy()
    times = pc.cast(batch.column("timestamp"), pa.int64()).to_numpy()
    last = np.iinfo(np.int64).max
    kept = batch.column("incarnation").to_numpy() == of(r.incarnation if r else -1 for r in ranges)
    kept &= offsets >= of(r.begin if r else 0 for r in ranges)
    kept &= offsets < of(r.end if r else 0 for r in ranges)
    kept &= times >= of((r.since_ms or 0) * 1000 if r else 0 for r in ranges)
    kept &= times < of(r.until_ms * 1000 if r and r.until_ms is not None else last for r in ranges)
    return pa.array(kept)


def _as(
    schema: pa.Schema, batch: pa.RecordBatch, keys: Mapping[int, bytes] | None
) -> pa.RecordBatch:
    """Make a batch that Spark takes: its columns, order and types."""
    columns = {name: batch.column(name) for name in schema.names if name != "signature_verdict"}
    if "signature_verdict" in schema.names:
        columns["signature_verdict"] = _verdicts(batch, keys)
    arrays = [columns[field.name].cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _verdicts(batch: pa.RecordBatch, keys: Mapping[int, bytes] | None) -> pa.Array:
    if keys is None:
        return batch.column("signature_verdict")
    names = ("topic", "payload", "signature")
    rows = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
    words = [
        None if proof is None else verdict_of(keys, topic, payload, proof)
        for topic, payload, proof in rows
    ]
    return pa.array(words, pa.string())


# ── For programs ──────────────────────────────────────────────────────────────────────────────


def read(
    spark: SparkSession, servers: str, subscribe: str, archive: str | os.PathLike[str], **more: str
) -> DataFrame:
    """Return what archive and broker have together; ``more`` are options of the source."""
    reader = spark.read.format("penstock").options(servers=servers, subscribe=subscribe, **more)
    return reader.option("archive", os.fspath(archive)).load()
