"""A stream: how far the next batch goes, what it reads, and what the broker is told of it.

Spark runs one process with one ``StreamReader`` per query, which plans, and has ``read`` run in
workers. It calls ``latestOffset`` over and over; we let the broker keep us waiting there for
something new, instead of asking a hundred times a second.

**Nothing is lost at the start.** Spark forgets what ``initialOffset`` said until batch 0 is
committed. Two things pin it. The end of a batch, which Spark writes down before it runs it, says
where each topic began (see ``offsets``). And a reader with a name has a group of that name on every
topic, made where it begins: if the query dies before anything is written down, it finds it there.

**The group is for looking at.** What ``commit`` tells the broker feeds the lag that it shows, and
nothing else: Spark calls it one batch late, and for the last only we do, once there is no more.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from time import monotonic
from typing import Any, Final

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
from penstock.spark.batch import RangePartition, partitioning_of
from penstock.spark.broker import client_for, map_concurrently, with_retries
from penstock.spark.data_loss import report_losses
from penstock.spark.offsets import StreamPosition, TopicPosition, decode, encode, ranges_between
from penstock.spark.options import SourceOptions
from penstock.spark.planning import (
    TopicState,
    advance,
    clamp,
    lag_of,
    lost_with_topics,
    next_of,
    share,
    share_bytes,
    split,
    with_deleted_ends,
)
from penstock.spark.reading import read_ranges
from penstock.spark.topic_watch import (
    SINGLE_MAX,
    TopicWatch,
    current_states,
    resolve_offsets,
    warn_missing_topics,
)
from penstock.spark.tracebacks import hide_traceback, hide_traceback_of_rows

_LOG = logging.getLogger("penstock.spark")

Offset = dict[str, Any]

_TOPICS_MEASURED_MAX: Final = SINGLE_MAX
"""How far bytes reach is asked for up to so many topics; for the others it is estimated."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics for as long as the query runs."""

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._watch = TopicWatch(options)
        self._initial: Offset | None = None
        self._target: dict[str, TopicState] | None = None
        self._advanced_at = monotonic()
        self._grouped: set[tuple[str, int]] = set()
        self._committed: dict[str, TopicPosition] = {}

    # ── Where to begin ────────────────────────────────────────────────────────────────────────

    @hide_traceback
    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Where the query begins; the same for as long as it runs, and pinned if it has a name."""
        if self._initial is None:
            self._watch.look()
            topics = dict(self._watch.topics)
            if not topics:  # else it has something to do, and takes in others as they are made
                warn_missing_topics(self._options, topics)
            begins = resolve_offsets(self._options, self._options.start, topics)
            if self._options.reader is not None:
                pinned = map_concurrently(lambda name: self._pin(name, begins[name]), topics)
                begins = dict(zip(topics, pinned, strict=True))
            spots = {
                name: TopicPosition(topic.incarnation, begins[name], begins[name])
                for name, topic in topics.items()
            }
            partitioning = partitioning_of(self._options)
            self._initial = encode(StreamPosition(spots, partitioning, is_initial=True))
        return self._initial

    def _pin(self, topic: str, begin: int) -> int:
        """Make our group where we begin; one that is there and has not moved says where we began.

        One that has moved is that of an earlier query: we begin anew, and take it along. So it is
        with an offset that was asked for by number, which needs no pin. A pin is there so that
        nothing is left out: where one is behind the place that is asked for now, it was made for
        another start (latest, and now earliest), and to follow it would lose what is between.
        """
        reader = self._options.reader or ""
        is_exact = self._options.start.of(topic).kind == "offset"

        def ask() -> int:
            client = client_for(self._options.servers)
            client.create_group(topic, reader, start=begin, reader=True)
            group = next(one for one in client.groups(topic) if one.name == reader)
            if not is_exact and group.position == group.start <= begin:
                return group.start
            client.seek(topic, reader, begin)
            return begin

        begin = with_retries(self._options.patience, ask)
        self._grouped.add((topic, self._watch.topics[topic].incarnation))
        return begin

    # ── How far to go ─────────────────────────────────────────────────────────────────────────

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The first of our limits; it is how we tell that Spark wants them respected."""
        options = self._options
        if options.max_rows is not None:
            return ReadMaxRows(options.max_rows)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        if options.min_rows is not None:
            return ReadMinRows(options.min_rows)
        return ReadAllAvailable()

    @hide_traceback
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note where all topics end now; this run goes no further."""
        self._watch.look()
        self._target = dict(self._watch.topics)

    @hide_traceback
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Where the next batch ends; ``start`` itself if there is nothing to do.

        Waits for something new for a while, if there is nothing. Who asks how to go on from
        ``start`` is done with what is before: so the broker hears of the last batch as well, for
        which Spark never calls ``commit``.
        """
        position = decode(start)
        self._watch.look()
        end = self._end(position, limit)
        if end.topics == position.topics and not position.is_initial:
            self.commit(start)
            if self._target is None:
                self._watch.look(self._options.poll_s)
                end = self._end(position, limit)
        if end.topics == position.topics and not position.is_initial:
            return start
        self._advanced_at = monotonic()
        return encode(end)

    def reportLatestOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Where the topics end, for the progress report: the difference is the lag."""
        seen = self._watch.topics
        spots = {name: TopicPosition(it.incarnation, it.end, it.first) for name, it in seen.items()}
        return encode(StreamPosition(spots, partitioning_of(self._options)))

    def _end(self, start: StreamPosition, limit: ReadLimit) -> StreamPosition:
        seen = self._available(start)
        lags = lag_of(start, seen)
        is_limited = not isinstance(limit, ReadAllAvailable)
        if is_limited and self._is_too_little(sum(lags.values())):
            lags = {}
        elif is_limited:
            lags = self._within_bytes(start, seen, self._within_rows(start, lags, limit))
        end = advance(start, seen, lags, partitioning_of(self._options), self._resting(start))
        return with_deleted_ends(start, end, self._watch.gone)

    def _resting(self, start: StreamPosition) -> dict[str, TopicPosition]:
        """Where we are in topics that an earlier run read, and this one is not to read."""
        unseen = start.topics.keys() - self._watch.topics.keys()
        return {name: start.topics[name] for name in unseen if not self._watch.wants(name)}

    def _available(self, start: StreamPosition) -> dict[str, TopicState]:
        """What may be read: all there is, or what was there when an AvailableNow run began.

        A start of "latest" may be later than that, and is not to be taken for a topic cut back.
        """
        topics, target = self._watch.topics, self._target
        if target is None:
            return topics
        found = {}
        for name, topic in topics.items():
            if name in target and target[name].incarnation == topic.incarnation:
                last = max(target[name].end, next_of(start.topics.get(name), topic))
                found[name] = topic._replace(end=min(topic.end, last))
        return found

    def _is_too_little(self, rows: int) -> bool:
        """Whether to wait for more rows; not for ever, and not when nothing more is to come."""
        options = self._options
        if options.min_rows is None or self._target is not None:
            return False
        waited_s = monotonic() - self._advanced_at
        return rows < options.min_rows and waited_s < options.max_delay_s

    def _within_rows(
        self, start: StreamPosition, lags: Mapping[str, int], limit: ReadLimit
    ) -> dict[str, int]:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_rows
        return dict(lags) if most is None else share(lags, most, _rows_read(start))

    def _within_bytes(
        self, start: StreamPosition, seen: Mapping[str, TopicState], takes: dict[str, int]
    ) -> dict[str, int]:
        """Shorten to the bytes of a batch; how far they reach, the broker's index tells."""
        most = self._options.max_bytes
        if most is None or sum(seen[name].bytes for name in takes) <= most:
            return takes
        means = {name: round(_mean(seen[name])) for name in takes}
        sizes = {name: rows * means[name] for name, rows in takes.items()}
        shares = share_bytes(sizes, means, most, _rows_read(start))
        large = sorted(shares, key=lambda name: (-sizes[name], name))[:_TOPICS_MEASURED_MAX]
        found = map_concurrently(
            lambda name: self._reach(start, seen[name], name, shares[name]), large
        )
        reaches = dict(zip(large, found, strict=True))
        return {
            name: min(takes[name], reaches.get(name) or max(1, size // max(1, means[name])))
            for name, size in shares.items()
        }

    def _reach(self, start: StreamPosition, topic: TopicState, name: str, size: int) -> int:
        """How many offsets so many bytes reach."""
        begin = next_of(start.topics.get(name), topic)
        found = with_retries(
            self._options.patience,
            lambda: client_for(self._options.servers).locate(
                name, times_ms=(), measures=[(begin, size)]
            ),
        )
        return max(1, found.reaches[0] - begin) if found.reaches else 1

    # ── What to read ──────────────────────────────────────────────────────────────────────────

    @hide_traceback
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Cut a batch into tasks; what it should read and nobody has any more is reported."""
        begins, ends = decode(start), decode(end)
        losses = [] if begins.is_initial else lost_with_topics(begins, ends)
        asked = ranges_between(begins, ends)
        has = current_states(self._options, sorted({one.topic for one in asked})) if asked else {}
        ranges, more = clamp(asked, has)
        report_losses(self._options, [*losses, *more])
        return [RangePartition(part) for part in split(ranges, ends.cut)]

    @hide_traceback_of_rows
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition, in a worker."""
        ranges = partition.ranges if isinstance(partition, RangePartition) else ()
        return read_ranges(self._options, ranges, self._schema)

    # ── What to tell the broker ───────────────────────────────────────────────────────────────

    @hide_traceback
    def commit(self, end: Offset) -> None:
        """Let the broker show how far we are; a broker that is away does not matter."""
        if self._options.reader is None:
            return
        moved = {
            name: spot
            for name, spot in decode(end).topics.items()
            if self._committed.get(name) != spot and self._watch.wants(name)
        }
        try:
            map_concurrently(lambda item: self._tell(*item), moved.items())
        except ClientError as error:
            _LOG.warning("the broker was not told how far %s is: %s", self._options.reader, error)
        else:
            self._committed |= moved

    def _tell(self, topic: str, spot: TopicPosition) -> None:
        client, reader = client_for(self._options.servers), self._options.reader or ""
        if (topic, spot.incarnation) not in self._grouped:
            client.create_group(topic, reader, start=spot.first, reader=True)
            self._grouped.add((topic, spot.incarnation))
        client.commit(topic, reader, spot.next)

    def stop(self) -> None:
        """Nothing is held that would not end with the process."""


def _mean(topic: TopicState) -> float:
    """Bytes of a message, about."""
    return topic.bytes / topic.messages if topic.messages else 0.0


def _rows_read(position: StreamPosition) -> int:
    """How many rows a stream has read so far: by this, topics take turns."""
    return sum(spot.next - spot.first for spot in position.topics.values())
