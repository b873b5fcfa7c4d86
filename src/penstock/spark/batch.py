"""A batch read: ranges are settled once, when the DataFrame is loaded, and stay what they are.

Spark asks for the partitions once per ``load()``. Every action on that DataFrame, or on one that is
derived from it, reads the same rows; who wants what came since loads again.
"""

import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.spark.history import FilesPart, LivePart, live_rows, plan, rows_of
from penstock.spark.loss import report
from penstock.spark.offsets import Cut, Range
from penstock.spark.options import SourceOptions
from penstock.spark.plain import plain_error, plain_rows
from penstock.spark.planning import clamp, split
from penstock.spark.reading import read_ranges
from penstock.spark.watch import Watch, resolve, tell_missing


class Part(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)


class BatchReader(DataSourceReader):
    """Reads from where the options say, up to where they say, as it was when it was loaded."""

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    @plain_error
    def partitions(self) -> Sequence[InputPartition]:
        """Settle the ranges, and cut them."""
        options = self._options
        cut = cut_of(options)
        if options.archive is not None:
            return plan(options, cut)
        return [Part(part) for part in split(plan_ranges(options), cut)]

    @plain_rows
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition; Spark makes an empty one of its own where there is none."""
        if isinstance(partition, FilesPart):
            return rows_of(self._options, partition, self._schema)
        if isinstance(partition, LivePart):
            return live_rows(self._options, partition, self._schema)
        ranges = partition.ranges if isinstance(partition, Part) else ()
        return read_ranges(self._options, ranges, self._schema)


def plan_ranges(options: SourceOptions) -> list[Range]:
    """The ranges that options mean right now, without what is gone, which is reported."""
    watch = Watch(options)
    watch.look()
    tell_missing(options, watch.topics)
    begins = resolve(options, options.start, watch.topics)
    ends = resolve(options, options.end, watch.topics)
    asked = [
        Range(name, topic.incarnation, begins[name], ends[name])
        for name, topic in sorted(watch.topics.items())
        if begins[name] < ends[name]
    ]
    ranges, losses = clamp(asked, watch.topics)
    report(options, losses)
    return ranges


def cut_of(options: SourceOptions) -> Cut:
    """What decides on the number of partitions, as of now."""
    return Cut(os.cpu_count() or 1, options.min_partitions, options.max_partition_rows)
