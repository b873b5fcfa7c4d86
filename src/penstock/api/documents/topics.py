"""Topics: the list, one of them, one level of the tree, the busiest."""

import msgspec

from penstock.api.documents.lists import Missing
from penstock.api.documents.payloads import Payload


class Topic(msgspec.Struct, frozen=True):
    """A topic that has messages, or had some: offsets ``first_offset`` to ``next_offset - 1``."""

    name: str
    first_offset: int
    next_offset: int
    messages: int  # that are there: some of the offsets may have been deleted
    bytes: int  # of payload
    created: str | None


class Topics(msgspec.Struct, frozen=True):
    """Topics by name; a filter may leave a page empty though there are more."""

    items: list[Topic]
    scanned: int  # names that were looked at
    next: str | None = None
    incomplete: list[Missing] = []


class Capture(msgspec.Struct, frozen=True):
    """Whether QoS 0 messages of a topic are journaled, and why or why not."""

    captured: bool
    reason: str  # a code: captured, excluded, off, reserved
    text: str  # the same in words


class TopicGroup(msgspec.Struct, frozen=True):
    """A consumer group of a topic."""

    group: str
    position: int  # the first offset that it has not been handed
    lag: int
    consumers: int


class Matches(msgspec.Struct, frozen=True):
    """Who gets the messages of a topic now."""

    sessions: int  # of MQTT clients, connected or away
    away: int  # of these
    live: int  # other subscribers: RESP, binary clients
    examples: list[str]  # client ids of some sessions


class TopicDetail(msgspec.Struct, frozen=True):
    """One topic. One that never had a message has ``messages`` 0 and ``exists`` false."""

    name: str
    exists: bool
    first_offset: int
    next_offset: int
    messages: int
    bytes: int
    created: str | None
    last_time: str | None  # of the newest message
    rate_per_s: float  # over the newest messages, of the last minute at most
    signature_required: bool
    capture: Capture
    groups: list[TopicGroup]
    matches: Matches
    retained: bool  # whether there is a retained message


class TopicDeleted(msgspec.Struct, frozen=True):
    """What was deleted, or would be."""

    name: str
    dry_run: bool
    messages: int
    bytes: int
    groups: list[str]


class Peek(msgspec.Struct, frozen=True):
    """The newest message of a topic, cut for a list."""

    topic: str
    offset: int
    next_offset: int
    time: str | None
    payload: Payload
    payload_bytes: int
    cut: bool
    format: str  # how ``payload`` is shown: json, text, msgpack, hex


class TreeNode(msgspec.Struct, frozen=True):
    """A name of one level: a topic, a branch, or both."""

    name: str  # as far as this level: ``plant/p7``; those below have the prefix ``plant/p7/``
    label: str  # the level alone: ``p7``
    is_topic: bool
    children: int  # topics below; at least so many if ``children_capped``
    children_capped: bool
    next_offset: int = 0
    messages: int = 0
    bytes: int = 0
    last: Peek | None = None  # if it was asked for, and may be read


class TreeLevel(msgspec.Struct, frozen=True):
    """The names of one level, in order. ``prefix`` is empty or ends with a slash."""

    prefix: str
    items: list[TreeNode]
    next: str | None = None
    incomplete: list[Missing] = []


class BusyTopic(msgspec.Struct, frozen=True):
    """A topic's part of the newest messages."""

    name: str
    messages: int
    bytes: int
    share: float  # of the messages looked at, 0 to 1
    rate_per_s: float


class Busiest(msgspec.Struct, frozen=True):
    """The topics with most messages among the newest ``looked_at`` in the journal."""

    items: list[BusyTopic]
    looked_at: int
    hidden: int  # of these, in topics that the caller may not read
    since: str | None
    until: str | None


class TopicValues(msgspec.Struct, frozen=True):
    """Newest messages of topics; as an event of the stream: of those with another one.

    ``gone``: topics that were deleted since.
    """

    items: list[Peek]
    gone: list[str] = []


class TopicDeletion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic to delete, with its messages, groups and settings."""

    name: str
    dry_run: bool = False
