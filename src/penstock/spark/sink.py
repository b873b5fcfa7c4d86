"""Tables become messages: the writers of the data source ``penstock``, each row exactly once.

**Staged commit.** A task sends its rows to the broker, which keeps them where nobody sees them, as
the **part** of that attempt. When all tasks are done, the driver names the parts that count, and
the broker publishes those, as the **epoch** of a **sink**; an epoch that it has published before is
left as it is. So nothing that Spark repeats is published twice:

==========================  =======================================================================
a task tried again          another part; the first is not named, and dropped with the epoch
two attempts at once        two parts; the driver names the one whose message Spark kept
a driver that is killed     the batch runs again under the same number; if it was published, that
                            is found when it is committed, and what it staged again is dropped
a commit without an answer  it is asked for again
an earlier epoch            refused: Spark repeats the last batch alone, so this is a checkpoint or
                            a job that has gone back, and nobody knows whether it was published
==========================  =======================================================================

A stream's sink is named after the query, whose id the checkpoint keeps, and its epochs are the
batches. A batch write is named by its ``jobId``. None of it asks that a query computes the same
rows when it runs again: what is published is one attempt, whole.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
from penstock.spark.options import RetryPolicy
from penstock.spark.sink_options import BatchJob, SinkOptions, job_of, read_options
from penstock.spark.sink_schema import Layout, layout_of
from penstock.spark.staging import SinkEpoch, StagedPart, stage
from penstock.spark.tracebacks import hide_traceback

log: Final = logging.getLogger("penstock.spark")

_JOB_ADVICE: Final = (
    "if it was published in its time, nothing is left to do; if not, give it a jobId of its own"
)
_STREAM_ADVICE: Final = (
    "the checkpoint is older than what was published from it, or two drivers use it: begin a new"
    " one where the rows end that were published"
)


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What a task tells the driver: which part it was, and of what."""

    place: SinkEpoch
    partition: int
    part: str
    blocks: int
    rows: int
    query: str = ""


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> "BatchWriter":
    """The writer of ``df.write``; ``ConfigError`` says what is wrong with options or columns."""
    _check_append(overwrite, 'mode("append")')
    read = read_options(options, is_stream=False)
    return BatchWriter(read, layout_of(schema, has_topic=read.topic is not None), job_of(options))


def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> "StreamWriter":
    """The writer of ``df.writeStream``."""
    _check_append(overwrite, 'outputMode("append") or outputMode("update")')
    read = read_options(options, is_stream=True)
    return StreamWriter(read, layout_of(schema, has_topic=read.topic is not None))


def _check_append(overwrite: bool, instead: str) -> None:
    if overwrite:
        raise ConfigError(
            "messages that were published cannot be replaced by others", f"write with {instead}"
        )


def last_epoch(servers: Sequence[str] | str, sink: str) -> tuple[int | None, bytes]:
    """The last epoch of a sink that was published, None if none was, and the note it came with."""
    addresses = servers.split(",") if isinstance(servers, str) else servers
    found = client_for(tuple(addresses)).sinks(sink)
    return (found[0].epoch, found[0].note) if found else (None, b"")


class _Sink:
    """What both writers do with the broker: stage in tasks, commit or abort in the driver."""

    def __init__(self, options: SinkOptions, layout: Layout) -> None:
        self.options = options
        self._layout = layout
        self._patience = RetryPolicy(retries=max(ceil(options.timeout_s / CALL_S), 1) - 1)

    def client(self) -> QueueClient:
        """Our connection in this process."""
        return client_for(self.options.servers)

    def stage(self, place: SinkEpoch, batches: Iterable[RecordBatch], query: str = "") -> Staged:
        """Stage all rows of this task; returns when the broker's disk has them."""
        task = this_task()
        part = StagedPart(place, f"{task.partition}-{task.attempt}-{token_hex(4)}")
        rows = Blocks(self._layout, self.options.topic, self.options.content_type)
        client = with_retries(self._patience, self.client)
        try:
            count = stage(client, self._patience, part, _blocks(rows, batches))
        except BaseException:
            with suppress(ClientError):  # else it goes with the epoch, or in a day
                client.abort_stage(*place, [part.name])
            raise
        return Staged(place, task.partition, part.name, count, rows.rows, query)

    def commit(self, messages: Sequence[Staged], note: bytes) -> StageCommitted:
        """Publish what was staged; tells whether that had been done before.

        Parts come in the order of partitions, so a topic has its messages in the table's order. To
        ask twice is harmless, so it is asked until there is an answer.
        """
        place = messages[0].place
        parts = [
            (staged.part, staged.blocks)
            for staged in sorted(messages, key=lambda staged: staged.partition)
            if staged.blocks
        ]
        began = monotonic()
        done = with_retries(
            self._patience, lambda: self.client().commit_stage(*place, parts, note=note)
        )
        if not done.is_repetition:
            log.info(
                "published epoch %d of sink %s: %d messages in %.1f s",
                *(place.epoch, place.sink, done.messages, monotonic() - began),
            )
        elif done.epoch == place.epoch:
            log.warning(
                "%s has been published already, with %d messages: these %d rows are not",
                *(_words(place), done.messages, sum(staged.rows for staged in messages)),
            )
        return done

    def abort(self, places: Iterable[SinkEpoch]) -> None:
        """Drop what was staged. If it was published after all, the broker leaves it as it is.

        Spark does this when the query fails, and that is what its user should be told, not that
        the broker could not be reached either.
        """
        for place in places:
            try:
                self.client().abort_stage(*place, [])
            except ClientError as error:
                log.warning("%s stays staged for now: %s", _words(place), error)

    def check_query(self, place: SinkEpoch, query: bytes) -> None:
        """Refuse to take another query's epochs for ours: a new checkpoint begins at 0 again.

        Each commit leaves the query's id with the sink. Without this check, the batches of a query
        that was given the sink of another one would count as published, and be lost in silence.
        """
        found = with_retries(self._patience, lambda: self.client().sinks(place.sink))
        if found and found[0].note != query:
            raise PenstockError(
                f"sink {place.sink} has epochs up to {found[0].epoch} by another query, or by this"
                " one with another checkpoint: nothing was published",
                f"choose another name, or none, or run: penstock spark sinks forget {place.sink}",
            )


