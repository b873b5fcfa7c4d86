"""Reads the archive and the broker as one table: a batch read with the option ``archive``.

The archive is read as far as it goes, and the broker provides the rest, each offset once::

    archive   first ─────────────────────── next
    broker             first ──────────────────────────── end
    read      └──────── from files ─────────┘└─ from broker ─┘

The boundary is the end of the archive, because retention goes on at the broker. A task that finds
its part gone looks at the archive again (``ArchiveFallback``). What neither has is a loss.

Of a recreated topic the present incarnation is read; of one that the broker no longer has, the last
archived one. If the broker ends before the archive, it was restored from an older copy and may have
assigned offsets twice: then the archive is read only up to the broker's oldest offset.
"""

import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cached_property
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
from penstock.spark.archived.checkpoint_check import last_planned_batch
from penstock.spark.archived.layout import day_of, key_of, root_of, topic_key
from penstock.spark.archived.snapshot import ArchivedTopic, ArchiveFile, chosen, position, take
from penstock.spark.broker import ask, map_concurrently
from penstock.spark.columns import BATCH_ROWS_MAX, Numbers
from penstock.spark.data_loss import report_losses
from penstock.spark.filters import names_matching
from penstock.spark.offsets import OffsetRange, Partitioning
from penstock.spark.options import OffsetSpecs, SourceOptions
from penstock.spark.planning import Loss, TopicState, split
from penstock.spark.reading import read_ranges
from penstock.spark.signatures import verdict_of
from penstock.spark.topic_watch import TopicWatch, locate, resolve_offsets

PART_BYTES: Final = 64 * MIB  # bytes of files per task: about two seconds
_KEYS: Final = ("topic", "incarnation", "offset", "timestamp")


class ArchivedRange(NamedTuple):
    """Offsets ``begin … end - 1`` of a topic to read from files, limited to some times (ms)."""

    topic: str
    incarnation: int
    begin: int
    end: int
    since_ms: int | None = None
    until_ms: int | None = None


class ReadSplit(NamedTuple):
    """What is read of a topic from files and from the broker, and what is lost."""

    stored: ArchivedRange | None
    live: tuple[OffsetRange, ...] = ()
    losses: tuple[Loss, ...] = ()


class FilesPartition(InputPartition):
    """What one task reads of an archive: files, and the wanted ranges."""

    def __init__(self, paths: Sequence[str], wanted: Sequence[ArchivedRange]) -> None:
        super().__init__(None)
        self.paths = tuple(paths)
        self.wanted = tuple(wanted)


class LivePartition(InputPartition):
    """What one task reads from the broker, and the ranges that were asked for."""

    def __init__(self, ranges: Sequence[OffsetRange], asked: Sequence[ArchivedRange]) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)
        self.asked = tuple(asked)


def merged(
    seen: Mapping[str, TopicState], archived: Mapping[str, ArchivedTopic]
) -> dict[str, tuple[TopicState, ArchivedTopic | None]]:
    both: dict[str, tuple[TopicState, ArchivedTopic | None]] = {}
    for name in sorted(seen.keys() | archived.keys()):
        stored, live = archived.get(name), seen.get(name)
        if live is None:
            assert stored is not None
            live = TopicState(stored.incarnation, stored.next, stored.next)
        is_same = stored is not None and stored.incarnation == live.incarnation
        both[name] = (live, stored if is_same else None)
    return both


def divide(asked: ArchivedRange, live: TopicState, stored: ArchivedTopic | None) -> ReadSplit:
    begin, end = asked.begin, max(asked.begin, asked.end)
    low = high = begin
    if stored is not None:
        # If the broker ends before the archive, it was restored, and older offsets count only.
        is_cut_back = live.end < stored.next
        low, high = stored.first, min(stored.next, live.first) if is_cut_back else stored.next
    low = min(max(begin, low), end)
    high = max(min(high, end), low)
    rests = [(b, e) for b, e in ((begin, low), (high, end)) if b < e]
    gone = [(b, min(e, live.first)) for b, e in rests if b < live.first]
    left = [(max(b, live.first), e) for b, e in rests if e > live.first]
    return ReadSplit(
        asked._replace(begin=low, end=high) if low < high else None,
        tuple(OffsetRange(asked.topic, asked.incarnation, *span) for span in left),
        tuple(Loss(asked.topic, asked.incarnation, *span, "removed") for span in gone),
    )


