"""Fields that several requests share, with their defaults and bounds."""

from typing import NamedTuple

from penstock.delivery.tracing import Tracing
from penstock.dispatch.dispatcher import LeasedMessage
from penstock.dispatch.groups import Start, StartAt
from penstock.model.message import (
    CONTENT_TYPE_SHIFT,
    FLAG_CONTENT_TYPE,
    FLAG_PRIORITY,
    PRIORITY_SHIFT,
)
from penstock.wire.queue import encode
from penstock.wire.queue._generated import queue_pb2

AUTO = "auto"  # settle messages when they are handed out; any other mode is manual
VISIBILITY_MS_DEFAULT = 30_000
VISIBILITY_MS_MAX = 1 << 48  # eight thousand years: the end of a lease must remain a number
REASON_BYTES_MAX = 1_024
_STARTS = {start.value for start in StartAt}


class RequestedGroup(NamedTuple):
    """The group that a request names, and where it begins if it is new."""

    topic: bytes
    group: bytes
    start: Start


def requested_group(
    message: queue_pb2.Poll | queue_pb2.Subscribe | queue_pb2.CreateGroup,
) -> RequestedGroup:
    """An unknown kind of start is the earliest."""
    known = message.start in _STARTS
    start = Start(StartAt(message.start), message.start_value) if known else Start()
    return RequestedGroup(message.topic.encode(), message.group.encode(), start)


def visibility_ms(asked: int) -> int:
    return min(asked, VISIBILITY_MS_MAX) or VISIBILITY_MS_DEFAULT


def delay_ms(asked: int) -> int:
    return min(asked, VISIBILITY_MS_MAX)


def reason_of(message: queue_pb2.Nack | queue_pb2.NackMany) -> bytes:
    return message.reason.encode()[:REASON_BYTES_MAX]


def items_of(
    jobs: list[LeasedMessage], tracing: Tracing | None, worker: bytes
) -> list[encode.Item]:
    items: list[encode.Item] = [
        (
            job.lease,
            (message := job.message).offset,
            ((flags := message.flags) & FLAG_PRIORITY) >> PRIORITY_SHIFT,
            (flags & FLAG_CONTENT_TYPE) >> CONTENT_TYPE_SHIFT,
            message.payload,
            message.time_ms,
            job.deliveries - 1,
            extras.headers if (extras := message.extras) else (),
        )
        for job in jobs
    ]
    if tracing is None:
        return items
    return [
        (*item[:7], tracing.headers(job.message.topic, job.message.sequence, item[7], worker))
        for job, item in zip(jobs, items, strict=True)
    ]
