"""The options of a write, read and checked before anything is written.

Names are taken without regard to case, as Spark does. One that we do not know is refused: a typo
would be a setting that is silently not there. What Spark itself adds is passed over.
"""

from collections.abc import Mapping
from typing import Final
from uuid import uuid4

import msgspec

from penstock.client.queue.columns import CONTENT_TYPES
from penstock.errors import ConfigError
from penstock.limits import SINK_EPOCH_MAX, SINK_NOTE_BYTES_MAX
from penstock.model.stages import sink_fault
from penstock.spark.options import (
    check_names,
    count_of,
    normal,
    option_error,
    read_option,
    servers_of,
    topic_name,
)

RANDOM: Final = "random"
"""As a ``jobId``: one that nobody has, so that the job cannot be repeated."""

TIMEOUT_MS: Final = 120_000
"""A broker that is restarted is back by then, even one with a long journal."""

_COMMON: Final = ("servers", "topic", "contentType", "timeoutMs")
_OF_STREAMS: Final = ("sink",)
_OF_JOBS: Final = ("jobId", "epoch", "note")


class SinkOptions(msgspec.Struct, frozen=True):
    """What batch and stream have in common, and the name of a stream's sink, None for Spark's."""

    servers: tuple[str, ...]
    topic: str | None = None
    content_type: int = 0
    timeout_s: float = TIMEOUT_MS / 1000
    sink: str | None = None


class BatchJob(msgspec.Struct, frozen=True):
    """What a batch write is known by."""

    sink: str
    epoch: int = 0
    note: bytes = b""
    is_random: bool = False
    """Nobody will ask for this sink again."""
    is_numbered: bool = False
    """The epoch was given: it is one of several."""


def read_options(options: Mapping[str, str], *, is_stream: bool) -> SinkOptions:
    """Read what counts for both kinds of write, and refuse what belongs to the other kind."""
    check_names([name.lower() for name in options], (*_COMMON, *_OF_STREAMS, *_OF_JOBS))
    given = normal(options)
    _check_kind(given, is_stream)
    return SinkOptions(
        servers=servers_of(given),
        topic=read_option(given, "topic", topic_name, None),
        content_type=read_option(given, "contentType", _content_type, 0),
        timeout_s=read_option(given, "timeoutMs", count_of, TIMEOUT_MS) / 1000,
        sink=read_option(given, "sink", _sink, None),
    )


def job_of(options: Mapping[str, str]) -> BatchJob:
    """Read what a batch write is known by."""
    given = normal(options)
    job_id = given.get("jobid", "")
    if not job_id:
        raise ConfigError(
            "a batch write needs a jobId",
            'option("jobId", "prices-2030-01-31") makes it harmless to run this again: what is'
            f' published under that name is published once. "{RANDOM}" gives one that is never'
            " used again: then a repetition publishes everything again",
        )
    return BatchJob(
        sink=read_option(given, "jobId", _job_sink, ""),
        epoch=read_option(given, "epoch", _epoch, 0),
        note=read_option(given, "note", _note, b""),
        is_random=job_id == RANDOM,
        is_numbered="epoch" in given,
    )


def _check_kind(given: Mapping[str, str], is_stream: bool) -> None:
    for name in _OF_JOBS if is_stream else _OF_STREAMS:
        if name.lower() in given:
            kind = "batch" if is_stream else "streaming"
            advice = "a stream is known by its checkpoint" if is_stream else "give a jobId instead"
            raise option_error(name, f"is for {kind} writes only", advice)


# ── Values ────────────────────────────────────────────────────────────────────────────────────


def _content_type(text: str) -> int:
    for number, name in enumerate(CONTENT_TYPES):
        if name == text.lower():
            return number
    raise ValueError(f"write one of {', '.join(CONTENT_TYPES)}")


def _sink(name: str) -> str:
    """A sink's name is part of the name of a topic."""
    fault = sink_fault(name.encode())
    if fault:
        raise ValueError(f"{fault}; letters, digits, - and _ are safe")
    return name


def _job_sink(job_id: str) -> str:
    return _sink(f"job/{uuid4() if job_id == RANDOM else job_id}")


def _epoch(text: str) -> int:
    epoch = count_of(text)
    if epoch > SINK_EPOCH_MAX:
        raise ValueError(f"{SINK_EPOCH_MAX} is the last one")
    return epoch


def _note(text: str) -> bytes:
    note = text.encode()
    if len(note) > SINK_NOTE_BYTES_MAX:
        raise ValueError(f"it may have {SINK_NOTE_BYTES_MAX} bytes")
    return note