class ArchiveView:
    """The archive as of the last look; it grows while we work."""

    def __init__(self, options: SourceOptions) -> None:
        assert options.archive is not None
        self._root = root_of(options.archive)
        self._options = options
        self._waits = options.retry.retries
        self._look()

    def more(self) -> bool:
        """Look again; wait for a batch that is being written, a limited number of times."""
        before = self.archived
        self._look()
        while self.archived == before and self._waits and self._is_growing:
            self._waits -= 1
            time.sleep(self._options.retry.pause_s)
            self._look()
        return self.archived != before

    def matching(self) -> dict[str, ArchivedTopic]:
        names = names_matching(self.archived, self._options.filters)
        pattern = self._options.pattern
        if pattern is not None:
            names = [name for name in names if re.fullmatch(pattern, name)]
        return {name: self.archived[name] for name in names}

    def _look(self) -> None:
        self.snapshot = take(self._root)
        self.archived = position(self.snapshot)
        checkpoint = self._root / self.snapshot.manifest.checkpoint
        self._is_growing = last_planned_batch(checkpoint) > self.snapshot.batch


def plan(options: SourceOptions, partitioning: Partitioning) -> list[InputPartition]:
    # The archive comes first: if it is ahead of the broker, the broker was restored.
    view = ArchiveView(options)
    watch = TopicWatch(options)
    watch.refresh()
    asked = list(_asked(options, merged(watch.topics, view.matching()), watch.topics))
    divided = _divided(asked, watch, view)
    for _ in range(options.retry.retries + 1):
        if not any(each.losses for each in divided) or not view.more():
            break
        divided = _divided(asked, watch, view)
    report_losses(options, [loss for each in divided for loss in each.losses])
    stored = [each.stored for each in divided if each.stored is not None]
    live = split([one for each in divided for one in each.live], partitioning)
    by_topic = {each.topic: each for each in asked}
    return [
        *files_partitions(view.snapshot.parts, stored),
        *(LivePartition(part, [by_topic[one.topic] for one in part]) for part in live),
    ]


def _divided(
    asked: Iterable[ArchivedRange], watch: TopicWatch, view: ArchiveView
) -> list[ReadSplit]:
    topics = merged(watch.topics, view.matching())
    return [divide(each, *topics[each.topic]) for each in asked]


def _asked(
    options: SourceOptions,
    topics: Mapping[str, tuple[TopicState, ArchivedTopic | None]],
    known: Collection[str],
) -> Iterator[ArchivedRange]:
    whole = {
        name: live._replace(first=live.first if stored is None else min(live.first, stored.first))
        for name, (live, stored) in topics.items()
    }
    begins = _resolved(options, options.start, whole, known)
    ends = _resolved(options, options.end, whole, known)
    for name, (live, _) in topics.items():
        # If nothing older is at the broker, the archive may have more.
        begin = whole[name].first if begins[name].is_early else begins[name].offset
        end = ends[name].offset
        if begin < end:
            times = (begins[name].time_ms, ends[name].time_ms)
            yield ArchivedRange(name, live.incarnation, begin, end, *times)


class _Resolved(NamedTuple):
    """An offset; if it was given as a time, that time, and whether the broker has nothing older."""

    offset: int
    time_ms: int | None = None
    is_early: bool = False


def _resolved(
    options: SourceOptions,
    specs: OffsetSpecs,
    whole: Mapping[str, TopicState],
    known: Collection[str],
) -> dict[str, _Resolved]:
    """Resolve offset specs; a time in a topic that only the archive has is before its end."""

    def by_time(name: str) -> _Resolved:
        time_ms = specs.of(name).value
        if name not in known:
            return _Resolved(whole[name].end, time_ms, is_early=True)
        found = locate(options, name, time_ms)
        # Compare within one reply: retention may have moved the oldest offset since.
        return _Resolved(found.offsets[0], time_ms, found.offsets[0] <= found.first_offset)

    timed = [name for name in whole if specs.of(name).kind == "time"]
    others = {name: topic for name, topic in whole.items() if name not in set(timed)}
    plain = resolve_offsets(options, specs, others)
    return {
        **{name: _Resolved(offset) for name, offset in plain.items()},
        **dict(zip(timed, map_concurrently(by_time, timed), strict=True)),
    }


def files_partitions(
    parts: Sequence[ArchiveFile], stored: Sequence[ArchivedRange]
) -> list[FilesPartition]:
    if not stored:
        return []
    by_key: dict[str, list[ArchivedRange]] = {}
    for each in stored:
        by_key.setdefault(topic_key(each.topic), []).append(each)
    found: list[FilesPartition] = []
    paths: list[str] = []
    wanted: dict[ArchivedRange, None] = {}
    size = 0
    for part in chosen(parts, [each.topic for each in stored], *_days(stored)):
        if paths and size + part.size > PART_BYTES:
            found.append(FilesPartition(paths, list(wanted)))
            paths, wanted, size = [], {}, 0
        key = key_of(part.path)
        paths.append(part.path)
        wanted.update(dict.fromkeys(stored if key is None else by_key[key]))
        size += part.size
    return [*found, FilesPartition(paths, list(wanted))] if paths else found


def _days(stored: Sequence[ArchivedRange]) -> tuple[date | None, date | None]:
    sinces = [each.since_ms for each in stored if each.since_ms is not None]
    untils = [each.until_ms for each in stored if each.until_ms is not None]
    first = min(sinces) if len(sinces) == len(stored) else None
    last = max(untils) if len(untils) == len(stored) else None
    return _day(first), _day(last)


