"""Every request of the protocol as a ``QueueCall``: the request, and how its answer is read.

One function per request, named as in ``queue.proto``. Arguments are checked here (``checks``),
before anything is sent.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol, TypeVar, Unpack

import msgspec

from penstock.client.errors import ArgumentError
from penstock.client.queue.checks import (
    U64_MAX,
    choice,
    count,
    header_pairs,
    milliseconds,
    name,
    rate,
    span_milliseconds,
    text,
    wrong_type,
)
from penstock.client.queue.columns import CONTENT_TYPES
from penstock.client.queue.session import QueueCall, refusal
from penstock.client.queue.values import (
    AckMode,
    ContentType,
    Group,
    Headers,
    Job,
    LeaseKeywords,
    MessageKeywords,
    RegisteredKey,
    Result,
    ScanRange,
    SinkStatus,
    Start,
    Stats,
    Topic,
)
from penstock.limits import SINK_EPOCH_MAX
from penstock.model.message import PRIORITY_MAX
from penstock.wire.queue._generated import queue_pb2 as wire

S = TypeVar("S", bound=msgspec.Struct)

_NUMBER_OF_TYPE: Final = {name: number for number, name in enumerate(CONTENT_TYPES)}

COMMIT_WAIT_S: Final = 10.0  # after this time the broker answers that a commit is under way

_ENDS: Final = {"earliest": wire.EARLIEST, "latest": wire.LATEST}


class _NamesGroup(Protocol):
    """A request about a group of a topic."""

    topic: str
    group: str


G = TypeVar("G", bound=_NamesGroup)


def _of_group(asked: G, topic: str, group: str) -> G:
    asked.topic, asked.group = name("topic", topic), name("group", group)
    return asked


def _set_start(asked: wire.Poll | wire.Subscribe | wire.CreateGroup, start: Start) -> None:
    if isinstance(start, datetime):
        asked.start = wire.TIME
        asked.start_value = milliseconds("start", start.timestamp())
    elif isinstance(start, str):
        asked.start = _ENDS[choice("start", start, _ENDS)]
    else:
        asked.start = wire.OFFSET
        asked.start_value = count("start", start, most=U64_MAX)


def _ok(request: wire.Request) -> QueueCall[None]:
    return QueueCall(request, "ok", lambda _answer: None)


def _about_leases(request: wire.Request) -> QueueCall[list[int]]:
    """A request that is answered with the leases that had expired."""
    return QueueCall(request, "ok", lambda answer: list(answer.ok.lapsed))


# ── Producing ─────────────────────────────────────────────────────────────────────────────────


def produce(
    topic: str, payload: bytes, producer_id: str, seq: int, **settings: Unpack[MessageKeywords]
) -> QueueCall[int]:
    request = wire.Request()
    asked = request.produce
    asked.topic, asked.payload, asked.producer_id, asked.seq = topic, payload, producer_id, seq
    if settings:
        _describe(asked, **settings)
    return QueueCall(request, "produced", _offset)


def produce_many(
    topic: str,
    payloads: Sequence[bytes],
    producer_id: str,
    seq: int,
    **settings: Unpack[MessageKeywords],
) -> QueueCall[list[Result]]:
    """Messages with consecutive seqs from ``seq``."""
    request = wire.Request()
    asked = request.produce_many
    asked.topic, asked.producer_id, asked.seq = topic, producer_id, seq
    asked.payloads.extend(payloads)
    _describe(asked, **settings)
    return QueueCall(
        request, "produced_many", lambda answer: _results(answer.produced_many, len(payloads))
    )


def _describe(
    asked: wire.Produce | wire.ProduceMany,
    *,
    priority: int = 0,
    content_type: ContentType = "raw",
    delay_s: float = 0.0,
    ttl_s: float | None = None,
    headers: dict[str, bytes] | Headers | None = None,
) -> None:
    asked.priority = count("priority", priority, most=PRIORITY_MAX)
    asked.content_type = _NUMBER_OF_TYPE[choice("content_type", content_type, _NUMBER_OF_TYPE)]
    asked.delay_ms = milliseconds("delay_s", delay_s)
    asked.ttl_ms = milliseconds("ttl_s", ttl_s or 0)
    for header, value in header_pairs(headers or ()):
        asked.headers.add(name=header, value=value)


def _offset(answer: wire.Response) -> int:
    return answer.produced.offset


def _results(answer: wire.ProducedMany, produced: int) -> list[Result]:
    """Assign offsets: stretches cover the messages that were not refused, in their order."""
    offsets = (
        offset
        for stretch in answer.stretches
        for offset in range(stretch.offset, stretch.offset + stretch.count)
    )
    if not answer.refusals:
        return [Result(offset) for offset in offsets]
    refused = {one.index: refusal(one.error) for one in answer.refusals}
    return [
        Result(None, refused[index]) if index in refused else Result(next(offsets))
        for index in range(produced)
    ]


# ── Consuming ─────────────────────────────────────────────────────────────────────────────────


def poll(
    topic: str,
    group: str,
    wait_s: float,
    *,
    max: int = 16,  # noqa: A002 - its name in the protocol
    **lease: Unpack[LeaseKeywords],
) -> QueueCall[list[Job]]:
    """Lease jobs, or wait for some; not repeated where a repetition would lose messages."""
    asked = _of_group(wire.Poll(), topic, group)
    asked.wait_ms = milliseconds("wait_s", wait_s)
    asked.max = count("max", max, 1)
    _set_lease(asked, **lease)
    return QueueCall(
        wire.Request(poll=asked),
        "polled",
        lambda answer: jobs_of(answer.polled, topic, group),
        repeats=asked.ack_mode == "manual",
        grace_s=wait_s,
    )


def subscribe(
    topic: str, group: str, concurrency: int, **lease: Unpack[LeaseKeywords]
) -> wire.Request:
    """Start a push connection; it is answered by messages only."""
    asked = _of_group(wire.Subscribe(), topic, group)
    asked.prefetch = count("concurrency", concurrency, 1)
    _set_lease(asked, **lease)
    return wire.Request(subscribe=asked)


def _set_lease(
    asked: wire.Poll | wire.Subscribe,
    *,
    visibility_s: float = 30.0,
    ack_mode: AckMode = "manual",
    start: Start = "earliest",
) -> None:
    asked.visibility_timeout_ms = span_milliseconds("visibility_s", visibility_s)
    asked.ack_mode = choice("ack_mode", ack_mode, ("manual", "auto"))
    _set_start(asked, start)


def jobs_of(answer: wire.Polled, topic: str, group: str) -> list[Job]:
    return [
        Job(
            topic,
            group,
            item.lease_id,
            item.offset,
            item.payload,
            item.priority,
            CONTENT_TYPES[item.content_type & 0b11],
            item.ts_ms,
            item.redeliveries,
            tuple((header.name, header.value) for header in item.headers),
        )
        for item in answer.items
    ]


def ack_many(topic: str, group: str, lease_ids: Iterable[int]) -> QueueCall[list[int]]:
    asked = _of_group(wire.AckMany(lease_ids=lease_ids), topic, group)
    return _about_leases(wire.Request(ack_many=asked))


def nack_many(
    topic: str,
    group: str,
    lease_ids: Iterable[int],
    delay_s: float = 0.0,
    reason: str = "",
    *,
    dead_letter: bool = False,
) -> QueueCall[list[int]]:
    asked = _of_group(wire.NackMany(lease_ids=lease_ids), topic, group)
    asked.delay_ms = milliseconds("delay_s", delay_s)
    asked.reason = text("reason", reason)
    asked.dead_letter = dead_letter
    return _about_leases(wire.Request(nack_many=asked))


def extend(
    topic: str, group: str, lease_ids: Iterable[int], visibility_s: float
) -> QueueCall[list[int]]:
    asked = _of_group(wire.Extend(lease_ids=lease_ids), topic, group)
    asked.visibility_timeout_ms = span_milliseconds("visibility_s", visibility_s)
    return _about_leases(wire.Request(extend=asked))


def commit(topic: str, group: str, offset: int) -> QueueCall[None]:
    asked = _of_group(wire.Commit(), topic, group)
    asked.offset = count("offset", offset, most=U64_MAX)
    return _ok(wire.Request(commit=asked))


# ── Topics and groups ─────────────────────────────────────────────────────────────────────────


def configure_topic(
    topic: str,
    *,
    rate_per_sec: float | None = None,
    burst: int | None = None,
    max_messages: int | None = None,
    max_age_s: float | None = None,
    max_bytes: int | None = None,
    keep: bool | None = None,
) -> QueueCall[None]:
    asked = wire.ConfigureTopic(topic=name("topic", topic))
    if rate_per_sec is not None:
        asked.rate_per_sec = rate("rate_per_sec", rate_per_sec)
    if burst is not None:
        asked.burst = count("burst", burst)
    if max_messages is not None:
        asked.max_messages = count("max_messages", max_messages, most=U64_MAX)
    if max_age_s is not None:
        asked.max_age_ms = milliseconds("max_age_s", max_age_s)
    if max_bytes is not None:
        asked.max_bytes = count("max_bytes", max_bytes, most=U64_MAX)
    if keep is not None:
        asked.keep = keep
    return _ok(wire.Request(configure_topic=asked))


def delete_topic(topic: str) -> QueueCall[None]:
    return _ok(wire.Request(delete_topic=wire.DeleteTopic(topic=name("topic", topic))))


def set_rate_limit(topic: str, rate_per_sec: float, burst: int) -> QueueCall[None]:
    asked = wire.SetRateLimit(
        topic=name("topic", topic),
        rate_per_sec=rate("rate_per_sec", rate_per_sec),
        burst=count("burst", burst),
    )
    return _ok(wire.Request(set_rate_limit=asked))


def set_retention(
    topic: str, max_messages: int, max_age_s: float, max_bytes: int
) -> QueueCall[None]:
    asked = wire.SetRetention(
        topic=name("topic", topic),
        max_messages=count("max_messages", max_messages, most=U64_MAX),
        max_age_ms=milliseconds("max_age_s", max_age_s),
        max_bytes=count("max_bytes", max_bytes, most=U64_MAX),
    )
    return _ok(wire.Request(set_retention=asked))


def create_group(
    topic: str, group: str, start: Start, *, seek: bool = False, reader: bool = False
) -> QueueCall[None]:
    """Create a group; ``seek`` moves one that exists."""
    asked = _of_group(wire.CreateGroup(seek=seek, reader=reader), topic, group)
    _set_start(asked, start)
    return _ok(wire.Request(create_group=asked))


def delete_group(topic: str, group: str) -> QueueCall[None]:
    return _ok(wire.Request(delete_group=_of_group(wire.DeleteGroup(), topic, group)))


def configure_group(
    topic: str,
    group: str,
    *,
    max_deliveries: int | None = None,
    backoff_s: float | None = None,
    backoff_max_s: float | None = None,
) -> QueueCall[None]:
    asked = _of_group(wire.ConfigureGroup(), topic, group)
    if max_deliveries is not None:
        asked.max_deliveries = count("max_deliveries", max_deliveries)
    if backoff_s is not None:
        asked.backoff_ms = milliseconds("backoff_s", backoff_s)
    if backoff_max_s is not None:
        asked.backoff_max_ms = milliseconds("backoff_max_s", backoff_max_s)
    if 0 < asked.backoff_max_ms < asked.backoff_ms:
        raise ArgumentError(
            f"backoff_max_s is {backoff_max_s}, and backoff_s {backoff_s}",
            "the longest pause cannot be less than the first; a backoff_max_s of 0 is no limit",
        )
    return _ok(wire.Request(configure_group=asked))


def redrive(topic: str, group: str, max: int) -> QueueCall[int]:  # noqa: A002 - as in ``poll``
    """Return dead letters to their topic; a repetition could exceed ``max``."""
    asked = _of_group(wire.Redrive(max=count("max", max)), topic, group)
    return QueueCall(
        wire.Request(redrive=asked),
        "redriven",
        lambda answer: answer.redriven.count,
        repeats=max == 0,
    )


def list_topics(prefix: str, after: str = "") -> QueueCall[tuple[list[Topic], bool]]:
    """Ask for a page of topics; the answer also tells whether there are more."""
    return _topics(wire.ListTopics(prefix=text("prefix", prefix), after=after))


def find_topic(topic: str) -> QueueCall[tuple[list[Topic], bool]]:
    return _topics(wire.ListTopics(name=name("name", topic)))


def _topics(asked: wire.ListTopics) -> QueueCall[tuple[list[Topic], bool]]:
    return QueueCall(
        wire.Request(list_topics=asked),
        "topics",
        lambda answer: _page(Topic, answer.topics.topics, more=answer.topics.more),
    )


def list_groups(topic: str, after: Group | None) -> QueueCall[tuple[list[Group], bool]]:
    asked = wire.ListGroups(topic=text("topic", topic))
    if after is not None:
        asked.after_topic, asked.after_group = after.topic, after.name
    return QueueCall(
        wire.Request(list_groups=asked),
        "groups",
        lambda answer: _page(Group, answer.groups.groups, more=answer.groups.more),
    )


def fetch(
    topic: str,
    offset: int,
    end_offset: int,
    max_messages: int,
    max_bytes: int,
    *,
    columns: int = 0,
) -> QueueCall[wire.Fetched]:
    """Read messages as columns; with a mask of ``columns``, as the journal has them."""
    asked = wire.Fetch(
        topic=name("topic", topic),
        offset=count("offset", offset, most=U64_MAX),
        end_offset=count("end_offset", end_offset, most=U64_MAX),
        max_messages=count("max_messages", max_messages),
        max_bytes=count("max_bytes", max_bytes, most=U64_MAX),
        columns=count("columns", columns),
    )
    return QueueCall(wire.Request(fetch=asked), "fetched", lambda answer: answer.fetched)


def fetch_many(
    ranges: Iterable[ScanRange],
    scan: int,
    max_messages: int,
    max_bytes: int,
    *,
    columns: int,
) -> QueueCall[wire.FetchedMany]:
    """Read many topics as the journal has them; without ``ranges``, go on with a scan."""
    asked = wire.FetchMany(
        scan=count("scan", scan, most=U64_MAX),
        max_messages=count("max_messages", max_messages),
        max_bytes=count("max_bytes", max_bytes, most=U64_MAX),
        columns=count("columns", columns),
    )
    names, offsets, ends, incarnations = tuple(zip(*ranges, strict=True)) or ((), (), (), ())
    try:
        asked.topics.extend(names)
        asked.offsets.extend(offsets)
        asked.end_offsets.extend(ends)
        asked.incarnations.extend(incarnations)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"ranges are topic, offset, end, incarnation: {error}") from None
    request = wire.Request(fetch_many=asked)
    return QueueCall(request, "fetched_many", lambda answer: answer.fetched_many)


def locate(
    topic: str, times_ms: Iterable[int], measures: Iterable[tuple[int, int]]
) -> QueueCall[wire.Located]:
    asked = wire.Locate(topic=name("topic", topic))
    asked.times_ms.extend([count("times_ms", time_ms, most=U64_MAX) for time_ms in times_ms])
    for offset, size in measures:
        asked.measures.add(
            offset=count("measures", offset, most=U64_MAX),
            bytes=count("measures", size, most=U64_MAX),
        )
    return QueueCall(wire.Request(locate=asked), "located", lambda answer: answer.located)


def changes(
    filters: Iterable[str],
    after_sequence: int,
    wait_s: float,
    max: int,  # noqa: A002 - its name in the protocol
    after: str,
) -> QueueCall[wire.Changed]:
    if isinstance(filters, str):
        raise wrong_type("filters", "a list, or the like, of texts", filters)
    asked = wire.Changes(
        filters=[name("filters", one) for one in filters],
        after_sequence=count("after_sequence", after_sequence, most=U64_MAX),
        wait_ms=milliseconds("wait_s", wait_s),
        max=count("max", max),
        after=text("after", after),
    )
    return QueueCall(
        wire.Request(changes=asked), "changed", lambda answer: answer.changed, grace_s=wait_s
    )


def list_keys(after: int = 0) -> QueueCall[tuple[list[RegisteredKey], bool]]:
    return QueueCall(
        wire.Request(list_keys=wire.ListKeys(after=after)),
        "keys",
        lambda answer: _page(RegisteredKey, answer.keys.keys, more=answer.keys.more),
    )


def bootstrap(nodes: Mapping[int, str]) -> QueueCall[None]:
    named = [wire.Node(id=number, peer_addr=address) for number, address in nodes.items()]
    return _ok(wire.Request(bootstrap=wire.Bootstrap(nodes=named)))


def stats() -> QueueCall[Stats]:
    request = wire.Request(stats=wire.Stats())
    return QueueCall(request, "stats", lambda answer: _copied(Stats, answer.stats))


def _page(kind: type[S], entries: Iterable[object], *, more: bool) -> tuple[list[S], bool]:
    return [_copied(kind, entry) for entry in entries], more


def _copied(kind: type[S], answer: object) -> S:
    """Copy the fields, which have the same names in the protocol."""
    fields = [field.name for field in msgspec.structs.fields(kind)]
    return kind(**{name: getattr(answer, name) for name in fields})


# ── Staged commits ────────────────────────────────────────────────────────────────────────────


def stage(sink: str, epoch: int, part: str, number: int, block: bytes) -> QueueCall[None]:
    """Store a block of rows; sent again, it is stored once."""
    if not isinstance(block, bytes):
        raise wrong_type("block", "the bytes of a StagedBlock", block)
    asked = wire.Stage(
        sink=name("sink", sink),
        epoch=_epoch(epoch),
        part=name("part", part),
        number=count("number", number),
        block=block,
    )
    return _ok(wire.Request(stage=asked))


def commit_stage(
    sink: str, epoch: int, parts: Iterable[tuple[str, int]], note: bytes
) -> QueueCall[wire.StageCommitted]:
    asked = wire.CommitStage(sink=name("sink", sink), epoch=_epoch(epoch), note=note)
    for part, blocks in parts:
        asked.parts.add(part=name("part", part), blocks=count("blocks", blocks))
    return QueueCall(
        wire.Request(commit_stage=asked),
        "stage_committed",
        lambda answer: answer.stage_committed,
        grace_s=COMMIT_WAIT_S,
    )


def abort_stage(sink: str, epoch: int, parts: Sequence[str]) -> QueueCall[None]:
    asked = wire.AbortStage(sink=name("sink", sink), epoch=_epoch(epoch))
    asked.parts.extend([name("part", part) for part in parts])
    return _ok(wire.Request(abort_stage=asked))


def forget_sink(sink: str) -> QueueCall[None]:
    return _ok(wire.Request(forget_sink=wire.ForgetSink(name=name("name", sink))))


def list_sinks(
    sink: str | None, after: SinkStatus | None
) -> QueueCall[tuple[list[SinkStatus], bool]]:
    asked = wire.ListSinks(name="" if sink is None else name("name", sink))
    if after is not None:
        asked.after = after.name
    return QueueCall(
        wire.Request(list_sinks=asked),
        "sinks",
        lambda answer: ([_sink(one) for one in answer.sinks.sinks], answer.sinks.more),
    )


def _sink(answer: wire.Sink) -> SinkStatus:
    return SinkStatus(
        answer.name,
        answer.epoch if answer.committed_ms else None,
        answer.note,
        answer.messages,
        answer.committed_ms,
        answer.is_committing,
        answer.staged_bytes,
        answer.staged_parts,
    )


def _epoch(epoch: int) -> int:
    return count("epoch", epoch, most=SINK_EPOCH_MAX)
