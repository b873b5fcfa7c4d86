"""Every request of the protocol as a ``QueueCall``: what is asked, and how the answer is read.

One function per request, named as in ``queue.proto``. Nothing here talks to anybody: the drivers
ask, so this is all that the blocking and the asynchronous client know of the wire. Arguments are
looked at here (``checks``), so that what is wrong with one is told before anything is asked.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar, Unpack

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
    DeviceKey,
    Group,
    Headers,
    Job,
    LeaseSettings,
    MessageSettings,
    PollSettings,
    Result,
    Start,
    Stats,
    Topic,
)
from penstock.model.message import PRIORITY_MAX
from penstock.wire.queue._generated import queue_pb2 as wire

T = TypeVar("T")

_NUMBER_OF_TYPE: Final = {name: number for number, name in enumerate(CONTENT_TYPES)}

_ENDS: Final = {"earliest": wire.EARLIEST, "latest": wire.LATEST}


def _ok(request: wire.Request) -> QueueCall[None]:
    """A request that is answered by nothing but that it was done."""
    return QueueCall(request, "ok", _nothing)


def _nothing(_answer: wire.Ok) -> None:
    pass


def _of_leases(request: wire.Request) -> QueueCall[list[int]]:
    """A request about leases, answered with those that were over."""
    return QueueCall(request, "ok", lambda answer: list(answer.lapsed))


def _place(topic: str, group: str) -> dict[str, Any]:
    """A group of a topic, as fields."""
    return {"topic": name("topic", topic), "group": name("group", group)}


def _start(start: Start) -> dict[str, Any]:
    """Where a group begins, as fields."""
    if isinstance(start, datetime):
        return {"start": wire.TIME, "start_value": milliseconds("start", start.timestamp())}
    if isinstance(start, str):
        return {"start": _ENDS[choice("start", start, _ENDS)]}
    return {"start": wire.OFFSET, "start_value": count("start", start, most=U64_MAX)}


# ── Producing ─────────────────────────────────────────────────────────────────────────────────


def produce(
    topic: str, payload: bytes, producer_id: str, seq: int, **settings: Unpack[MessageSettings]
) -> QueueCall[int]:
    """One message; its offset is the answer."""
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
    **settings: Unpack[MessageSettings],
) -> QueueCall[list[Result]]:
    """Messages with seqs in a row from ``seq``; a result for each is the answer."""
    request = wire.Request()
    asked = request.produce_many
    asked.topic, asked.producer_id, asked.seq = topic, producer_id, seq
    asked.payloads.extend(payloads)
    _describe(asked, **settings)
    return QueueCall(request, "produced_many", lambda answer: _results(answer, len(payloads)))


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


def _offset(answer: wire.Produced) -> int:
    return answer.offset


def _results(answer: wire.ProducedMany, produced: int) -> list[Result]:
    """A result per payload: stretches are of those that were not refused, in their order."""
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
    topic: str, group: str, wait_s: float, **settings: Unpack[PollSettings]
) -> QueueCall[list[Job]]:
    """Lease what is there, or wait for something; not repeated when that would lose messages."""
    wait_ms = milliseconds("wait_s", wait_s)
    asked = wire.Poll(**_place(topic, group), wait_ms=wait_ms, **_of_poll(**settings))
    return QueueCall(
        wire.Request(poll=asked),
        "polled",
        lambda answer: jobs_of(answer, topic, group),
        repeats=asked.ack_mode == "manual",
        grace_s=wait_s,
    )


def _of_poll(
    *,
    max: int = 16,  # noqa: A002 - its name in the protocol
    **lease: Unpack[LeaseSettings],
) -> dict[str, Any]:
    return {"max": count("max", max, 1), **_of_lease(**lease)}


def subscribe(
    topic: str, group: str, concurrency: int, **settings: Unpack[LeaseSettings]
) -> wire.Request:
    """Begin a push connection; nothing but messages answers it."""
    prefetch = count("concurrency", concurrency, 1)
    asked = wire.Subscribe(**_place(topic, group), prefetch=prefetch, **_of_lease(**settings))
    return wire.Request(subscribe=asked)


def _of_lease(
    *, visibility_s: float = 30.0, ack_mode: AckMode = "manual", start: Start = "earliest"
) -> dict[str, Any]:
    """How messages are handed out, as fields."""
    return {
        "visibility_timeout_ms": span_milliseconds("visibility_s", visibility_s),
        "ack_mode": choice("ack_mode", ack_mode, ("manual", "auto")),
        **_start(start),
    }


def jobs_of(answer: wire.Polled, topic: str, group: str) -> list[Job]:
    """What was handed to us."""
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
    """These are done."""
    asked = wire.AckMany(**_place(topic, group), lease_ids=lease_ids)
    return _of_leases(wire.Request(ack_many=asked))


def nack_many(
    topic: str, group: str, lease_ids: Iterable[int], delay_s: float = 0.0, reason: str = ""
) -> QueueCall[list[int]]:
    """These are to be handed out again."""
    asked = wire.NackMany(
        **_place(topic, group),
        lease_ids=lease_ids,
        delay_ms=milliseconds("delay_s", delay_s),
        reason=text("reason", reason),
    )
    return _of_leases(wire.Request(nack_many=asked))


def extend(
    topic: str, group: str, lease_ids: Iterable[int], visibility_s: float
) -> QueueCall[list[int]]:
    """These leases run for so much time from now on."""
    asked = wire.Extend(
        **_place(topic, group),
        lease_ids=lease_ids,
        visibility_timeout_ms=span_milliseconds("visibility_s", visibility_s),
    )
    return _of_leases(wire.Request(extend=asked))


def commit(topic: str, group: str, offset: int) -> QueueCall[None]:
    """Everything below the offset is done."""
    asked = wire.Commit(**_place(topic, group), offset=count("offset", offset, most=U64_MAX))
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
    """Make the topic if need be, and change what is given, in one step."""
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
    """Remove messages, groups and settings."""
    return _ok(wire.Request(delete_topic=wire.DeleteTopic(topic=name("topic", topic))))


def set_rate_limit(topic: str, rate_per_sec: float, burst: int) -> QueueCall[None]:
    """Both parts of the rate at once."""
    asked = wire.SetRateLimit(
        topic=name("topic", topic),
        rate_per_sec=rate("rate_per_sec", rate_per_sec),
        burst=count("burst", burst),
    )
    return _ok(wire.Request(set_rate_limit=asked))


def set_retention(
    topic: str, max_messages: int, max_age_s: float, max_bytes: int
) -> QueueCall[None]:
    """All limits at once; 0 is none, and all 0 the default."""
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
    """Make a group that begins there; ``seek`` moves one that exists."""
    asked = wire.CreateGroup(**_place(topic, group), seek=seek, reader=reader, **_start(start))
    return _ok(wire.Request(create_group=asked))


def delete_group(topic: str, group: str) -> QueueCall[None]:
    """Forget a group."""
    return _ok(wire.Request(delete_group=wire.DeleteGroup(**_place(topic, group))))


def configure_group(
    topic: str,
    group: str,
    *,
    max_deliveries: int | None = None,
    backoff_s: float | None = None,
    backoff_max_s: float | None = None,
) -> QueueCall[None]:
    """Make the group if need be, and change what is given, in one step."""
    asked = wire.ConfigureGroup(**_place(topic, group))
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
    """Dead letters go back; done twice, a ``max`` would be passed."""
    asked = wire.Redrive(**_place(topic, group), max=count("max", max))
    return QueueCall(wire.Request(redrive=asked), "redriven", lambda a: a.count, repeats=max == 0)


def list_topics(prefix: str, after: str = "") -> QueueCall[tuple[list[Topic], bool]]:
    """A page of topics, and whether there are more."""
    return _topics(wire.ListTopics(prefix=text("prefix", prefix), after=after))


def find_topic(topic: str) -> QueueCall[tuple[list[Topic], bool]]:
    """The same of just this one."""
    return _topics(wire.ListTopics(name=name("name", topic)))


def _topics(asked: wire.ListTopics) -> QueueCall[tuple[list[Topic], bool]]:
    return QueueCall(
        wire.Request(list_topics=asked),
        "topics",
        lambda answer: ([_copied(Topic, one) for one in answer.topics], answer.more),
    )


def list_groups(topic: str, after: Group | None) -> QueueCall[tuple[list[Group], bool]]:
    """A page of groups, and whether there are more."""
    asked = wire.ListGroups(topic=text("topic", topic))
    if after is not None:
        asked.after_topic, asked.after_group = after.topic, after.name
    return QueueCall(
        wire.Request(list_groups=asked),
        "groups",
        lambda answer: ([_copied(Group, one) for one in answer.groups], answer.more),
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
    """Messages as columns; with a mask of ``columns``, as the journal has them."""
    asked = wire.Fetch(
        topic=name("topic", topic),
        offset=count("offset", offset, most=U64_MAX),
        end_offset=count("end_offset", end_offset, most=U64_MAX),
        max_messages=count("max_messages", max_messages),
        max_bytes=count("max_bytes", max_bytes, most=U64_MAX),
        columns=count("columns", columns),
    )
    return QueueCall(wire.Request(fetch=asked), "fetched", _itself)


def _itself(answer: T) -> T:
    return answer


def locate(
    topic: str, times_ms: Iterable[int], measures: Iterable[tuple[int, int]]
) -> QueueCall[wire.Located]:
    """Which offsets times have, and how far bytes reach."""
    asked = wire.Locate(topic=name("topic", topic))
    asked.times_ms.extend([count("times_ms", time_ms, most=U64_MAX) for time_ms in times_ms])
    for offset, size in measures:
        asked.measures.add(
            offset=count("measures", offset, most=U64_MAX),
            bytes=count("measures", size, most=U64_MAX),
        )
    return QueueCall(wire.Request(locate=asked), "located", _itself)


def changes(
    filters: Iterable[str],
    after_sequence: int,
    wait_s: float,
    max: int,  # noqa: A002 - its name in the protocol
    after: str,
) -> QueueCall[wire.Changed]:
    """Which topics there are, or which have changed; waits for the first."""
    if isinstance(filters, str):
        raise wrong_type("filters", "a list, or the like, of texts", filters)
    asked = wire.Changes(
        filters=[name("filters", one) for one in filters],
        after_sequence=count("after_sequence", after_sequence, most=U64_MAX),
        wait_ms=milliseconds("wait_s", wait_s),
        max=count("max", max),
        after=text("after", after),
    )
    return QueueCall(wire.Request(changes=asked), "changed", _itself, grace_s=wait_s)


def list_keys(after: int = 0) -> QueueCall[tuple[list[DeviceKey], bool]]:
    """A page of keys, and whether there are more."""
    return QueueCall(
        wire.Request(list_keys=wire.ListKeys(after=after)),
        "keys",
        lambda answer: ([_copied(DeviceKey, one) for one in answer.keys], answer.more),
    )


def bootstrap(nodes: Mapping[int, str]) -> QueueCall[None]:
    """Begin a cluster of these nodes."""
    named = [wire.Node(id=number, peer_addr=address) for number, address in nodes.items()]
    request = wire.Request(bootstrap=wire.Bootstrap(nodes=named))
    return QueueCall(request, "ok", lambda _ok: None)


def stats() -> QueueCall[Stats]:
    """What the broker says of itself."""
    return QueueCall(
        wire.Request(stats=wire.Stats()), "stats", lambda answer: _copied(Stats, answer)
    )


def _copied(kind: type[T], answer: Any) -> T:
    """A value of the same fields; the names of the protocol are ours too."""
    return kind(**{name: getattr(answer, name) for name in _fields(kind)})


def _fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind))
