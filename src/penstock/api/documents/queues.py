"""What the API says about queues and consumer groups.

A group delivers each message of a topic once. What it has not done yet is its **lag**: messages
that wait, and those **pending**: in flight with a worker, returned, delayed or exhausted.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.api.documents.common import Count
from penstock.api.documents.lists import Missing
from penstock.api.documents.payloads import Payload

TopicName = Annotated[str, Meta(description="The name of a topic.", max_length=65_535)]
GroupName = Annotated[str, Meta(description="The name of a group of that topic.", max_length=1_024)]
Seconds = Annotated[float, Meta(ge=0, le=100 * 365 * 24 * 3600)]
Position = Annotated[int, Meta(ge=0, le=2**53)] | Annotated[str, Meta(max_length=64)]
"""An offset; "earliest" or "latest"; or a time, as in "2030-01-01T00:00:00Z"."""


class Attention(msgspec.Struct, frozen=True):
    """Why somebody should look at this."""

    code: str  # no_workers, oldest_waits, dead_letters, full, behind, staged_for_long
    text: str  # in a sentence, with what to do


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that was created or configured, or has groups. A limit of 0 is none."""

    topic: str
    messages: int  # that a new group would receive
    stored: int
    stored_bytes: int
    first_offset: int
    end_offset: int  # of the next message
    groups: int
    lag: int  # of the group that is furthest behind
    dead_letters: int  # of all groups, neither redriven nor deleted
    rate_per_s: float
    burst: int
    max_messages: int
    max_age_s: float
    max_bytes: int
    keep: bool  # a log; otherwise messages go when every group is done with them


class Queues(msgspec.Struct, frozen=True, kw_only=True):
    """Queues by topic."""

    items: list[Queue]
    next: str | None = None
    incomplete: list[Missing] = []


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """PATCH ``queues``: what is left out does not change. It creates a topic that is not there."""

    topic: TopicName
    rate_per_s: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    burst: Annotated[int, Meta(ge=0, le=2**31)] | None = None
    max_messages: Count | None = None
    max_age_s: Seconds | None = None
    max_bytes: Count | None = None
    keep: bool | None = None


class QueueDeletion(msgspec.Struct, frozen=True, kw_only=True):
    """What deleting a queue removes, or has removed."""

    topic: str
    messages: int
    groups: list[str]
    dry_run: bool


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer group of a topic."""

    topic: str
    group: str
    attention: list[Attention]
    lag: int
    in_flight: int
    returned: int  # to be delivered again
    delayed: int  # to be delivered again, but later
    exhausted: int  # about to become dead letters
    oldest: str | None  # when the oldest message that is not done was published
    oldest_s: float | None  # how long ago that was
    redeliveries: int  # since the group was made
    dead_letters: int  # neither redriven nor deleted
    dead_letters_total: int  # since the group was made
    workers: int  # connected, to any node
    rate_per_s: float | None  # messages done, since it was last asked for; None: asked first
    eta_s: float | None  # until the lag is worked off at that rate
    position: int  # the oldest offset that is not done
    end_offset: int
    start: int  # where it was made, or moved to last
    reader: bool  # it only records how far a client has read
    max_deliveries: int  # 0: no limit
    backoff_s: float
    backoff_max_s: float
    full: bool  # so many are in flight and delayed that nothing more is handed out


class Groups(msgspec.Struct, frozen=True, kw_only=True):
    """Groups by topic and name."""

    items: list[Group]
    next: str | None = None
    incomplete: list[Missing] = []


class GroupCreation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST ``groups``. ``start``: "earliest", "latest", an offset or a time."""

    topic: TopicName
    group: GroupName
    start: Position = "earliest"
    max_deliveries: Annotated[int, Meta(ge=0, le=2**32 - 1)] | None = None
    backoff_s: Seconds | None = None
    backoff_max_s: Seconds | None = None


class GroupChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """PATCH ``groups``: settings, or ``seek`` to "earliest", "latest", an offset or a time."""

    topic: TopicName
    group: GroupName
    seek: Position | None = None
    max_deliveries: Annotated[int, Meta(ge=0, le=2**32 - 1)] | None = None
    backoff_s: Seconds | None = None
    backoff_max_s: Seconds | None = None
    dry_run: bool = False


class GroupChanged(msgspec.Struct, frozen=True, kw_only=True):
    """What PATCH or DELETE of a group does, or with ``dry_run`` would do."""

    topic: str
    group: str
    dry_run: bool
    position: int  # before
    seek_to: int | None = None  # the offset that ``seek`` means; None: it does not move
    skipped: int = 0  # messages that the group will not be given any more
    repeated: int = 0  # messages that it will be given again
    exhausted: int = 0  # pending messages that a lower ``max_deliveries`` makes dead letters
    in_flight: int = 0  # with workers now
    lag: int = 0  # before


class PendingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was delivered and is not done."""

    offset: int
    state: str  # in_flight, returned, delayed, exhausted
    holder: str  # the client that has it, by its id or else its worker; empty: nobody, or not kept
    worker: str  # the name under which the group knows it
    address: str  # of the holder; empty: not kept
    node: int  # that the holder is connected to; 0: not kept
    taken: str | None  # when it was last delivered
    until: str | None  # when the lease ends, or a delayed message falls due; None: no limit
    held_s: float | None  # how long the holder has had it
    attempts: int
    last_reason: str  # why it last came back
    priority: int
    lease: int | None
    not_kept: list[str]  # of these fields


class PendingMessages(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of one group by offset."""

    items: list[PendingMessage]
    next: str | None = None
    incomplete: list[Missing] = []


class PriorityDepth(msgspec.Struct, frozen=True, kw_only=True):
    """What waits of one priority."""

    priority: int  # 7 goes first
    waiting: int  # never delivered
    returned: int  # delivered, and to be delivered again
    not_due: int  # of those that wait: not before some time
    next_offset: int | None


class WaitingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One of the messages that are delivered next."""

    offset: int
    priority: int
    time: str | None
    attempts: int  # 0: it was never delivered
    payload: Payload | None  # None: the caller may not read the topic
    payload_bytes: int
    cut: bool


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """What a group will deliver, by priority, and the next messages in order."""

    topic: str
    group: str
    depths: list[PriorityDepth]  # the most urgent first
    next: list[WaitingMessage]
    looked_at: int  # messages whose priority was looked at
    complete: bool  # False: more wait than were looked at
