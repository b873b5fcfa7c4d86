"""Arguments and results of the client: plain values, without a trace of the wire.

Arguments are in seconds; times of the broker are milliseconds since 1970, as the journal has them.
Headers are pairs of name and value in their order, and a name may be repeated; use
``dict(job.headers)`` if you know that none is.
"""

from datetime import datetime
from typing import Final, Literal, TypeAlias, TypedDict

import msgspec

from penstock.client.errors import ClientError
from penstock.model.dead_letters import dead_letter_topic as letters_of

RETRY_S_MAX: Final = 366 * 24 * 3600.0

AckMode: TypeAlias = Literal["manual", "auto"]  # auto: acknowledged when it is delivered

ContentType: TypeAlias = Literal["raw", "text", "json", "msgpack"]

Headers: TypeAlias = tuple[tuple[str, bytes], ...]

# A topic, the first offset, the end (0: that of the topic), the incarnation (0: any).
ScanRange: TypeAlias = tuple[str, int, int, int]

# Where a new group begins: at an end, an offset, or a time.
Start: TypeAlias = Literal["earliest", "latest"] | int | datetime


class MessageKeywords(TypedDict, total=False):
    """Keywords of a message, or of many."""

    priority: int  # 0 to 7; the greater, the earlier it is delivered
    content_type: ContentType
    delay_s: float  # delivered after this time
    ttl_s: float | None  # not delivered after this time
    headers: dict[str, bytes] | Headers | None


class Item(msgspec.Struct, frozen=True):
    """A message for ``produce_many`` with settings of its own."""

    payload: bytes
    priority: int = 0
    content_type: ContentType = "raw"
    delay_s: float = 0.0
    ttl_s: float | None = None
    headers: dict[str, bytes] | Headers | None = None


class Result(msgspec.Struct, frozen=True, gc=False):
    """The result of one message of ``produce_many``: its offset, or the error."""

    offset: int | None = None
    error: ClientError | None = None


class LeaseKeywords(TypedDict, total=False):
    """Keywords of deliveries."""

    visibility_s: float  # 30; a job that is not acknowledged in this time is delivered again
    ack_mode: AckMode  # manual
    start: Start  # earliest; where the group begins if it is new


class PollKeywords(LeaseKeywords, total=False):
    """Keywords of polls."""

    max: int  # 16; 1,024 at most


class Job(msgspec.Struct, frozen=True, gc=False):
    """A message that is leased to us, to be acknowledged before the lease ends."""

    topic: str
    group: str
    lease_id: int
    offset: int
    payload: bytes
    priority: int
    content_type: ContentType
    ts_ms: int
    redeliveries: int  # how often it was delivered before
    headers: Headers


class Retry(Exception):  # noqa: N818 - a handler's wish, not a fault
    """Raised by the handler of a subscription: deliver this job again, not before ``delay_s``."""

    def __init__(self, reason: str = "", *, delay_s: float = 0.0) -> None:
        super().__init__(reason or "retry")
        self.delay_s = min(max(0.0, float(delay_s)), RETRY_S_MAX)


class DeadLetter(Exception):  # noqa: N818 - a handler's wish, not a fault
    """Raised by the handler of a subscription: this job can never succeed.

    It becomes a dead letter at once, however many deliveries the group allows.
    """


class Stats(msgspec.Struct, frozen=True):
    """Figures of the broker about itself."""

    last_applied: int
    current_leader: int
    current_term: int
    last_log_index: int
    is_leader: bool
    topics: int
    messages: int
    in_flight: int


class TopicKeywords(TypedDict, total=False):
    """Keywords of a topic; None leaves a setting unchanged, 0 removes a limit."""

    rate_per_sec: float | None  # deliveries per second, over all groups
    burst: int | None
    max_messages: int | None
    max_age_s: float | None
    max_bytes: int | None
    keep: bool | None  # keep messages that every group has finished until retention removes them


class Topic(msgspec.Struct, frozen=True):
    """A topic and its settings; a limit of 0 is none."""

    name: str
    incarnation: int  # a new one after the topic was deleted and created again
    first_offset: int
    end_offset: int
    messages: int
    bytes: int
    rate_per_sec: float
    burst: int
    max_messages: int
    max_age_ms: int
    max_bytes: int
    keep: bool
    groups: int
    created_ms: int


class GroupKeywords(TypedDict, total=False):
    """Keywords of a group; None leaves a setting unchanged."""

    max_deliveries: int | None  # dead-letter after this many failed deliveries; 0: never
    backoff_s: float | None  # pause before the first redelivery after a nack; it doubles
    backoff_max_s: float | None


class Group(msgspec.Struct, frozen=True):
    """A group: its position and its jobs."""

    topic: str
    name: str
    position: int  # everything below is done
    lag: int  # messages that are not done
    in_flight: int
    returned: int  # to be delivered again
    delayed: int
    dead_letters: int  # ever
    redeliveries: int
    consumers: int  # connected now
    max_deliveries: int
    backoff_ms: int
    backoff_max_ms: int
    reader: bool = False  # the position of a consumer that reads with ``fetch``
    start: int = 0  # where it was created, or moved to last


class RegisteredKey(msgspec.Struct, frozen=True):
    """The public half of a key that a device signs with, and its validity.

    Only administrators can see its owner and topics (``penstock keys``).
    """

    id: int
    public_key: bytes
    created_ms: int
    expires_ms: int  # 0: never
    revoked_ms: int  # 0: not revoked


class StageCommitted(msgspec.Struct, frozen=True):
    """The result of a commit of staged rows."""

    epoch: int  # the last committed one
    is_repetition: bool  # this epoch was committed before, and what was staged now is dropped
    messages: int  # of this epoch; 0 if later ones were committed since


class SinkStatus(msgspec.Struct, frozen=True):
    """A sink and its progress."""

    name: str
    epoch: int | None  # the last committed one
    note: bytes
    messages: int  # of all epochs
    committed_ms: int
    is_committing: bool
    staged_bytes: int  # neither committed nor aborted
    staged_parts: int


def dead_letter_topic(topic: str, group: str) -> str:
    """Return the topic of a group's dead letters."""
    return letters_of(topic.encode(), group.encode()).decode()
