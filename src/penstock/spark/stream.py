"""Streaming reads: where the next batch ends, what it reads, and the lag that the broker shows.

Spark runs one process with one ``StreamReader`` per query, which plans; ``read`` runs in workers.
Spark does not store the result of ``initialOffset`` until batch 0 is committed. Two things pin it:
the end of a batch says where each topic began (see ``offsets``), and a reader with a name has a
group of that name on every topic, created where reading begins. The group shows the lag; Spark
calls ``commit`` one batch late, and never for the last batch; we do that when all is read.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from time import monotonic
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from penstock.client.errors import ClientError
from penstock.client.queue.values import Group
from penstock.spark import planning, topic_watch
from penstock.spark.batch import RangePartition, partitioning_of
from penstock.spark.broker import ask, client_for, map_concurrently
from penstock.spark.data_loss import report_losses
from penstock.spark.offsets import (
    StreamOffset,
    StreamPosition,
    TopicPosition,
    decode,
    encode,
    ranges_between,
)
from penstock.spark.options import SourceOptions
from penstock.spark.reading import read_ranges
from penstock.spark.tracebacks import hide_traceback, hide_traceback_of_rows

_LOG = logging.getLogger("penstock.spark")

# up to this many topics are measured; others are estimated
_TOPICS_MEASURED_MAX: Final = topic_watch.SINGLE_MAX


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics for as long as the query runs."""

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._watch = topic_watch.TopicWatch(options)
        self._initial: StreamOffset | None = None
        self._target: dict[str, planning.TopicState] | None = None
        self._advanced_at = monotonic()
        self._grouped: set[tuple[str, int]] = set()
        self._committed: dict[str, TopicPosition] = {}

    @hide_traceback
    def initialOffset(self) -> StreamOffset:  # noqa: N802
        if self._initial is None:
            self._watch.refresh()
            topics = dict(self._watch.topics)
            if not topics:  # otherwise there is work, and new topics join later
                topic_watch.warn_missing_topics(self._options, topics)
            begins = topic_watch.resolve_offsets(self._options, self._options.start, topics)
            if self._options.reader is not None:
                begins = self._pinned(begins)
            spots = {
                name: TopicPosition(topic.incarnation, begins[name], begins[name])
                for name, topic in topics.items()
            }
            partitioning = partitioning_of(self._options)
            self._initial = encode(StreamPosition(spots, partitioning, is_initial=True))
        return self._initial

    def _pinned(self, begins: dict[str, int]) -> dict[str, int]:
        """Create our groups where reading begins; return the starts of existing, unmoved groups."""
        reader = self._options.reader or ""
        ask(self._options, lambda client: client.create_groups(reader, begins, reader=True))
        if len(begins) <= topic_watch.SINGLE_MAX:
            listed = map_concurrently(self._groups_of, begins)
        else:
            listed = [ask(self._options, lambda client: client.groups())]
        groups = {one.topic: one for page in listed for one in page if one.name == reader}
        starts = map_concurrently(
            lambda name: self._pin(groups[name], begins[name]),
            [name for name in begins if name in groups],
        )
        self._grouped |= {(name, self._watch.topics[name].incarnation) for name in begins}
        return begins | dict(zip([name for name in begins if name in groups], starts, strict=True))

    def _groups_of(self, topic: str) -> list[Group]:
        return ask(self._options, lambda client: client.groups(topic))

    def _pin(self, group: Group, begin: int) -> int:
        """Return where a topic begins.

        A group that has moved belongs to an earlier query: we start over, and move it. A pin after
        the start that is asked for was made for another start; following it would skip messages.
        """
        is_exact = self._options.start.of(group.topic).kind == "offset"
        if not is_exact and group.position == group.start <= begin:
            return group.start
        if not group.position == group.start == begin:
            ask(self._options, lambda client: client.seek(group.topic, group.name, begin))
        return begin

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        options = self._options
        if options.max_rows is not None:
            return ReadMaxRows(options.max_rows)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        if options.min_rows is not None:
            return ReadMinRows(options.min_rows)
        return ReadAllAvailable()

    @hide_traceback
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._watch.refresh()
        self._target = dict(self._watch.topics)

    @hide_traceback
    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:  # noqa: N802
        """Return the end of the next batch; ``start``, after moving the group, if there is none."""
        position = decode(start)
        self._watch.refresh()
        end = self._end(position, limit)
        if end.topics == position.topics and not position.is_initial:
            self.commit(start)
            if self._target is None:
                self._watch.refresh(self._options.poll_s)
                end = self._end(position, limit)
        if end.topics == position.topics and not position.is_initial:
            return start
        self._advanced_at = monotonic()
        return encode(end)

    def reportLatestOffset(self) -> StreamOffset:  # noqa: N802
        seen = self._watch.topics
        spots = {name: TopicPosition(it.incarnation, it.end, it.first) for name, it in seen.items()}
        return encode(StreamPosition(spots, partitioning_of(self._options)))

    def _end(self, start: StreamPosition, limit: ReadLimit) -> StreamPosition:
        seen = self._available(start)
        lags = planning.lag_of(start, seen)
        is_limited = not isinstance(limit, ReadAllAvailable)
        if is_limited and self._is_too_little(sum(lags.values())):
            lags = {}
        elif is_limited:
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_rows
            taken = lags if most is None else planning.share(lags, most, _rows_read(start))
            lags = self._within_bytes(start, seen, taken)
        unseen = start.topics.keys() - self._watch.topics.keys()
        resting = {name: start.topics[name] for name in unseen if not self._watch.matches(name)}
        end = planning.advance(start, seen, lags, partitioning_of(self._options), resting)
        return planning.with_deleted_ends(start, end, self._watch.gone)

    def _available(self, start: StreamPosition) -> dict[str, planning.TopicState]:
        topics, target = self._watch.topics, self._target
        if target is None:
            return topics
        found = {}
        for name, topic in topics.items():
            if name in target and target[name].incarnation == topic.incarnation:
                # A start of "latest" may be after the target; the topic was not cut back.
                last = max(target[name].end, planning.next_of(start.topics.get(name), topic))
                found[name] = topic._replace(end=min(topic.end, last))
        return found

    def _is_too_little(self, rows: int) -> bool:
        options = self._options
        if options.min_rows is None or self._target is not None:
            return False
        waited_s = monotonic() - self._advanced_at
        return rows < options.min_rows and waited_s < options.max_delay_s

    def _within_bytes(
        self, start: StreamPosition, seen: Mapping[str, planning.TopicState], takes: dict[str, int]
    ) -> dict[str, int]:
        most = self._options.max_bytes
        if most is None or sum(seen[name].bytes for name in takes) <= most:
            return takes
        means = {name: round(seen[name].bytes / max(1, seen[name].messages)) for name in takes}
        sizes = {name: rows * means[name] for name, rows in takes.items()}
        shares = planning.share_bytes(sizes, means, most, _rows_read(start))
        large = sorted(shares, key=lambda name: (-sizes[name], name))[:_TOPICS_MEASURED_MAX]
        found = map_concurrently(
            lambda name: self._reach(start, seen[name], name, shares[name]), large
        )
        reaches = dict(zip(large, found, strict=True))
        return {
            name: min(takes[name], reaches.get(name) or max(1, size // max(1, means[name])))
            for name, size in shares.items()
        }

    def _reach(
        self, start: StreamPosition, topic: planning.TopicState, name: str, size: int
    ) -> int:
        begin = planning.next_of(start.topics.get(name), topic)
        found = ask(
            self._options, lambda client: client.locate(name, times_ms=(), measures=[(begin, size)])
        )
        return max(1, found.reaches[0] - begin) if found.reaches else 1

    @hide_traceback
    def partitions(self, start: StreamOffset, end: StreamOffset) -> Sequence[InputPartition]:
        begins, ends = decode(start), decode(end)
        losses = [] if begins.is_initial else planning.lost_with_topics(begins, ends)
        asked = ranges_between(begins, ends)
        names = sorted({one.topic for one in asked})
        has = topic_watch.current_states(self._options, names) if names else {}
        ranges, more = planning.clamp(asked, has)
        report_losses(self._options, [*losses, *more])
        return [RangePartition(part) for part in planning.split(ranges, ends.cut)]

    @hide_traceback_of_rows
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        ranges = partition.ranges if isinstance(partition, RangePartition) else ()
        return read_ranges(self._options, ranges, self._schema)

    @hide_traceback
    def commit(self, end: StreamOffset) -> None:
        """Move the group, for display; a broker that is away does not matter."""
        if self._options.reader is None:
            return
        moved = {
            name: position
            for name, position in decode(end).topics.items()
            if self._committed.get(name) != position and self._watch.matches(name)
        }
        try:
            self._tell(moved)
        except ClientError as error:
            reader = self._options.reader
            _LOG.warning("could not report the position of reader %s: %s", reader, error)
        else:
            self._committed |= moved

    def _tell(self, moved: Mapping[str, TopicPosition]) -> None:
        client, reader = (
            client_for(self._options.servers, self._options.login),
            self._options.reader or "",
        )
        fresh = {
            name: position
            for name, position in moved.items()
            if (name, position.incarnation) not in self._grouped
        }
        starts = {name: position.first for name, position in fresh.items()}
        client.create_groups(reader, starts, reader=True)
        self._grouped |= {(name, position.incarnation) for name, position in fresh.items()}
        client.commit_many(reader, {name: position.next for name, position in moved.items()})

    def stop(self) -> None:
        """Nothing to release."""


def _rows_read(position: StreamPosition) -> int:
    return sum(topic.next - topic.first for topic in position.topics.values())
