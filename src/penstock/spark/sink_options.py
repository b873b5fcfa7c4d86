"""The options of a write, parsed and checked before anything is written."""

from collections.abc import Mapping
from typing import Final
from uuid import uuid4

import msgspec

from penstock.client.queue.columns import CONTENT_TYPES
from penstock.errors import ConfigError
from penstock.limits import SINK_EPOCH_MAX, SINK_NOTE_BYTES_MAX
from penstock.model.stages import sink_fault
from penstock.spark.login import NAMES as LOGIN_NAMES
from penstock.spark.login import NO_LOGIN, BrokerLogin, login_of
from penstock.spark.options import check_names, normal, servers_of, topic_name
from penstock.spark.options_text import count_of, option_error, read_option

RANDOM: Final = "random"  # as a jobId: a unique one, so the job cannot be retried safely
TIMEOUT_MS: Final = 120_000  # long enough for a broker with a long journal to restart
_COMMON: Final = ("servers", *LOGIN_NAMES, "topic", "contentType", "timeoutMs")
_OF_STREAMS: Final = ("sink",)
_OF_JOBS: Final = ("jobId", "epoch", "note")


class SinkOptions(msgspec.Struct, frozen=True):
    """The options of both kinds of write; ``sink`` names a stream's sink, None: by query id."""

    servers: tuple[str, ...]
    topic: str | None = None
    content_type: int = 0
    timeout_s: float = TIMEOUT_MS / 1000
    sink: str | None = None
    login: BrokerLogin = NO_LOGIN


class BatchJob(msgspec.Struct, frozen=True):
    """Identifies a batch write."""

    sink: str
    epoch: int = 0
    note: bytes = b""
    is_random: bool = False  # the sink is never used again
    is_numbered: bool = False  # the epoch was given, as one of several


def read_options(options: Mapping[str, str], *, is_stream: bool) -> SinkOptions:
    check_names([name.lower() for name in options], (*_COMMON, *_OF_STREAMS, *_OF_JOBS))
    given = normal(options)
    _check_kind(given, is_stream)
    return SinkOptions(
        servers=servers_of(given),
        topic=read_option(given, "topic", topic_name, None),
        content_type=read_option(given, "contentType", _content_type, 0),
        timeout_s=read_option(given, "timeoutMs", count_of, TIMEOUT_MS) / 1000,
        sink=read_option(given, "sink", _sink, None),
        login=login_of(given),
    )


def batch_job(options: Mapping[str, str]) -> BatchJob:
    given = normal(options)
    job_id = given.get("jobid", "")
    if job_id == RANDOM:
        given["jobid"] = str(uuid4())
    if not job_id:
        raise ConfigError(
            "a batch write needs a jobId",
            'set option("jobId", "prices-2030-01-31"): running the same job again then publishes'
            f' nothing twice. With "{RANDOM}" every run publishes all rows again',
        )
    return BatchJob(
        sink=read_option(given, "jobId", lambda name: _sink(f"job/{name}"), ""),
        epoch=read_option(given, "epoch", _epoch, 0),
        note=read_option(given, "note", _note, b""),
        is_random=job_id == RANDOM,
        is_numbered="epoch" in given,
    )


def _check_kind(given: Mapping[str, str], is_stream: bool) -> None:
    for name in _OF_JOBS if is_stream else _OF_STREAMS:
        if name.lower() in given:
            kind = "batch" if is_stream else "streaming"
            advice = "the checkpoint identifies a stream" if is_stream else "set jobId instead"
            raise option_error(name, f"is for {kind} writes only", advice)


def _content_type(text: str) -> int:
    if text.lower() not in CONTENT_TYPES:
        raise ValueError(f"write one of {', '.join(CONTENT_TYPES)}")
    return CONTENT_TYPES.index(text.lower())


def _sink(name: str) -> str:
    fault = sink_fault(name.encode())
    if fault:
        raise ValueError(f"{fault}; use letters, digits, - and _")
    return name


def _epoch(text: str) -> int:
    epoch = count_of(text)
    if epoch > SINK_EPOCH_MAX:
        raise ValueError(f"the largest epoch is {SINK_EPOCH_MAX}")
    return epoch


def _note(text: str) -> bytes:
    note = text.encode()
    if len(note) > SINK_NOTE_BYTES_MAX:
        raise ValueError(f"at most {SINK_NOTE_BYTES_MAX} bytes")
    return note
