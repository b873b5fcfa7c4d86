"""The newest messages of the journal, whatever their topics: who is busiest, what just came.

Read by sequence, from the newest backwards, a few at a time: payloads come along, and they may be
large.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from penstock.api.documents.common import moment, name_of
from penstock.api.documents.topics import Busiest, BusyTopic, Peek
from penstock.api.reading.decoding import shown
from penstock.api.reading.scanning import AT_ONCE_BYTES, Bounds, backwards
from penstock.limits import MIB
from penstock.model.message import Message
from penstock.store.store import Store, TopicInfo

BUSIEST_OF: Final = 10_000
BUSIEST_BYTES_MAX: Final = 32 * MIB
BUSIEST_SHOWN: Final = 50
FIRST_READ: Final = 8  # messages read before it is known how large they are
READ_MAX: Final = 512
PEEK_BYTES: Final = 256


class Tail(NamedTuple):
    """The newest messages under a filter, oldest first."""

    messages: list[Message]
    skipped: int  # others under the filter
    unseen: int  # sequences that were not looked at


def newest(store: Store, after: int, bounds: Bounds, upto: int | None = None) -> Iterator[Message]:
    """Messages with greater sequences than ``after`` up to ``upto``, the newest first."""
    end = store.next_sequence if upto is None else upto + 1
    while end > after + 1 and not bounds.is_over():
        count = AT_ONCE_BYTES // bounds.message_bytes if bounds.scanned else FIRST_READ
        first = max(after + 1, end - max(1, min(READ_MAX, count)))
        for message in reversed(store.read(list(range(first, end)))):
            if message is not None:
                bounds.take(message)
                yield message
                if bounds.is_over():
                    return
        end = first


def busiest(
    store: Store, may_read: Callable[[bytes], bool], bounds: Bounds | None = None
) -> Busiest:
    """Which topics the newest messages are of; the broker's own only where nothing else is."""
    bounds = bounds or Bounds(BUSIEST_OF, BUSIEST_BYTES_MAX)
    counts: Counter[bytes] = Counter()
    sizes: Counter[bytes] = Counter()
    since = until = 0
    for message in newest(store, 0, bounds):
        until = until or message.time_ms
        since = message.time_ms
        counts[message.topic] += 1
        sizes[message.topic] += len(message.payload)
    hidden = sum(count for topic, count in counts.items() if not may_read(topic))
    plain = {topic: count for topic, count in counts.items() if not topic.startswith(b"$")}
    most = sorted((plain or counts).items(), key=lambda item: (-item[1], item[0]))
    span_s = max((until - since) / 1000, 1.0)
    looked_at = bounds.scanned
    return Busiest(
        items=[
            BusyTopic(name_of(topic), count, sizes[topic], count / looked_at, count / span_s)
            for topic, count in most
            if may_read(topic)
        ][:BUSIEST_SHOWN],
        looked_at=looked_at,
        hidden=hidden,
        since=moment(since) if since else None,
        until=moment(until) if until else None,
    )


def tail(
    store: Store,
    after: int,
    upto: int,
    is_wanted: Callable[[bytes], bool],
    count_max: int,
    bounds: Bounds,
) -> Tail:
    """The newest messages after a sequence, up to another."""
    messages: list[Message] = []
    skipped, seen_from = 0, upto + 1
    for message in newest(store, after, bounds, upto):
        seen_from = message.sequence
        if not is_wanted(message.topic):
            continue
        if len(messages) < count_max:
            messages.append(message)
        else:
            skipped += 1
    unseen = max(seen_from - after - 1, 0) if bounds.stopped else 0
    return Tail(messages[::-1], skipped, unseen)


def peek(store: Store, info: TopicInfo, bytes_max: int = PEEK_BYTES) -> Peek | None:
    """The newest message of a topic; None if there is none any more."""
    if not info.count:
        return None
    found = store.read_topic(info.name, info.next_offset - 1, 1, 1)
    message = next(found.messages(), None)
    if message is None:  # the newest ones were deleted
        last = backwards(store, info.name, info.first_offset, info.next_offset, Bounds(1))
        message = next(last, None)
    if message is None:
        return None
    seen = shown(message.payload, "auto", bytes_max, message.content_type)
    return Peek(
        topic=name_of(info.name),
        offset=message.offset,
        next_offset=info.next_offset,
        time=moment(message.time_ms),
        payload=seen.payload,
        payload_bytes=len(message.payload),
        cut=seen.cut,
        format=seen.format,
    )
