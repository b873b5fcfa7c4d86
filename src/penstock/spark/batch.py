"""Batch reads: the ranges are fixed when the DataFrame is loaded; to see newer rows, load again."""

import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.spark.data_loss import report_losses
from penstock.spark.history import FilesPartition, LivePartition, live_rows, plan, rows_of
from penstock.spark.offsets import OffsetRange, Partitioning
from penstock.spark.options import SourceOptions
from penstock.spark.planning import clamp, split
from penstock.spark.reading import read_ranges
from penstock.spark.topic_watch import TopicWatch, resolve_offsets, warn_missing_topics
from penstock.spark.tracebacks import hide_traceback, hide_traceback_of_rows


class RangePartition(InputPartition):
    """The ranges that one task reads."""

    def __init__(self, ranges: Sequence[OffsetRange]) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)


class BatchReader(DataSourceReader):
    """Reads the ranges that the options select, as of the time of loading."""

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    @hide_traceback
    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        cut = partitioning_of(options)
        if options.archive is not None:
            return plan(options, cut)
        return [RangePartition(part) for part in split(plan_ranges(options), cut)]

    @hide_traceback_of_rows
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition; if there is none, Spark passes an empty one of its own."""
        if isinstance(partition, FilesPartition):
            return rows_of(self._options, partition, self._schema)
        if isinstance(partition, LivePartition):
            return live_rows(self._options, partition, self._schema)
        ranges = partition.ranges if isinstance(partition, RangePartition) else ()
        return read_ranges(self._options, ranges, self._schema)


def plan_ranges(options: SourceOptions) -> list[OffsetRange]:
    watch = TopicWatch(options)
    watch.refresh()
    warn_missing_topics(options, watch.topics)
    begins = resolve_offsets(options, options.start, watch.topics)
    ends = resolve_offsets(options, options.end, watch.topics)
    asked = [
        OffsetRange(name, topic.incarnation, begins[name], ends[name])
        for name, topic in sorted(watch.topics.items())
        if begins[name] < ends[name]
    ]
    ranges, losses = clamp(asked, watch.topics)
    report_losses(options, losses)
    return ranges


def partitioning_of(options: SourceOptions) -> Partitioning:
    return Partitioning(os.cpu_count() or 1, options.min_partitions, options.max_partition_rows)
