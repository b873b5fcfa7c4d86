"""What goes into the client and what comes out of it: plain values, without a trace of the wire.

Times that are given are seconds; times that come from the broker are milliseconds since 1970, as
the journal has them. Headers are pairs of name and value in their order, and a name may come twice;
``dict(job.headers)`` is there for those who know that it does not.
"""

from datetime import datetime
from typing import Literal, TypeAlias, TypedDict

import msgspec

from penstock.client.errors import ClientError
from penstock.model.dead_letters import dead_letter_topic as letters_of

AckMode: TypeAlias = Literal["manual", "auto"]
"""``auto``: a message is done when it was handed out, and is never handed out again."""

ContentType: TypeAlias = Literal["raw", "text", "json", "msgpack"]

Headers: TypeAlias = tuple[tuple[str, bytes], ...]

Start: TypeAlias = Literal["earliest", "latest"] | int | datetime
"""Where a group that does not exist yet begins: at an end, an offset, or a time."""


class MessageSettings(TypedDict, total=False):
    """What may be said of a message, or of many that have it in common."""

    priority: int
    """0 to 7; the greater, the earlier it is handed out."""
    content_type: ContentType
    delay_s: float
    """Handed to no group before so much time has passed."""
    ttl_s: float | None
    """Handed to no group after so much time."""
    headers: dict[str, bytes] | Headers | None


class Item(msgspec.Struct, frozen=True):
    """A message for ``produce_many`` that is not like the others."""

    payload: bytes
    priority: int = 0
    content_type: ContentType = "raw"
    delay_s: float = 0.0
    ttl_s: float | None = None
    headers: dict[str, bytes] | Headers | None = None


class Result(msgspec.Struct, frozen=True, gc=False):
    """What became of one message of ``produce_many``: its offset, or why it has none."""

    offset: int | None = None
    error: ClientError | None = None


class LeaseSettings(TypedDict, total=False):
    """How messages are handed out."""

    visibility_s: float
    """How long a message is ours: not acknowledged by then, it is handed out again. 30."""
    ack_mode: AckMode
    """``manual`` unless given."""
    start: Start
    """Where the group begins if it does not exist yet; ``earliest`` unless given."""


class PollSettings(LeaseSettings, total=False):
    """How many messages are handed out, and how."""

    max: int
    """16; the broker gives 1,024 at most."""


class Job(msgspec.Struct, frozen=True, gc=False):
    """A message that was handed to us; ours until the lease ends, to be acknowledged before."""

    topic: str
    group: str
    lease_id: int
    offset: int
    payload: bytes
    priority: int
    content_type: ContentType
    ts_ms: int
    redeliveries: int
    """How often it was handed out before."""
    headers: Headers


class Stats(msgspec.Struct, frozen=True):
    """The broker's view of itself."""

    last_applied: int
    current_leader: int
    current_term: int
    last_log_index: int
    is_leader: bool
    topics: int
    messages: int
    in_flight: int


class TopicSettings(TypedDict, total=False):
    """What can be set for a topic; None leaves it as it is, 0 takes a limit away."""

    rate_per_sec: float | None
    """How many messages a second are handed out, over all groups."""
    burst: int | None
    max_messages: int | None
    max_age_s: float | None
    max_bytes: int | None
    keep: bool | None
    """Whether what every group has finished stays until retention takes it."""


class Topic(msgspec.Struct, frozen=True):
    """A topic and its settings; a setting of 0 is no limit."""

    name: str
    incarnation: int
    """Another one after the topic was deleted and made anew."""
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


class GroupSettings(TypedDict, total=False):
    """What can be set for a group; None leaves it as it is."""

    max_deliveries: int | None
    """After this many failed deliveries a message becomes a dead letter; 0: never."""
    backoff_s: float | None
    """Pause before the first repetition after a nack; it doubles."""
    backoff_max_s: float | None


class Group(msgspec.Struct, frozen=True):
    """A group, where it is and what it holds."""

    topic: str
    name: str
    position: int
    """Everything below is done."""
    lag: int
    """Messages not done."""
    in_flight: int
    returned: int
    """Handed out before, to be handed out again."""
    delayed: int
    dead_letters: int
    """In all, ever."""
    redeliveries: int
    consumers: int
    """Connected now."""
    max_deliveries: int
    backoff_ms: int
    backoff_max_ms: int
    reader: bool = False
    """Whether it stands for somebody who reads by itself (``fetch``) and only says how far."""
    start: int = 0
    """Where it was made, or moved to the last time."""


class DeviceKey(msgspec.Struct, frozen=True):
    """What a device signs with: the public half, and for how long it is good.

    Whose it is, and what it may sign, the broker tells administrators only (``penstock keys``).
    """

    id: int
    public_key: bytes
    created_ms: int
    expires_ms: int
    """0: never."""
    revoked_ms: int
    """0: it is not."""


class StageCommitted(msgspec.Struct, frozen=True):
    """What became of a commit of staged rows."""

    epoch: int
    """The last that is committed."""
    is_repetition: bool
    """Whether this epoch was committed before: what was staged now is gone."""
    messages: int
    """Of this epoch, as it was committed; 0 if later ones were since."""


class SinkStatus(msgspec.Struct, frozen=True):
    """A sink and how far it is."""

    name: str
    epoch: int | None
    """The last that is committed; None: none is."""
    note: bytes
    messages: int
    """Of all epochs."""
    committed_ms: int
    is_committing: bool
    staged_bytes: int
    """Neither committed nor aborted."""
    staged_parts: int


def dead_letter_topic(topic: str, group: str) -> str:
    """Where the broker puts what a group could not deal with."""
    return letters_of(topic.encode(), group.encode()).decode()
