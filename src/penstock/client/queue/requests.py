"""Every request of the protocol as a ``Call``: what is asked, and how the answer is read.

One function per request, named as in ``queue.proto``. Nothing here talks to anybody: the drivers
ask, so this is all that the blocking and the asynchronous client know of the wire.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar, Unpack

import msgspec

from penstock.client.queue.columns import CONTENT_TYPES
from penstock.client.queue.session import Call, refusal
from penstock.client.queue.values import (
    AckMode,
    ContentType,
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
from penstock.errors import LocalProtocolError
from penstock.wire.queue._generated import queue_pb2 as wire

__all__ = [
    "ack_many",
    "commit",
    "configure_group",
    "configure_topic",
    "create_group",
    "delete_group",
    "delete_topic",
    "extend",
    "fetch",
    "jobs_of",
    "list_groups",
    "list_topics",
    "nack_many",
    "poll",
    "produce",
    "produce_many",
    "redrive",
    "set_rate_limit",
    "set_retention",
    "stats",
    "subscribe",
]

T = TypeVar("T")

_NUMBER_OF_TYPE: Final = {name: number for number, name in enumerate(CONTENT_TYPES)}

_ENDS: Final = {"earliest": wire.EARLIEST, "latest": wire.LATEST}


def _ok(request: wire.Request) -> Call[None]:
    """A request that is answered by nothing but that it was done."""
    return Call(request, "ok", _nothing)


def _nothing(_answer: wire.Ok) -> None:
    pass


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _optional_ms(seconds: float | None) -> int | None:
    return None if seconds is None else _ms(seconds)


def _start(start: Start) -> dict[str, Any]:
    """Where a group begins, as fields."""
    if isinstance(start, datetime):
        return {"start": wire.TIME, "start_value": _ms(start.timestamp())}
    if isinstance(start, int):
        return {"start": wire.OFFSET, "start_value": start}
    if start not in _ENDS:
        raise LocalProtocolError(
            f"start={start!r}", 'write "earliest", "latest", an offset or a datetime'
        )
    return {"start": _ENDS[start]}


# ── Producing ─────────────────────────────────────────────────────────────────────────────────


def produce(
    topic: str, payload: bytes, producer_id: str, seq: int, **settings: Unpack[MessageSettings]
) -> Call[int]:
    """One message; its offset is the answer."""
    request = wire.Request()
    asked = request.produce
    asked.topic, asked.payload, asked.producer_id, asked.seq = topic, payload, producer_id, seq
    if settings:
        _describe(asked, **settings)
    return Call(request, "produced", _offset)


def produce_many(
    topic: str,
    payloads: Sequence[bytes],
    producer_id: str,
    seq: int,
    **settings: Unpack[MessageSettings],
) -> Call[list[Result]]:
    """Messages with seqs in a row from ``seq``; a result for each is the answer."""
    request = wire.Request()
    asked = request.produce_many
    asked.topic, asked.producer_id, asked.seq = topic, producer_id, seq
    asked.payloads.extend(payloads)
    _describe(asked, **settings)
    count = len(payloads)
    return Call(request, "produced_many", lambda answer: _results(answer, count))


def _describe(
    asked: wire.Produce | wire.ProduceMany,
    *,
    priority: int = 0,
    content_type: ContentType = "raw",
    delay_s: float = 0.0,
    ttl_s: float | None = None,
    headers: dict[str, bytes] | Headers | None = None,
) -> None:
    if content_type not in _NUMBER_OF_TYPE:
        raise LocalProtocolError(
            f"content_type={content_type!r}", f"write one of {', '.join(CONTENT_TYPES)}"
        )
    asked.priority = priority
    asked.content_type = _NUMBER_OF_TYPE[content_type]
    asked.delay_ms = _ms(delay_s)
    if ttl_s is not None:
        asked.ttl_ms = max(1, _ms(ttl_s))  # 0 would be for ever
    pairs = headers.items() if isinstance(headers, dict) else headers or ()
    asked.headers.extend(wire.Header(name=name, value=value) for name, value in pairs)


def _offset(answer: wire.Produced) -> int:
    return answer.offset


def _results(answer: wire.ProducedMany, count: int) -> list[Result]:
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
        for index in range(count)
    ]


# ── Consuming ─────────────────────────────────────────────────────────────────────────────────


def poll(
    topic: str, group: str, wait_s: float, **settings: Unpack[PollSettings]
) -> Call[list[Job]]:
    """Lease what is there, or wait for something; not repeated when that would lose messages."""
    asked = wire.Poll(topic=topic, group=group, wait_ms=_ms(wait_s), **_of_poll(**settings))
    return Call(
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
    return {"max": max, **_of_lease(**lease)}


def subscribe(
    topic: str, group: str, prefetch: int, **settings: Unpack[LeaseSettings]
) -> wire.Request:
    """Begin a push connection; nothing but messages answers it."""
    lease = _of_lease(**settings)
    asked = wire.Subscribe(topic=topic, group=group, prefetch=prefetch, **lease)
    return wire.Request(subscribe=asked)


def _of_lease(
    *, visibility_s: float = 30.0, ack_mode: AckMode = "manual", start: Start = "earliest"
) -> dict[str, Any]:
    """How messages are handed out, as fields."""
    if ack_mode not in {"manual", "auto"}:  # the broker takes what is misspelt for manual
        raise LocalProtocolError(f"ack_mode={ack_mode!r}", 'write "manual" or "auto"')
    visibility_ms = _ms(visibility_s)
    return {"visibility_timeout_ms": visibility_ms, "ack_mode": ack_mode, **_start(start)}


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


def ack_many(topic: str, group: str, lease_ids: Iterable[int]) -> Call[None]:
    """These are done."""
    asked = wire.AckMany(topic=topic, group=group, lease_ids=lease_ids)
    return _ok(wire.Request(ack_many=asked))


def nack_many(
    topic: str, group: str, lease_ids: Iterable[int], delay_s: float = 0.0, reason: str = ""
) -> Call[None]:
    """These are to be handed out again."""
    asked = wire.NackMany(
        topic=topic, group=group, lease_ids=lease_ids, delay_ms=_ms(delay_s), reason=reason
    )
    return _ok(wire.Request(nack_many=asked))


def extend(topic: str, group: str, lease_ids: Iterable[int], visibility_s: float) -> Call[None]:
    """These leases run for so much time from now on."""
    asked = wire.Extend(
        topic=topic, group=group, lease_ids=lease_ids, visibility_timeout_ms=_ms(visibility_s)
    )
    return _ok(wire.Request(extend=asked))


def commit(topic: str, group: str, offset: int) -> Call[None]:
    """Everything below the offset is done."""
    return _ok(wire.Request(commit=wire.Commit(topic=topic, group=group, offset=offset)))


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
) -> Call[None]:
    """Make the topic if need be, and change what is given, in one step."""
    fields = _present(
        rate_per_sec=rate_per_sec,
        burst=burst,
        max_messages=max_messages,
        max_age_ms=_optional_ms(max_age_s),
        max_bytes=max_bytes,
        keep=keep,
    )
    return _ok(wire.Request(configure_topic=wire.ConfigureTopic(topic=topic, **fields)))


def _present(**fields: Any) -> dict[str, Any]:
    """Only what is given."""
    return {name: value for name, value in fields.items() if value is not None}


def delete_topic(topic: str) -> Call[None]:
    """Remove messages, groups and settings."""
    return _ok(wire.Request(delete_topic=wire.DeleteTopic(topic=topic)))


def set_rate_limit(topic: str, rate_per_sec: float, burst: int) -> Call[None]:
    """Both parts of the rate at once."""
    asked = wire.SetRateLimit(topic=topic, rate_per_sec=rate_per_sec, burst=burst)
    return _ok(wire.Request(set_rate_limit=asked))


def set_retention(topic: str, max_messages: int, max_age_s: float, max_bytes: int) -> Call[None]:
    """All limits at once; 0 is none, and all 0 the default."""
    asked = wire.SetRetention(
        topic=topic, max_messages=max_messages, max_age_ms=_ms(max_age_s), max_bytes=max_bytes
    )
    return _ok(wire.Request(set_retention=asked))


def create_group(topic: str, group: str, start: Start, *, seek: bool = False) -> Call[None]:
    """Make a group that begins there; ``seek`` moves one that exists."""
    asked = wire.CreateGroup(topic=topic, group=group, seek=seek, **_start(start))
    return _ok(wire.Request(create_group=asked))


def delete_group(topic: str, group: str) -> Call[None]:
    """Forget a group."""
    return _ok(wire.Request(delete_group=wire.DeleteGroup(topic=topic, group=group)))


def configure_group(
    topic: str,
    group: str,
    *,
    max_deliveries: int | None = None,
    backoff_s: float | None = None,
    backoff_max_s: float | None = None,
) -> Call[None]:
    """Make the group if need be, and change what is given, in one step."""
    fields = _present(
        max_deliveries=max_deliveries,
        backoff_ms=_optional_ms(backoff_s),
        backoff_max_ms=_optional_ms(backoff_max_s),
    )
    asked = wire.ConfigureGroup(topic=topic, group=group, **fields)
    return _ok(wire.Request(configure_group=asked))


def redrive(topic: str, group: str, max: int) -> Call[int]:  # noqa: A002 - as in ``poll``
    """Dead letters go back; done twice, a ``max`` would be passed."""
    asked = wire.Redrive(topic=topic, group=group, max=max)
    return Call(wire.Request(redrive=asked), "redriven", lambda a: a.count, repeats=max == 0)


def list_topics(prefix: str, after: str = "", name: str = "") -> Call[tuple[list[Topic], bool]]:
    """A page of topics, and whether there are more."""
    asked = wire.ListTopics(prefix=prefix, after=after, name=name)
    return Call(
        wire.Request(list_topics=asked),
        "topics",
        lambda answer: ([_copied(Topic, one) for one in answer.topics], answer.more),
    )


def list_groups(topic: str, after: Group | None) -> Call[tuple[list[Group], bool]]:
    """A page of groups, and whether there are more."""
    asked = wire.ListGroups(topic=topic)
    if after is not None:
        asked.after_topic, asked.after_group = after.topic, after.name
    return Call(
        wire.Request(list_groups=asked),
        "groups",
        lambda answer: ([_copied(Group, one) for one in answer.groups], answer.more),
    )


def fetch(
    topic: str, offset: int, end_offset: int, max_messages: int, max_bytes: int
) -> Call[wire.Fetched]:
    """Messages as columns."""
    asked = wire.Fetch(
        topic=topic,
        offset=offset,
        end_offset=end_offset,
        max_messages=max_messages,
        max_bytes=max_bytes,
    )
    return Call(wire.Request(fetch=asked), "fetched", _itself)


def _itself(answer: wire.Fetched) -> wire.Fetched:
    return answer


def stats() -> Call[Stats]:
    """What the broker says of itself."""
    return Call(wire.Request(stats=wire.Stats()), "stats", lambda answer: _copied(Stats, answer))


def _copied(kind: type[T], answer: Any) -> T:
    """A value of the same fields; the names of the protocol are ours too."""
    return kind(**{name: getattr(answer, name) for name in _fields(kind)})


def _fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind))
