"""The writers of the data source ``penstock``: each row is published exactly once.

A task sends its rows to the broker, which stores them invisibly as a **part** of that attempt. When
all tasks are done, the driver names the parts that count, and the broker publishes them as one
**epoch** of a **sink**, once. So no retry publishes a row twice: other parts are dropped with the
epoch, and a batch that runs again finds its epoch published. An earlier epoch is refused: the
checkpoint or the job went back.

A stream's sink is named after the query id, a batch write's after its ``jobId``. A query need not
compute the same rows when it runs again: one attempt is published, as a whole.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from math import ceil
from secrets import token_hex
from time import monotonic
from typing import Final

from pyarrow import RecordBatch
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from penstock.client.errors import ClientError
from penstock.client.queue.blocking import QueueClient
from penstock.client.queue.values import StageCommitted
from penstock.errors import ConfigError, PenstockError
from penstock.spark.blocks import Blocks
from penstock.spark.broker import CALL_S, client_for, with_retries
from penstock.spark.identity import batch_of_task, query_of_task, this_task
from penstock.spark.login import login_of
from penstock.spark.options import RetryPolicy
from penstock.spark.sink_options import BatchJob, SinkOptions, batch_job, read_options
from penstock.spark.sink_schema import Layout, layout_of
from penstock.spark.staging import SinkEpoch, StagedPart, stage
from penstock.spark.tracebacks import hide_traceback

log: Final = logging.getLogger("penstock.spark")
_JOB_ADVICE: Final = "if it was published earlier, nothing is left to do; otherwise use a new jobId"
_STREAM_ADVICE: Final = (
    "the checkpoint is older than what was published from it, or two drivers use it: start a new"
    " checkpoint after the last published row"
)


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """A task's message to the driver: the part that it staged."""

    target: SinkEpoch
    partition: int
    part: str
    blocks: int
    rows: int
    query: str = ""


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> "BatchWriter":
    _check_append(overwrite, 'mode("append")')
    read = read_options(options, is_stream=False)
    layout = layout_of(schema, has_topic=read.topic is not None)
    return BatchWriter(read, layout, batch_job(options))


def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> "StreamWriter":
    _check_append(overwrite, 'outputMode("append") or outputMode("update")')
    read = read_options(options, is_stream=True)
    return StreamWriter(read, layout_of(schema, has_topic=read.topic is not None))


def _check_append(overwrite: bool, instead: str) -> None:
    if overwrite:
        raise ConfigError("published messages cannot be replaced", f"write with {instead}")


def last_epoch(servers: Sequence[str] | str, sink: str) -> tuple[int | None, bytes]:
    addresses = servers.split(",") if isinstance(servers, str) else servers
    found = client_for(tuple(addresses), login_of({})).sinks(sink)
    return (found[0].epoch, found[0].note) if found else (None, b"")