def _blocks(rows: Blocks, batches: Iterable[RecordBatch]) -> Iterator[bytes]:
    for batch in batches:
        yield from rows.add(batch)
    yield from rows.finish()


def _all_staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    staged = [message for message in messages if isinstance(message, Staged)]
    if len(staged) != len(messages) or len({message.place for message in staged}) > 1:
        raise PenstockError("Spark commits tasks that have not ended, or of different batches")
    return staged


def _check_order(place: SinkEpoch, done: StageCommitted, advice: str) -> None:
    """Refuse to take an epoch for published only because a later one is."""
    if done.epoch > place.epoch:
        raise PenstockError(
            f"sink {place.sink} has published epoch {done.epoch}, and {place.epoch} is before that:"
            " nothing was published now",
            advice,
        )


def _words(place: SinkEpoch) -> str:
    return f"epoch {place.epoch} of sink {place.sink}"


# ── Writers ───────────────────────────────────────────────────────────────────────────────────


class BatchWriter(DataSourceArrowWriter):
    """``df.write``: one epoch of the sink that is named after the job."""

    def __init__(self, options: SinkOptions, layout: Layout, job: BatchJob) -> None:
        self._sink = _Sink(options, layout)
        self._job = job
        self._place = SinkEpoch(job.sink, job.epoch)

    @hide_traceback
    def write(self, iterator: Iterator[RecordBatch]) -> Staged:
        """Stage the rows of one task."""
        return self._sink.stage(self._place, iterator, query_of_task())

    @hide_traceback
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the job's rows, unless that has been done.

        In ``foreachBatch`` epochs are batches of a query, and begin at 0 again with its checkpoint.
        So the query's id is noted then, as with a stream.
        """
        staged = _all_staged(messages)
        query = staged[0].query.encode() if staged and self._job.is_numbered else b""
        if staged:
            done = self._sink.commit(staged, self._job.note or query)
            if query and not self._job.note:
                self._sink.check_query(self._place, query)
            _check_order(self._place, done, _JOB_ADVICE)
        if self._job.is_random:
            with suppress(ClientError):  # a name more than need be
                self._sink.client().forget_sink(self._place.sink)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - Spark's
        """Drop what was staged."""
        self._sink.abort([self._place])


class StreamWriter(DataSourceStreamArrowWriter):
    """``df.writeStream``: a sink that is named after the query, with an epoch for each batch.

    Spark makes a new one for each batch, and another for its commit, which knows the query by what
    the tasks say.
    """

    def __init__(self, options: SinkOptions, layout: Layout) -> None:
        self._sink = _Sink(options, layout)

    @hide_traceback
    def write(self, iterator: Iterator[RecordBatch]) -> Staged:
        """Stage the rows of one task."""
        batch = batch_of_task()
        sink = self._sink.options.sink or f"spark/{batch.query}"
        return self._sink.stage(SinkEpoch(sink, batch.epoch), iterator, batch.query)

    @hide_traceback
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Publish the batch, unless that was done in an earlier life of the driver."""
        staged = _all_staged(messages)
        if not staged:
            return
        place, query = staged[0].place, staged[0].query.encode()
        if place.epoch != batchId:
            raise PenstockError(f"Spark commits batch {batchId}, but wrote {_words(place)}")
        done = self._sink.commit(staged, query)
        if self._sink.options.sink is not None:
            self._sink.check_query(place, query)
        _check_order(place, done, _STREAM_ADVICE)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Drop what was staged; if no task has ended, nobody knows of what, and it goes in time."""
        self._sink.abort({staged.place for staged in messages if isinstance(staged, Staged)})