def _day(time_ms: int | None) -> date | None:
    return None if time_ms is None else day_of(datetime.fromtimestamp(time_ms / 1000, UTC))


def rows_of(
    options: SourceOptions, part: FilesPartition, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    needed = {*_KEYS, *schema.names}
    keys: dict[int, bytes] | None = None
    if options.verifies and "signature_verdict" in needed:
        needed |= {"payload", "signature"}
        keys = {key.id: key.public_key for key in ask(options, lambda client: client.keys())}
    wanted = {each.topic: each for each in part.wanted}
    for path in part.paths:
        for batch in _batches(path, sorted(needed), wanted):
            kept = batch.filter(_mask(batch, wanted))
            if kept.num_rows:
                yield _as(schema, kept, keys)


def _batches(
    path: str, columns: list[str], wanted: Mapping[str, ArchivedRange]
) -> Iterator[pa.RecordBatch]:
    try:
        with pq.ParquetFile(path) as file:
            groups = [g for g in range(file.num_row_groups) if _may_have(file, g, wanted)]
            yield from file.iter_batches(BATCH_ROWS_MAX, groups, columns)
    except FileNotFoundError:
        raise StorageDamaged(
            f"{path} is gone: it was compacted after this DataFrame was loaded",
            "Load it again. If that does not help, run `penstock spark run audit`.",
        ) from None
    except ArrowException as error:
        raise StorageDamaged(
            f"{path} cannot be read: {error}", "Run `penstock spark run audit` to find the damage."
        ) from None


def _may_have(file: pq.ParquetFile, group: int, wanted: Mapping[str, ArchivedRange]) -> bool:
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


def _limits(group: pq.RowGroupMetaData) -> dict[str, tuple[Any, Any]]:
    columns = [group.column(number) for number in range(group.num_columns)]
    return {
        column.path_in_schema: (column.statistics.min, column.statistics.max)
        for column in columns
        if column.path_in_schema in {"topic", "offset", "timestamp"}
        and column.statistics is not None
        and column.statistics.has_min_max
    }


def _mask(batch: pa.RecordBatch, wanted: Mapping[str, ArchivedRange]) -> pa.Array:
    topics = batch.column("topic").dictionary_encode()
    ranges = [wanted.get(name) for name in topics.dictionary.to_pylist()]
    which = topics.indices.to_numpy(zero_copy_only=False)

    def of(values: Iterable[int]) -> Numbers:
        per_row: Numbers = np.array(list(values), np.int64)[which]
        return per_row

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
    verdicts = [
        None if proof is None else verdict_of(keys, topic, payload, proof)
        for topic, payload, proof in rows
    ]
    return pa.array(verdicts, pa.string())


def live_rows(
    options: SourceOptions, part: LivePartition, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    fallback = ArchiveFallback(options, part.asked, schema)
    return read_ranges(options, part.ranges, schema, fallback.rows)


class ArchiveFallback:
    """Reads from the archive what the broker no longer has."""

    def __init__(
        self, options: SourceOptions, asked: Iterable[ArchivedRange], schema: pa.Schema
    ) -> None:
        self._options = options
        self._asked = {each.topic: each for each in asked}
        self._schema = schema

    def rows(self, loss: Loss) -> Iterator[pa.RecordBatch]:
        assert loss.end is not None  # the loss is part of a range
        begin, end = self._span(loss)
        if begin < end:
            wanted = self._asked[loss.topic]._replace(begin=begin, end=end)
            for part in files_partitions(self._view.snapshot.parts, [wanted]):
                yield from rows_of(self._options, part, self._schema)
        gaps = [(loss.begin, begin), (end, loss.end)]
        report_losses(self._options, [loss._replace(begin=b, end=e) for b, e in gaps if b < e])

    def _span(self, loss: Loss) -> tuple[int, int]:
        begin, end = self._seen(loss)
        if (begin, end) != (loss.begin, loss.end) and self._view.more():
            begin, end = self._seen(loss)
        return begin, end

    def _seen(self, loss: Loss) -> tuple[int, int]:
        stored = self._view.archived.get(loss.topic)
        last = loss.begin if loss.end is None else loss.end
        if stored is None or stored.incarnation != loss.incarnation:
            return loss.begin, loss.begin
        begin = min(max(loss.begin, stored.first), last)
        return begin, max(min(last, stored.next), begin)

    @cached_property
    def _view(self) -> ArchiveView:
        return ArchiveView(self._options)


def read(
    spark: SparkSession, servers: str, subscribe: str, archive: str | os.PathLike[str], **more: str
) -> DataFrame:
    reader = spark.read.format("penstock").options(servers=servers, subscribe=subscribe, **more)
    return reader.option("archive", os.fspath(archive)).load()