class _Sink:
    """The broker calls of both writers: tasks stage, the driver commits or aborts."""

    def __init__(self, options: SinkOptions, layout: Layout) -> None:
        self.options = options
        self._layout = layout
        self._retry = RetryPolicy(retries=max(ceil(options.timeout_s / CALL_S), 1) - 1)

    def client(self) -> QueueClient:
        return client_for(self.options.servers, self.options.login)

    def stage(self, target: SinkEpoch, batches: Iterable[RecordBatch], query: str = "") -> Staged:
        task = this_task()
        part = StagedPart(target, f"{task.partition}-{task.attempt}-{token_hex(4)}")
        rows = Blocks(self._layout, self.options.topic, self.options.content_type)
        client = with_retries(self._retry, self.client)
        try:
            blocks = chain(chain.from_iterable(map(rows.add, batches)), rows.finish())
            count = stage(client, self._retry, part, blocks)
        except BaseException:
            with suppress(ClientError):  # otherwise it is dropped with the epoch, or expires
                client.abort_stage(*target, [part.name])
            raise
        return Staged(target, task.partition, part.name, count, rows.rows, query)

    def commit(self, messages: Sequence[Staged], note: bytes) -> StageCommitted:
        """Publish what was staged, in the table's order; the result tells whether it was before."""
        target = messages[0].target
        ordered = sorted(messages, key=lambda staged: staged.partition)
        parts = [(staged.part, staged.blocks) for staged in ordered if staged.blocks]
        began = monotonic()
        done = with_retries(
            self._retry, lambda: self.client().commit_stage(*target, parts, note=note)
        )
        if not done.is_repetition:
            log.info(
                "published %s: %d messages in %.1f s", target, done.messages, monotonic() - began
            )
        elif done.epoch == target.epoch:
            log.warning(
                "%s was already published, with %d messages; these %d rows are dropped",
                *(target, done.messages, sum(staged.rows for staged in messages)),
            )
        return done

    def abort(self, targets: Iterable[SinkEpoch]) -> None:
        """Drop what was staged; an unreachable broker must not hide the error of the query."""
        for target in targets:
            try:
                self.client().abort_stage(*target, [])
            except ClientError as error:
                log.warning("%s stays staged until it expires: %s", target, error)

    def check_query(self, target: SinkEpoch, query: bytes) -> None:
        """Refuse to continue another query's epochs: they would count as published and be lost."""
        found = with_retries(self._retry, lambda: self.client().sinks(target.sink))
        if found and found[0].note != query:
            raise PenstockError(
                f"sink {target.sink} belongs to another query or another checkpoint (last epoch"
                f" {found[0].epoch}): nothing was published",
                f"choose another sink name, or run: penstock spark sinks forget {target.sink}",
            )


def _all_staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    staged = [message for message in messages if isinstance(message, Staged)]
    if len(staged) != len(messages) or len({message.target for message in staged}) > 1:
        raise PenstockError(
            "Spark committed tasks that have not ended, or that belong to different batches"
        )
    return staged


def _check_order(target: SinkEpoch, done: StageCommitted, advice: str) -> None:
    if done.epoch > target.epoch:
        raise PenstockError(
            f"sink {target.sink} has already published epoch {done.epoch}, which is after"
            f" {target.epoch}: nothing was published",
            advice,
        )


class BatchWriter(DataSourceArrowWriter):
    """``df.write``: one epoch of the sink named after the job."""

    def __init__(self, options: SinkOptions, layout: Layout, job: BatchJob) -> None:
        self._sink = _Sink(options, layout)
        self._job = job
        self._place = SinkEpoch(job.sink, job.epoch)

    @hide_traceback
    def write(self, iterator: Iterator[RecordBatch]) -> Staged:
        return self._sink.stage(self._place, iterator, query_of_task())

    @hide_traceback
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish once; in ``foreachBatch`` epochs restart at 0, so the query id is the note."""
        staged = _all_staged(messages)
        query = staged[0].query.encode() if staged and self._job.is_numbered else b""
        if staged:
            done = self._sink.commit(staged, self._job.note or query)
            if query and not self._job.note:
                self._sink.check_query(self._place, query)
            _check_order(self._place, done, _JOB_ADVICE)
        if self._job.is_random:
            with suppress(ClientError):  # only leaves an unused name
                self._sink.client().forget_sink(self._place.sink)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - Spark's
        self._sink.abort([self._place])


class StreamWriter(DataSourceStreamArrowWriter):
    """``df.writeStream``: a sink named after the query, with one epoch per batch."""

    def __init__(self, options: SinkOptions, layout: Layout) -> None:
        self._sink = _Sink(options, layout)

    @hide_traceback
    def write(self, iterator: Iterator[RecordBatch]) -> Staged:
        batch = batch_of_task()
        sink = self._sink.options.sink or f"spark/{batch.query}"
        return self._sink.stage(SinkEpoch(sink, batch.epoch), iterator, batch.query)

    @hide_traceback
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        staged = _all_staged(messages)
        if not staged:
            return
        target, query = staged[0].target, staged[0].query.encode()
        if target.epoch != batchId:
            raise PenstockError(f"Spark committed batch {batchId}, but wrote {target}")
        done = self._sink.commit(staged, query)
        if self._sink.options.sink is not None:
            self._sink.check_query(target, query)
        _check_order(target, done, _STREAM_ADVICE)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Drop what was staged. If no task ended, the epoch is unknown, and it expires later."""
        self._sink.abort({staged.target for staged in messages if isinstance(staged, Staged)})
